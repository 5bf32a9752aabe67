//! Student's t noise: like the Gaussian, but an outlier costs a logarithm and not a square.
//!
//! log p(y|f) = c(ν) − ln σ − (ν+1)/2 · ln(1 + z²/ν), z = (y − f)/σ, c(ν) = ln Γ((ν+1)/2) − ln Γ(ν/2) − ½ ln πν.
//! d/df = (ν+1)/(ν + z²) · z/σ; d/d ln σ = (ν+1) z²/(ν + z²) − 1. The Hessian is the expected one (Fisher),
//! (ν+1)/((ν+3)σ²), since the observed one is negative for |z| > √ν. Degrees of freedom ν are fixed and above 2, so that
//! the variance σ²ν/(ν−2) exists. Lange, Little & Taylor, JASA 1989. One logarithm and two divisions per row.

use super::closed_form::student_scales;
use super::noise::{Noise, NoiseScale, noise_fields};
use super::pointwise::{Column, Kernel, Point, column};
use super::special::student_cdf;
use super::{ClosedForm, Likelihood, LikelihoodEntry, LikelihoodGradient, LikelihoodOps, NormalPart, Outcome};
use crate::error::Result;
use crate::math::Real;
use crate::math::special::{Standard, ln_student_constant};
use crate::nn::BlockSpec;
use crate::rng::Stream;
use crate::settings::{NamedOptions, Options, Settings};
use rand_distr::Distribution;
use std::sync::Arc;

crate::options! {
    /// Noise with heavy tails.
    pub struct StudentTOptions: "student-t" {
        /// degrees of freedom: the fewer, the heavier the tails
        degrees: f64 = 4.0 => Above(2.0, 1e12),
        ..noise_fields!,
    }
}

/// The row of the table.
pub(super) const ENTRY: LikelihoodEntry = LikelihoodEntry {
    name: StudentTOptions::NAME,
    summary: "noise with heavy tails: robust to outliers",
    settings: StudentTOptions::SETTINGS,
    outcome: Outcome::Real,
    build: |settings, width| Ok(Arc::new(StudentT::new(settings, width)?)),
};

/// y = f + σ t, with t of Student's distribution.
#[derive(Debug, Clone)]
pub struct StudentT {
    settings: Settings,
    targets: usize,
    scale: NoiseScale,
    degrees: f64,
    constant: f64,
    standard: Standard,
    /// Weights and variances of the normals that it is a mixture of.
    scales: Vec<(f64, f64)>,
}

impl StudentT {
    /// For so many targets.
    pub fn new(settings: &Settings, targets: usize) -> Result<StudentT> {
        super::require_targets("student-t", targets)?;
        let o = StudentTOptions::read(settings);
        let degrees = o.degrees;
        Ok(StudentT {
            settings: settings.clone(),
            targets,
            scale: NoiseScale::new(o.noise, o.noise_std, (o.noise_prior_mean, o.noise_prior_std)),
            degrees,
            constant: ln_student_constant(degrees),
            standard: Standard::student(degrees),
            scales: student_scales(degrees),
        })
    }

    fn log_prob_of(&self, target: usize, f: &[f64], y: f64, noise: &[f64]) -> f64 {
        let z = (y - f[target]) / self.scale.std(noise, target);
        let tail = 0.5 * (self.degrees + 1.0) * (z * z / self.degrees).ln_1p();
        self.constant - self.scale.log_std(noise, target) - tail
    }
}

#[derive(Clone, Copy)]
struct Heavy<R> {
    inverse_std: R,
    degrees: R,
    inverse_degrees: R,
}

impl<R: Real> Kernel<R> for Heavy<R> {
    type Value = R;
    #[inline(always)]
    fn at<const F: bool>(self, [f, _]: [R; 2], y: R) -> Point<R, R> {
        let z = (y - f) * self.inverse_std;
        let square = z * z;
        // ln(1 + x), with the digits that 1 + x loses put back.
        let x = square * self.inverse_degrees;
        let u = R::ONE + x;
        let log = u.ln_positive::<F>() - ((u - R::ONE) - x) / u;
        let pull = (self.degrees + R::ONE) / (self.degrees + square);
        Point { value: log, d_f: [pull * z * self.inverse_std, R::ZERO], d_noise: pull * square }
    }
}

