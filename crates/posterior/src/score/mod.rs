//! How good predictions are, on rows whose outcome is known. One file per metric, one line each in [`METRICS`].
//!
//! A score is a functional of how much each row counts: all rows once give its value, the counts of rows drawn with replacement give its
//! bootstrap standard error ([`rate`]).

mod accuracy;
mod auroc;
mod bootstrap;
mod brier;
mod coverage;
mod crps;
mod curves;
mod ece;
mod ece_classwise;
mod ece_equal_mass;
mod log_likelihood;
mod mae;
mod pit;
mod ranking;
mod risk_coverage;
mod rmse;
mod roc;
mod width;

pub use bootstrap::{RESAMPLES, Rated, rate};
pub use curves::{Bin, pit_histogram, reliability, risk_coverage_curve};
pub use ranking::{mean_and_error, mean_ranks, paired};
pub use roc::Roc;

use crate::likelihood::Outcome;
use crate::predict::{ClassUncertainty, Predictive, RealUncertainty};
use std::sync::OnceLock;

/// Probabilities of the central intervals that are scored.
pub const LEVELS: [f64; 4] = [0.5, 0.8, 0.9, 0.95];

/// Predictions and outcomes, with what several metrics need worked out once.
#[derive(Debug)]
pub struct Scored<'a> {
    /// The predictive distribution.
    pub predictive: &'a Predictive,
    /// What came true, in the user's units; a class is its number.
    pub y: &'a [f64],
    /// For real and count outcomes.
    pub real: Option<RealUncertainty>,
    /// For class outcomes.
    pub classes: Option<ClassUncertainty>,
    intervals: OnceLock<Vec<f64>>,
    pit: OnceLock<Vec<(f64, f64)>>,
}

impl<'a> Scored<'a> {
    /// Predictions at rows with known outcomes of the given kind.
    pub fn new(predictive: &'a Predictive, y: &'a [f64], outcome: Outcome) -> Scored<'a> {
        let class = outcome == Outcome::Class;
        Scored {
            predictive,
            y,
            real: (!class).then(|| predictive.real()),
            classes: class.then(|| predictive.classes()),
            intervals: OnceLock::new(),
            pit: OnceLock::new(),
        }
    }

    /// Lower and upper bound of the central interval of every row with probability `LEVELS[level]`; for real and count outcomes.
    pub fn intervals(&self, level: usize) -> impl ExactSizeIterator<Item = (f64, f64)> {
        let all = self.intervals.get_or_init(|| {
            let levels: Vec<f64> = LEVELS.iter().flat_map(|p| [0.5 - 0.5 * p, 0.5 + 0.5 * p]).collect();
            self.predictive.quantiles(&levels)
        });
        all.chunks_exact(2 * LEVELS.len()).map(move |row| (row[2 * level], row[2 * level + 1]))
    }

    /// Where every outcome lies in its predictive distribution; for real and count outcomes. See [`Predictive::pit`].
    pub fn pit(&self) -> &[(f64, f64)] {
        self.pit.get_or_init(|| self.predictive.pit(self.y))
    }

    /// How unsure each row is, and how wrong: 1 − the largest probability and 0 or 1, or the standard deviation and the absolute
    /// error.
    pub fn doubt_and_loss(&self) -> Option<Vec<(f64, f64)>> {
        let rows = 0..self.y.len();
        if let Some(real) = &self.real {
            return Some(rows.map(|n| (real.std(n).0, (real.mean[n] - self.y[n]).abs())).collect());
        }
        let classes = self.classes.as_ref()?;
        let one = |n: usize| {
            let predicted = classes.predicted(n);
            (1.0 - classes.row(n)[predicted], if predicted as f64 == self.y[n] { 0.0 } else { 1.0 })
        };
        Some(rows.map(one).collect())
    }
}

/// A score as a function of how often each row counts. Rows that do not count do not matter, whatever they hold.
pub type Functional = Box<dyn Fn(&[f64]) -> f64 + Send + Sync>;

/// What a metric says of scored rows.
pub enum Score {
    /// A number, with its spread by resampling rows.
    Of(Functional),
    /// No number on these rows, and why.
    Undefined(String),
}

/// A row of [`METRICS`].
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// What it is called in tables and JSON.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// Whether larger is better; none where a target value is best.
    pub larger_is_better: Option<bool>,
    /// Whether it has a place in a short table.
    pub short: bool,
    /// The score, where the kind of outcome has it.
    pub functional: fn(&Scored<'_>) -> Option<Score>,
}

impl Metric {
    /// The value, where it is defined.
    pub fn score(&self, scored: &Scored<'_>) -> Option<f64> {
        match (self.functional)(scored)? {
            Score::Of(f) if !scored.y.is_empty() => Some(f(&vec![1.0; scored.y.len()])),
            _ => None,
        }
    }
}

/// Every metric.
pub const METRICS: &[Metric] = &[
    log_likelihood::METRIC,
    rmse::METRIC,
    mae::METRIC,
    crps::METRIC,
    coverage::metric::<0>(),
    coverage::metric::<1>(),
    coverage::metric::<2>(),
    coverage::metric::<3>(),
    width::metric::<0>(),
    width::metric::<1>(),
    width::metric::<2>(),
    width::metric::<3>(),
    pit::METRIC,
    accuracy::METRIC,
    brier::METRIC,
    auroc::METRIC,
    ece::METRIC,
    ece_equal_mass::METRIC,
    ece_classwise::METRIC,
    risk_coverage::METRIC,
];

/// A metric by name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|m| m.name == name)
}

/// Σ wᵢ vᵢ / Σ wᵢ over rows that count.
fn weighted_mean(values: &[f64], weights: &[f64]) -> f64 {
    let (mut sum, mut total) = (0.0, 0.0);
    for (v, w) in values.iter().zip(weights).filter(|(_, w)| **w > 0.0) {
        sum += v * w;
        total += w;
    }
    sum / total
}

/// The mean of a number per row.
fn mean(values: Vec<f64>) -> Option<Score> {
    Some(Score::Of(Box::new(move |weights| weighted_mean(&values, weights))))
}

/// Σ_b |Σ_{n in b} wₙ·gapₙ| / Σ w, for rows sorted into bins.
fn binned_gap(bins: usize, bin: &[usize], gap: &[f64], weights: &[f64]) -> f64 {
    let mut sums = vec![0.0; bins];
    for ((b, g), w) in bin.iter().zip(gap).zip(weights) {
        sums[*b] += w * g;
    }
    sums.iter().map(|s: &f64| s.abs()).sum::<f64>() / weights.iter().sum::<f64>()
}

/// Bins of every calibration error.
pub const BINS: usize = 15;

/// The bin of equal width that holds a probability; the upper edge belongs to it.
fn bin_of(p: f64) -> usize {
    ((p * BINS as f64).ceil() as usize).clamp(1, BINS) - 1
}
