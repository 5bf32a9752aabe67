//! Calibration after the fit, from rows that the fit has not seen: a temperature for classes, and split-conformal sets and
//! intervals whose coverage is guaranteed.
//!
//! Temperature (Guo et al. 2017): every draw's outputs are divided by the T that maximises the mean log-likelihood of the mixture
//! (1/S) Σₛ p(y | fₛ/T). One number cannot change which class a draw finds most probable, so it mends confidence, not errors.
//!
//! Split-conformal (Vovk et al. 2005; Lei et al. 2018): with the scores r₁ … rₙ of the held-back rows, let q be the
//! ⌈(n+1)·level⌉-th smallest. Then P(r_new ≤ q) ≥ level for a new row exchangeable with them, whatever the model, and
//! ≤ level + 1/(n+1) without ties. The score is |y − mean|/std for real and count outcomes (an interval mean ± q·std), and 1 − p̄_y for
//! classes (all classes with p̄ ≥ 1 − q, and the most probable one always). It is taken from the model's own probabilities: a
//! temperature fitted to the same rows would spoil the exchangeability. A row of several outcomes has the largest of their scores: its intervals hold all of them at
//! once with the probability that is promised.

use super::{ClassUncertainty, Predictive, RealUncertainty};
use crate::error::{Error, Result};
use crate::likelihood::Outcome;
use serde::{Deserialize, Serialize};

/// At most so many order statistics are kept; between two of them the larger is taken, which covers more.
const KEPT: usize = 1000;
/// Temperatures lie between 1/this and this: where every held-back row is right there would be no lower limit.
pub const HOTTEST: f64 = 20.0;

/// What a model learnt from rows that its fit had not seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// How many rows.
    pub rows: usize,
    /// What outputs are divided by; for class outcomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Conformal scores, ascending: all of them, or as many evenly spaced ones.
    scores: Vec<f64>,
}

impl Calibration {
    /// From uncalibrated predictions of held-back rows and their outcomes, in the user's units.
    pub fn fit(predictive: &Predictive, y: &[f64], outcome: Outcome) -> Result<Calibration> {
        let each = predictive.outcomes_per_row();
        let n = y.len() / each;
        if n < 2 {
            return Err(Error::data(format!("{n} rows cannot calibrate a model"), "give at least 2, better 100"));
        }
        let (mut scores, temperature): (Vec<f64>, _) = if outcome == Outcome::Class {
            let classes = predictive.classes();
            let scores = y.iter().enumerate().map(|(n, y)| 1.0 - classes.row(n)[*y as usize]).collect();
            (scores, Some(temperature(predictive, y)))
        } else {
            let real = predictive.real();
            (y.iter().enumerate().map(|(n, y)| (y - real.mean[n]).abs() / spread(&real, n)).collect(), None)
        };
        if each > 1 {
            scores = scores.chunks_exact(each).map(|row| row.iter().copied().fold(0.0, largest)).collect();
        }
        if scores.iter().any(|s| !s.is_finite()) {
            return Err(Error::numerical("a prediction of a held-back row is not finite", "look at its inputs"));
        }
        scores.sort_by(f64::total_cmp);
        if n > KEPT {
            scores = (0..KEPT).map(|i| scores[rank(i, n, KEPT) - 1]).collect();
        }
        Ok(Calibration { rows: n, temperature, scores })
    }

    /// Checks a calibration that came from a file.
    pub fn check(&self) -> Result<()> {
        let sound = self.rows >= 2
            && self.scores.len() == self.rows.min(KEPT)
            && self.scores.iter().all(|s| s.is_finite() && *s >= 0.0)
            && self.scores.is_sorted()
            && self.temperature.is_none_or(|t| t.is_finite() && t > 0.0);
        if sound { Ok(()) } else { Err(Error::data("the calibration contradicts itself", "calibrate the model again")) }
    }

    /// The score that a new row stays below with at least this probability; none where there were too few rows to know it.
    pub fn threshold(&self, level: f64) -> Option<f64> {
        // (n + 1)·0.9 of 9 rows is 9, although it is 9.000000000000002 in binary.
        let k = ((self.rows as f64 + 1.0) * level - 1e-9).ceil().max(1.0) as usize;
        let kept = self.scores.len();
        (0..kept).find(|i| rank(*i, self.rows, kept) >= k).map(|i| self.scores[i])
    }

    /// The highest level that so many rows can guarantee, n/(n + 1).
    pub fn highest_level(&self) -> f64 {
        self.rows as f64 / (self.rows as f64 + 1.0)
    }

    /// The interval of row n under a threshold, for real and count outcomes; whole numbers for counts.
    pub fn interval(threshold: f64, real: &RealUncertainty, n: usize, outcome: Outcome) -> (f64, f64) {
        let half = threshold * spread(real, n);
        let (low, high) = (real.mean[n] - half, real.mean[n] + half);
        if outcome == Outcome::Count { (low.ceil().max(0.0), high.floor().max(0.0)) } else { (low, high) }
    }

    /// The classes of row n under a threshold, by their numbers; never empty.
    pub fn set(threshold: f64, classes: &ClassUncertainty, n: usize) -> Vec<usize> {
        let (row, best) = (classes.row(n), classes.predicted(n));
        (0..row.len()).filter(|c| 1.0 - row[*c] <= threshold || *c == best).collect()
    }
}

/// The larger of two; what is not a number stays so.
fn largest(a: f64, b: f64) -> f64 {
    if a.is_nan() || b <= a { a } else { b }
}

/// The rank, from 1, of the i-th of `kept` evenly spaced order statistics of n; the last is the largest.
fn rank(i: usize, n: usize, kept: usize) -> usize {
    ((i + 1) * n).div_ceil(kept)
}

/// The standard deviation of row n, above 0.
fn spread(real: &RealUncertainty, n: usize) -> f64 {
    real.std(n).0.max(f64::MIN_POSITIVE)
}

/// The T with the best mean log-likelihood: the best of a grid in ln T, then golden section around it.
fn temperature(predictive: &Predictive, y: &[f64]) -> f64 {
    let score = |log: f64| predictive.clone().tempered(log.exp()).log_likelihood(y).iter().sum::<f64>();
    const GRID: i32 = 10;
    let step = HOTTEST.ln() / f64::from(GRID);
    let at = |i: i32| score(f64::from(i) * step);
    let (best, _) =
        (-GRID..=GRID).map(|i| (i, at(i))).fold((0, f64::NEG_INFINITY), |b, c| if c.1 > b.1 { c } else { b });
    let (mut low, mut high) = (f64::from(best - 1) * step, f64::from(best + 1) * step);
    let golden = 0.5 * (5.0f64.sqrt() - 1.0);
    let (mut a, mut b) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_a, mut at_b) = (score(a), score(b));
    while high - low > 1e-5 {
        if at_a > at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - golden * (high - low);
            at_a = score(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + golden * (high - low);
            at_b = score(b);
        }
    }
    (0.5 * (low + high)).exp().clamp(1.0 / HOTTEST, HOTTEST)
}