impl<R: Real> LikelihoodOps<R> for StudentT {
    fn log_prob(
        &self,
        f: &[R],
        y: &[R],
        noise: &[R],
        weights: Option<&[R]>,
        scale: f64,
        gradient: Option<LikelihoodGradient<'_, R>>,
    ) -> f64 {
        let (mut d_f, mut d_noise) = super::split(gradient);
        let mut total = 0.0;
        for target in 0..self.targets {
            let log_std = self.scale.log_std(noise, target);
            let kernel = Heavy {
                inverse_std: R::of((-log_std).exp()),
                degrees: R::of(self.degrees),
                inverse_degrees: R::of(1.0 / self.degrees),
            };
            let at = Column { target, of: self.targets };
            let sums = column(kernel, at, f, y, weights, scale, d_f.as_deref_mut());
            total += sums.weight * (self.constant - log_std) - 0.5 * (self.degrees + 1.0) * sums.value;
            if let Some(d) = d_noise.as_deref_mut() {
                self.scale.add_gradient(d, target, scale * (sums.d_noise - sums.weight));
            }
        }
        scale * total
    }
}

impl Likelihood for StudentT {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
    fn settings(&self) -> &Settings {
        &self.settings
    }
    fn outcome(&self) -> Outcome {
        Outcome::Real
    }
    fn targets(&self) -> usize {
        self.targets
    }
    fn outputs(&self) -> usize {
        self.targets
    }
    fn blocks(&self) -> Vec<BlockSpec> {
        self.scale.blocks(self.targets)
    }
    fn noise_prior(&self) -> (f64, f64) {
        self.scale.prior()
    }
    fn initial_noise(&self) -> f64 {
        self.scale.initial()
    }
    fn standard(&self) -> Option<&Standard> {
        Some(&self.standard)
    }
    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        Some(self)
    }
    fn log_prob_row(&self, f: &[f64], y: &[f64], noise: &[f64]) -> f64 {
        (0..self.targets).map(|t| self.log_prob_of(t, f, y[t], noise)).sum()
    }
    fn log_prob_target(&self, target: usize, f: &[f64], y: f64, noise: &[f64]) -> Option<f64> {
        Some(self.log_prob_of(target, f, y, noise))
    }
    /// The expected one.
    fn hessian_row(&self, _f: &[f64], _y: &[f64], noise: &[f64], out: &mut [f64]) {
        let information = (self.degrees + 1.0) / (self.degrees + 3.0);
        super::diagonal(out, self.targets, |t| information * self.scale.std(noise, t).powi(-2));
    }
    fn moments(&self, f: &[f64], noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for t in 0..self.targets {
            mean[t] = f[t];
            variance[t] = self.scale.std(noise, t).powi(2) * self.degrees / (self.degrees - 2.0);
        }
    }
    fn moments_rows(&self, f: &[f32], noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for t in 0..self.targets {
            let v = self.scale.std(noise, t).powi(2) * self.degrees / (self.degrees - 2.0);
            for i in (t..mean.len()).step_by(self.targets) {
                mean[i] = f64::from(f[i]);
                variance[i] = v;
            }
        }
    }
    fn cdf(&self, target: usize, value: f64, f: &[f64], noise: &[f64]) -> f64 {
        student_cdf((value - f[target]) / self.scale.std(noise, target), self.degrees)
    }
    fn probabilities(&self, _f: &[f64], _out: &mut [f64]) {}
    fn sample(&self, f: &[f64], noise: &[f64], stream: &mut Stream, y: &mut [f64]) {
        for t in 0..self.targets {
            // `degrees` is above 2, so the distribution exists.
            let draw = rand_distr::StudentT::new(self.degrees).map_or(f64::NAN, |d| d.sample(stream));
            y[t] = f[t] + self.scale.std(noise, t) * draw;
        }
    }
}

impl ClosedForm for StudentT {
    fn normals(
        &self,
        target: usize,
        mean: &[f64],
        covariance: &[f64],
        noise: &[f64],
        push: &mut dyn FnMut(NormalPart),
    ) {
        let (spread, square) = (covariance[target * mean.len() + target], self.scale.std(noise, target).powi(2));
        for (weight, scale) in &self.scales {
            push(NormalPart { weight: *weight, mean: mean[target], std: (spread + square * scale).sqrt() });
        }
    }

    fn noise_variance(&self, target: usize, _mean: &[f64], _covariance: &[f64], noise: &[f64]) -> f64 {
        self.scale.std(noise, target).powi(2) * self.degrees / (self.degrees - 2.0)
    }
}
