//! Counts: f + offset is the logarithm of the rate. The offset is the logarithm of a usual count, so that a network whose
//! weights are small by their prior starts there and not at one.
//!
//! With η = f + offset: log p(y|f) = y η − e^η − ln y!; d/df = y − e^η; −d²/df² = e^η; mean and variance e^η. McCullagh & Nelder, Generalized Linear
//! Models, §6.2. The terms are large and cancel for large counts, so all is done in f64 whatever the network's precision:
//! one exponential in f64 per row, and ln y! from a table.
//!
//! Nothing overflows: the exponential stops at f = 700 (a rate of 10³⁰⁴), and the gradient at 10³² in f32 (10³⁰⁰ in
//! f64), so that it remains finite when multiplied with N/|B|. Below these the formulas are exact.

use super::pointwise::{Column, Kernel, Point, column};
use super::special::{ln_factorial, poisson_cdf};
use super::{Likelihood, LikelihoodEntry, LikelihoodGradient, LikelihoodOps, Outcome};
use crate::error::Result;
use crate::math::Real;
use crate::rng::Stream;
use crate::settings::{NamedOptions, Options, Settings};
use rand_distr::Distribution;
use std::sync::Arc;

crate::options! {
    /// Counts, with the logarithm of the rate by the network.
    pub struct PoissonOptions: "poisson" {
        /// added to the network's output; from a data file, the logarithm of the mean count unless given
        offset: f64 = 0.0 => Float(-50.0, 50.0),
    }
}

/// The row of the table.
pub(super) const ENTRY: LikelihoodEntry = LikelihoodEntry {
    name: PoissonOptions::NAME,
    summary: "counts 0, 1, 2, …; the network gives the logarithm of the rate",
    settings: PoissonOptions::SETTINGS,
    outcome: Outcome::Count,
    build: |settings, width| Ok(Arc::new(Poisson::new(settings, width)?)),
};

/// Where the exponential stops.
const LARGEST: f64 = 700.0;

/// y ~ Poisson(e^(f + offset)).
#[derive(Debug, Clone)]
pub struct Poisson {
    settings: Settings,
    targets: usize,
    offset: f64,
}

impl Poisson {
    fn rate(&self, f: f64) -> f64 {
        let log_rate = f + self.offset;
        if log_rate > LARGEST { LARGEST.exp() } else { log_rate.exp() }
    }

    /// For so many targets.
    pub fn new(settings: &Settings, targets: usize) -> Result<Poisson> {
        super::require_targets("poisson", targets)?;
        Ok(Poisson { settings: settings.clone(), targets, offset: PoissonOptions::read(settings).offset })
    }
}

#[derive(Clone, Copy)]
struct LogRate {
    offset: f64,
    steepest: f64,
}

impl<R: Real> Kernel<R> for LogRate {
    type Value = f64;
    #[inline(always)]
    fn at<const F: bool>(self, [f, _]: [R; 2], y: R) -> Point<R, f64> {
        let (f, y) = (f.f64() + self.offset, y.f64());
        let rate = Real::exp::<F>(Real::min(f, LARGEST));
        let slope = Real::max(y - rate, -self.steepest);
        Point { value: y * f - rate, d_f: [R::of(slope), R::ZERO], d_noise: 0.0 }
    }
}

impl<R: Real> LikelihoodOps<R> for Poisson {
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
        let kernel = LogRate { offset: self.offset, steepest: if R::of(1e300).is_finite() { 1e300 } else { 1e32 } };
        let mut total = 0.0;
        for target in 0..self.targets {
            let at = Column { target, of: self.targets };
            total += column(kernel, at, f, y, weights, scale, d_f.as_deref_mut()).value;
        }
        let constants: f64 = match weights {
            None => y.iter().map(|y| ln_factorial(y.f64())).sum(),
            Some(w) => {
                let row = |y: &[R]| y.iter().map(|y| ln_factorial(y.f64())).sum::<f64>();
                y.chunks_exact(self.targets).zip(w).map(|(y, w)| w.f64() * row(y)).sum()
            }
        };
        scale * (total - constants)
    }
}

impl Likelihood for Poisson {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
    fn settings(&self) -> &Settings {
        &self.settings
    }
    fn outcome(&self) -> Outcome {
        Outcome::Count
    }
    fn targets(&self) -> usize {
        self.targets
    }
    fn outputs(&self) -> usize {
        self.targets
    }
    fn log_prob_row(&self, f: &[f64], y: &[f64], _noise: &[f64]) -> f64 {
        (0..self.targets).map(|t| y[t] * (f[t] + self.offset) - self.rate(f[t]) - ln_factorial(y[t])).sum()
    }
    fn hessian_row(&self, f: &[f64], _y: &[f64], _noise: &[f64], out: &mut [f64]) {
        super::diagonal(out, self.targets, |t| self.rate(f[t]));
    }
    fn moments(&self, f: &[f64], _noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for t in 0..self.targets {
            mean[t] = self.rate(f[t]);
            variance[t] = mean[t];
        }
    }
    fn cdf(&self, target: usize, value: f64, f: &[f64], _noise: &[f64]) -> f64 {
        poisson_cdf(value.floor(), self.rate(f[target]))
    }
    fn smooth_cdf(&self, target: usize, value: f64, f: &[f64], _noise: &[f64]) -> f64 {
        poisson_cdf(value, self.rate(f[target]))
    }
    fn probabilities(&self, _f: &[f64], _out: &mut [f64]) {}
    fn sample(&self, f: &[f64], _noise: &[f64], stream: &mut Stream, y: &mut [f64]) {
        for t in 0..self.targets {
            let rate = self.rate(f[t]);
            y[t] = if rate > 1e15 {
                // Whole numbers in f64 end here; the normal limit is exact to 1e-8.
                (rate + rate.sqrt() * stream.normal()).round()
            } else {
                // Only a rate of 0 (or not-a-number) is refused: its count is 0.
                rand_distr::Poisson::new(rate).map_or(rate * 0.0, |d| d.sample(stream))
            };
        }
    }
}
