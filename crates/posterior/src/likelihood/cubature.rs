//! E log p(y | f, η) where the outputs f and the likelihood's own parameters η are independent normals: no draws.
//!
//! E g(z) ≈ 1/(2D) Σ_d [g(m + √D·σ_d e_d) + g(m − √D·σ_d e_d)], z of D = outputs + parameters numbers: exact up to degree 3
//! (Stroud 1971; Arasaratnam & Haykin 2009), so exact for a Gaussian likelihood of fixed noise. Gradients are those of this
//! sum; in a variance, √D/(2σ_d) times the difference of the two slopes. Cost: 2D evaluations of the likelihood.

use super::{Likelihood, LikelihoodGradient};
use crate::Precision;
use crate::math::Real;
use crate::math::elementwise::axpy;
use crate::nn::noisy::TINY;

/// Means and variances of what the likelihood sees.
#[derive(Debug, Clone, Copy)]
pub struct Beliefs<'a, R> {
    /// Mean of f, `rows × outputs`.
    pub mean: &'a [R],
    /// Variance of f.
    pub variance: &'a [R],
    /// Mean of the likelihood's own parameters.
    pub noise_mean: &'a [R],
    /// Their variance.
    pub noise_variance: &'a [R],
}

/// Where the gradient in [`Beliefs`] goes: that in f overwritten, that in the likelihood's own parameters added to.
#[derive(Debug)]
pub struct BeliefGradient<'a, R> {
    /// d/d mean of f.
    pub mean: &'a mut [R],
    /// d/d variance of f.
    pub variance: &'a mut [R],
    /// d/d mean of the likelihood's own parameters.
    pub noise_mean: &'a mut [f64],
    /// d/d variance of them.
    pub noise_variance: &'a mut [f64],
}

/// The rule's buffers for up to a fixed number of rows.
#[derive(Debug)]
pub struct Cubature<R> {
    f: Vec<R>,
    d_f: Vec<R>,
    noise: Vec<R>,
    d_noise: Vec<f64>,
}

/// The standard deviation of a variance, and never 0.
fn std<R: Real>(variance: R) -> R {
    (variance + R::of(TINY)).sqrt()
}

impl<R: Precision> Cubature<R> {
    /// For up to `rows` rows.
    pub fn new(likelihood: &dyn Likelihood, rows: usize) -> Cubature<R> {
        let numbers = rows * likelihood.outputs();
        let noises = likelihood.blocks().iter().map(|b| b.len()).sum();
        Cubature {
            f: vec![R::ZERO; numbers],
            d_f: vec![R::ZERO; numbers],
            noise: vec![R::ZERO; noises],
            d_noise: vec![0.0; noises],
        }
    }

    /// scale · Σₙ weightₙ · E log p(yₙ | fₙ, η), and its gradient.
    pub fn expected_log_prob(
        &mut self,
        likelihood: &dyn Likelihood,
        at: Beliefs<'_, R>,
        y: &[R],
        weights: Option<&[R]>,
        scale: f64,
        gradient: BeliefGradient<'_, R>,
    ) -> f64 {
        let outputs = likelihood.outputs();
        let likelihood = R::likelihood(likelihood);
        let dimensions = outputs + at.noise_mean.len();
        let root = (dimensions as f64).sqrt();
        let share = scale / (2 * dimensions) as f64;
        let n = at.mean.len();
        let (f, d_f) = (&mut self.f[..n], &mut self.d_f[..n]);
        gradient.mean.fill(R::ZERO);
        gradient.variance.fill(R::ZERO);
        f.copy_from_slice(at.mean);
        let mut total = 0.0;
        for k in 0..outputs {
            for side in [root, -root] {
                for i in (k..n).step_by(outputs) {
                    f[i] = at.mean[i] + R::of(side) * std(at.variance[i]);
                }
                let slopes = LikelihoodGradient { d_f: &mut *d_f, d_noise: &mut *gradient.noise_mean };
                total += likelihood.log_prob(f, y, at.noise_mean, weights, share, Some(slopes));
                axpy(R::ONE, d_f, gradient.mean);
                for i in (k..n).step_by(outputs) {
                    gradient.variance[i] += R::of(0.5 * side) * d_f[i] / std(at.variance[i]);
                }
            }
            for i in (k..n).step_by(outputs) {
                f[i] = at.mean[i];
            }
        }
        self.noise.copy_from_slice(at.noise_mean);
        for k in 0..self.noise.len() {
            let std = std(at.noise_variance[k]);
            for side in [root, -root] {
                self.noise[k] = at.noise_mean[k] + R::of(side) * std;
                self.d_noise.fill(0.0);
                let slopes = LikelihoodGradient { d_f: &mut *d_f, d_noise: &mut self.d_noise };
                total += likelihood.log_prob(f, y, &self.noise, weights, share, Some(slopes));
                axpy(R::ONE, d_f, gradient.mean);
                gradient.noise_mean.iter_mut().zip(&self.d_noise).for_each(|(sum, d)| *sum += d);
                gradient.noise_variance[k] += 0.5 * side * self.d_noise[k] / std.f64();
            }
            self.noise[k] = at.noise_mean[k];
        }
        total
    }
}
