//! Normal noise of one scale per target, fixed or learned.
//!
//! log p(y|f) = −½ ((y − f)/σ)² − ln σ − ½ ln 2π; d/df = (y − f)/σ²; d/d ln σ = ((y − f)/σ)² − 1; −d²/df² = 1/σ².
//! The scale and its prior are those of `noise.rs`. Bishop, Pattern Recognition and Machine Learning, §3.1. One
//! multiply-add or two per row.

use super::noise::{Noise, NoiseScale, noise_fields};
use super::pointwise::{Column, Kernel, Point, column};
use super::{ClosedForm, Likelihood, LikelihoodEntry, LikelihoodGradient, LikelihoodOps, NormalPart, Outcome};
use crate::error::Result;
use crate::math::Real;
use crate::math::special::{HALF_LN_TAU, normal_cdf};
use crate::nn::BlockSpec;
use crate::rng::Stream;
use crate::settings::{NamedOptions, Options, Settings};
use std::sync::Arc;

crate::options! {
    /// Normal noise of the same scale everywhere.
    pub struct GaussianOptions: "gaussian" {
        ..noise_fields!,
    }
}

/// The row of the table.
pub(super) const ENTRY: LikelihoodEntry = LikelihoodEntry {
    name: GaussianOptions::NAME,
    summary: "normal noise of the same scale everywhere",
    settings: GaussianOptions::SETTINGS,
    outcome: Outcome::Real,
    build: |settings, width| Ok(Arc::new(Gaussian::new(settings, width)?)),
};

/// y = f + σ ε.
#[derive(Debug, Clone)]
pub struct Gaussian {
    settings: Settings,
    targets: usize,
    scale: NoiseScale,
}

impl Gaussian {
    /// For so many targets.
    pub fn new(settings: &Settings, targets: usize) -> Result<Gaussian> {
        super::require_targets("gaussian", targets)?;
        let o = GaussianOptions::read(settings);
        let scale = NoiseScale::new(o.noise, o.noise_std, (o.noise_prior_mean, o.noise_prior_std));
        Ok(Gaussian { settings: settings.clone(), targets, scale })
    }

    fn log_prob_of(&self, target: usize, f: &[f64], y: f64, noise: &[f64]) -> f64 {
        let z = (y - f[target]) / self.scale.std(noise, target);
        -0.5 * z * z - self.scale.log_std(noise, target) - HALF_LN_TAU
    }
}

#[derive(Clone, Copy)]
struct Normal<R> {
    precision: R,
}

impl<R: Real> Kernel<R> for Normal<R> {
    type Value = R;
    #[inline(always)]
    fn at<const F: bool>(self, [f, _]: [R; 2], y: R) -> Point<R, R> {
        let residual = y - f;
        Point { value: residual * residual, d_f: [residual * self.precision, R::ZERO], d_noise: R::ZERO }
    }
}

impl<R: Real> LikelihoodOps<R> for Gaussian {
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
            let precision = (-2.0 * log_std).exp();
            let kernel = Normal { precision: R::of(precision) };
            let at = Column { target, of: self.targets };
            let sums = column(kernel, at, f, y, weights, scale, d_f.as_deref_mut());
            let squares = sums.value * precision;
            total -= 0.5 * squares + sums.weight * (log_std + HALF_LN_TAU);
            if let Some(d) = d_noise.as_deref_mut() {
                self.scale.add_gradient(d, target, scale * (squares - sums.weight));
            }
        }
        scale * total
    }
}

impl Likelihood for Gaussian {
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
    fn as_gaussian(&self, noise: &[f64]) -> Option<Vec<f64>> {
        Some((0..self.targets).map(|t| self.scale.std(noise, t).powi(2)).collect())
    }
    fn is_normal(&self) -> bool {
        true
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
    fn hessian_row(&self, _f: &[f64], _y: &[f64], noise: &[f64], out: &mut [f64]) {
        super::diagonal(out, self.targets, |t| self.scale.std(noise, t).powi(-2));
    }
    fn moments(&self, f: &[f64], noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for t in 0..self.targets {
            mean[t] = f[t];
            variance[t] = self.scale.std(noise, t).powi(2);
        }
    }
    fn moments_rows(&self, f: &[f32], noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for t in 0..self.targets {
            let v = self.scale.std(noise, t).powi(2);
            for i in (t..mean.len()).step_by(self.targets) {
                mean[i] = f64::from(f[i]);
                variance[i] = v;
            }
        }
    }
    fn cdf(&self, target: usize, value: f64, f: &[f64], noise: &[f64]) -> f64 {
        normal_cdf((value - f[target]) / self.scale.std(noise, target))
    }
    fn probabilities(&self, _f: &[f64], _out: &mut [f64]) {}
    fn sample(&self, f: &[f64], noise: &[f64], stream: &mut Stream, y: &mut [f64]) {
        for t in 0..self.targets {
            y[t] = f[t] + self.scale.std(noise, t) * stream.normal();
        }
    }
}

impl ClosedForm for Gaussian {
    fn normals(
        &self,
        target: usize,
        mean: &[f64],
        covariance: &[f64],
        noise: &[f64],
        push: &mut dyn FnMut(NormalPart),
    ) {
        let variance = covariance[target * mean.len() + target] + self.scale.std(noise, target).powi(2);
        push(NormalPart { weight: 1.0, mean: mean[target], std: variance.sqrt() });
    }

    fn noise_variance(&self, target: usize, _mean: &[f64], _covariance: &[f64], noise: &[f64]) -> f64 {
        self.scale.std(noise, target).powi(2)
    }
}
