//! Two classes from one output: class 1 has the probability sigmoid(f).
//!
//! log p(y|f) = −softplus(f) for class 0 and −softplus(−f) for class 1, exact in both tails; d/df = y − sigmoid(f);
//! −d²/df² = p(1 − p). The same as two classes of softmax with outputs (0, f). Bishop, PRML, §4.3.2. One exponential and
//! one logarithm per row.

use super::pointwise::{Column, Kernel, Point, column};
use super::special::{sigmoid, softplus};
use super::{Likelihood, LikelihoodEntry, LikelihoodGradient, LikelihoodOps, Outcome};
use crate::error::{Error, Result};
use crate::math::Real;
use crate::rng::Stream;
use crate::settings::{NamedOptions, Options, Settings};
use std::sync::Arc;

crate::options! {
    /// Two classes, with the log-odds of the second by the network.
    pub struct BernoulliOptions: "bernoulli" {}
}

/// The row of the table.
pub(super) const ENTRY: LikelihoodEntry = LikelihoodEntry {
    name: BernoulliOptions::NAME,
    summary: "two classes; the network gives the log-odds of the second",
    settings: BernoulliOptions::SETTINGS,
    outcome: Outcome::Class,
    build: |settings, width| Ok(Arc::new(Bernoulli::new(settings, width)?)),
};

/// P(y = 1) = sigmoid(f).
#[derive(Debug, Clone)]
pub struct Bernoulli {
    settings: Settings,
}

impl Bernoulli {
    /// `classes` must be 2.
    pub fn new(settings: &Settings, classes: usize) -> Result<Bernoulli> {
        if classes != 2 {
            let what = format!("the likelihood 'bernoulli' is for two classes, and there are {classes}");
            let fix = if classes > 2 { "use 'categorical'" } else { "classification needs at least two classes" };
            return Err(Error::setting(what, fix));
        }
        Ok(Bernoulli { settings: settings.clone() })
    }
}

#[derive(Clone, Copy)]
struct LogOdds;

impl<R: Real> Kernel<R> for LogOdds {
    type Value = R;
    #[inline(always)]
    fn at<const F: bool>(self, [f, _]: [R; 2], y: R) -> Point<R, R> {
        // Both classes are the same formula with the sign of f turned.
        let sign = R::ONE - (y + y);
        let turned = sign * f;
        let value = -turned.softplus::<F>();
        let value = if sign.abs() == R::ONE { value } else { R::of(f64::NEG_INFINITY) }; // no such class
        Point { value, d_f: [-(sign * turned.sigmoid::<F>()), R::ZERO], d_noise: R::ZERO }
    }
}

impl<R: Real> LikelihoodOps<R> for Bernoulli {
    fn log_prob(
        &self,
        f: &[R],
        y: &[R],
        _noise: &[R],
        weights: Option<&[R]>,
        scale: f64,
        gradient: Option<LikelihoodGradient<'_, R>>,
    ) -> f64 {
        let (d_f, _) = super::split(gradient);
        scale * column(LogOdds, Column { target: 0, of: 1 }, f, y, weights, scale, d_f).value
    }
}

impl Likelihood for Bernoulli {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
    fn settings(&self) -> &Settings {
        &self.settings
    }
    fn outcome(&self) -> Outcome {
        Outcome::Class
    }
    fn targets(&self) -> usize {
        1
    }
    fn outputs(&self) -> usize {
        1
    }
    fn classes(&self) -> usize {
        2
    }
    fn log_prob_row(&self, f: &[f64], y: &[f64], _noise: &[f64]) -> f64 {
        if y[0] == 0.0 {
            -softplus(f[0])
        } else if y[0] == 1.0 {
            -softplus(-f[0])
        } else {
            f64::NEG_INFINITY
        }
    }
    fn hessian_row(&self, f: &[f64], _y: &[f64], _noise: &[f64], out: &mut [f64]) {
        out[0] = sigmoid(f[0]) * sigmoid(-f[0]);
    }
    /// Of the class as a number: p and p(1 − p).
    fn moments(&self, f: &[f64], _noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        mean[0] = sigmoid(f[0]);
        variance[0] = sigmoid(f[0]) * sigmoid(-f[0]);
    }
    /// Of the class as a number.
    fn cdf(&self, _target: usize, value: f64, f: &[f64], _noise: &[f64]) -> f64 {
        if value < 0.0 {
            0.0
        } else if value < 1.0 {
            sigmoid(-f[0])
        } else {
            1.0
        }
    }
    fn probabilities(&self, f: &[f64], out: &mut [f64]) {
        out[0] = sigmoid(-f[0]);
        out[1] = sigmoid(f[0]);
    }
    fn sample(&self, f: &[f64], _noise: &[f64], stream: &mut Stream, y: &mut [f64]) {
        y[0] = if stream.uniform() < sigmoid(f[0]) { 1.0 } else { 0.0 };
    }
}
