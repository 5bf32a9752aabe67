//! How good predictions are, on rows whose outcome is known. One file per metric, one line each in [`METRICS`].
//!
//! A score is a functional of how much each row counts: all rows once give its value, the counts of rows drawn with replacement give its
//! bootstrap standard error ([`rate`]).

mod accuracy;
mod auroc;
mod bootstrap;
mod brier;
mod confusion;
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
mod scored;
mod width;

pub use bootstrap::{RESAMPLES, Rated, rate};
pub use confusion::Confusion;
pub use curves::{Bin, pit_histogram, reliability, risk_coverage_curve};
pub use ranking::{mean_and_error, mean_ranks, paired};
pub use roc::Roc;
pub use scored::{Needs, ScoreBuilder, Scored};

use crate::registry::Registry;

/// Probabilities of the central intervals that are scored.
pub const LEVELS: [f64; 4] = [0.5, 0.8, 0.9, 0.95];

/// A score as a function of how often each outcome counts, those of a row alike. Outcomes that do not count do not matter, whatever they hold.
pub type Functional<'a> = Box<dyn Fn(&[f64]) -> f64 + Send + Sync + 'a>;

/// What a metric says of scored rows.
pub enum Score<'a> {
    /// A number, with its spread by resampling rows.
    Of(Functional<'a>),
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
    pub functional: for<'a> fn(&'a Scored) -> Option<Score<'a>>,
    /// What has to be worked out of a predictive distribution for it, beside moments and probabilities.
    pub needs: Needs,
}

impl Metric {
    /// The value, where it is defined.
    pub fn score(&self, scored: &Scored) -> Option<f64> {
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

static REGISTERED: Registry<Metric> = Registry::new("metric", METRICS, |m| m.name);

/// Every metric, those of other crates included.
pub fn metrics() -> Vec<&'static Metric> {
    REGISTERED.all()
}

/// Adds a metric of another crate: evaluations then show it. An error where the name is taken.
pub fn register_metric(metric: Metric) -> crate::error::Result<()> {
    REGISTERED.add(metric)
}

/// A metric by name.
pub fn find(name: &str) -> Option<&'static Metric> {
    REGISTERED.get(name)
}

/// Σ wᵢ vᵢ / Σ wᵢ over rows that count.
fn weighted_mean(value: impl Fn(usize) -> f64, weights: &[f64]) -> f64 {
    let (mut sum, mut total) = (0.0, 0.0);
    for (n, w) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
        sum += value(n) * w;
        total += w;
    }
    sum / total
}

/// The mean of a number per row.
fn mean<'a>(value: impl Fn(usize) -> f64 + Send + Sync + 'a) -> Option<Score<'a>> {
    Some(Score::Of(Box::new(move |weights| weighted_mean(&value, weights))))
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
