//! Normal noise whose scale the network gives as well: it may differ from input to input.
//!
//! A row of f is [means…, s…]; σ = softplus(s) + 10⁻⁴ and log p = −½ ((y − m)/σ)² − ln σ − ½ ln 2π. Softplus rather than
//! an exponential: σ then grows in proportion to s, so one large output does not blow up σ and its gradient. The floor,
//! 10⁻⁴ of the target's standard deviation, keeps log p bounded where a flexible network meets rows without noise.
//! d/dm = z/σ, d/ds = (z² − 1)/σ · sigmoid(s), with z = (y − m)/σ. The Hessian is the expected one (Fisher), since the
//! observed one is indefinite. Nix & Weigend, ICNN 1994; Kendall & Gal, NeurIPS 2017. Two exponentials or so per row.

use super::pointwise::{Column, Kernel, Point, column};
use super::special::{sigmoid, softplus};
use super::{
    ClosedForm, Likelihood, LikelihoodEntry, LikelihoodGradient, LikelihoodOps, NormalPart, Outcome, normal_nodes,
};
use crate::error::Result;
use crate::math::Real;
use crate::math::special::{HALF_LN_TAU, normal_cdf};
use crate::rng::Stream;
use crate::settings::{NamedOptions, Options, Settings};
use std::sync::Arc;

crate::options! {
    /// Normal noise whose scale depends on the input.
    pub struct HeteroscedasticOptions: "heteroscedastic" {}
}

/// The row of the table.
pub(super) const ENTRY: LikelihoodEntry = LikelihoodEntry {
    name: HeteroscedasticOptions::NAME,
    summary: "normal noise whose scale depends on the input",
    settings: HeteroscedasticOptions::SETTINGS,
    outcome: Outcome::Real,
    build: |settings, width| Ok(Arc::new(Heteroscedastic::new(settings, width)?)),
};

/// The smallest σ, in standard deviations of the target.
pub const FLOOR: f64 = 1e-4;

/// y = m(x) + σ(x) ε.
#[derive(Debug, Clone)]
pub struct Heteroscedastic {
    settings: Settings,
    targets: usize,
}

impl Heteroscedastic {
    /// For so many targets.
    pub fn new(settings: &Settings, targets: usize) -> Result<Heteroscedastic> {
        super::require_targets("heteroscedastic", targets)?;
        Ok(Heteroscedastic { settings: settings.clone(), targets })
    }

    fn std(&self, f: &[f64], target: usize) -> f64 {
        softplus(f[self.targets + target]) + FLOOR
    }

    fn log_prob_of(&self, target: usize, f: &[f64], y: f64) -> f64 {
        let std = self.std(f, target);
        let z = (y - f[target]) / std;
        -0.5 * z * z - std.ln() - HALF_LN_TAU
    }
}

#[derive(Clone, Copy)]
struct NormalOfTwo;

impl<R: Real> Kernel<R> for NormalOfTwo {
    const OUTPUTS: usize = 2;
    type Value = R;
    #[inline(always)]
    fn at<const F: bool>(self, [m, s]: [R; 2], y: R) -> Point<R, R> {
        let std = s.softplus::<F>() + R::of(FLOOR);
        let inverse = R::ONE / std;
        let z = (y - m) * inverse;
        let square = z * z;
        // The floor keeps σ positive and normal. An overflow of z² in f32 would take a residual of 10¹⁵.
        let value = -(R::HALF * square + std.ln_positive::<F>());
        let d_s = (square - R::ONE) * inverse * s.sigmoid::<F>();
        Point { value, d_f: [z * inverse, d_s], d_noise: R::ZERO }
    }
}

impl<R: Real> LikelihoodOps<R> for Heteroscedastic {
    fn log_prob(
        &self,
        f: &[R],
        y: &[R],
        _noise: &[R],
        weights: Option<&[R]>,
        scale: f64,
        gradient: Option<LikelihoodGradient<'_, R>>,
    ) -> f64 {
        let (mut d_f, _) = super::split(gradient);
        let mut total = 0.0;
        for target in 0..self.targets {
            let at = Column { target, of: self.targets };
            let sums = column(NormalOfTwo, at, f, y, weights, scale, d_f.as_deref_mut());
            total += sums.value - sums.weight * HALF_LN_TAU;
        }
        scale * total
    }
}

impl Likelihood for Heteroscedastic {
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
        2 * self.targets
    }
    fn noise_outputs(&self) -> std::ops::Range<usize> {
        self.targets..2 * self.targets
    }
    fn is_normal(&self) -> bool {
        true
    }
    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        Some(self)
    }
    fn log_prob_row(&self, f: &[f64], y: &[f64], _noise: &[f64]) -> f64 {
        (0..self.targets).map(|t| self.log_prob_of(t, f, y[t])).sum()
    }
    fn log_prob_target(&self, target: usize, f: &[f64], y: f64, _noise: &[f64]) -> Option<f64> {
        Some(self.log_prob_of(target, f, y))
    }
    /// The expected one: 1/σ² for the mean, 2 sigmoid(s)²/σ² for s.
    fn hessian_row(&self, f: &[f64], _y: &[f64], _noise: &[f64], out: &mut [f64]) {
        super::diagonal(out, 2 * self.targets, |i| {
            let t = i % self.targets;
            let std = self.std(f, t);
            if i < self.targets { std.powi(-2) } else { 2.0 * (sigmoid(f[i]) / std).powi(2) }
        });
    }
    fn moments(&self, f: &[f64], _noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for t in 0..self.targets {
            mean[t] = f[t];
            variance[t] = self.std(f, t).powi(2);
        }
    }
    fn cdf(&self, target: usize, value: f64, f: &[f64], _noise: &[f64]) -> f64 {
        normal_cdf((value - f[target]) / self.std(f, target))
    }
    fn probabilities(&self, _f: &[f64], _out: &mut [f64]) {}
    fn sample(&self, f: &[f64], _noise: &[f64], stream: &mut Stream, y: &mut [f64]) {
        for t in 0..self.targets {
            y[t] = f[t] + self.std(f, t) * stream.normal();
        }
    }
}

/// A target's part of the outputs' covariance: variances of its mean and of its noise output, and their covariance.
fn pair(target: usize, targets: usize, covariance: &[f64]) -> (f64, f64, f64) {
    let (k, s) = (2 * targets, targets + target);
    (covariance[target * k + target], covariance[s * k + s], covariance[target * k + s])
}

impl ClosedForm for Heteroscedastic {
    /// The noise output at nodes; given it, the mean output is normal.
    fn normals(
        &self,
        target: usize,
        mean: &[f64],
        covariance: &[f64],
        _noise: &[f64],
        push: &mut dyn FnMut(NormalPart),
    ) {
        let (of_mean, of_noise, both) = pair(target, self.targets, covariance);
        let (m, s, root) = (mean[target], mean[self.targets + target], of_noise.max(0.0).sqrt());
        let slope = if root > 0.0 { both / root } else { 0.0 };
        let rest = (of_mean - slope * slope).max(0.0);
        for (z, weight) in normal_nodes(root) {
            let std = softplus(s + root * z) + FLOOR;
            push(NormalPart { weight, mean: m + slope * z, std: (rest + std * std).sqrt() });
        }
    }

    fn noise_variance(&self, target: usize, mean: &[f64], covariance: &[f64], _noise: &[f64]) -> f64 {
        let root = pair(target, self.targets, covariance).1.max(0.0).sqrt();
        let s = mean[self.targets + target];
        normal_nodes(root).map(|(z, w)| w * (softplus(s + root * z) + FLOOR).powi(2)).sum()
    }
}
