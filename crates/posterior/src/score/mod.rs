//! How good predictions are, on rows whose outcome is known. One file per metric, one line each in [`METRICS`].

mod accuracy;
mod brier;
mod coverage;
mod ece;
mod log_likelihood;
mod mae;
mod rmse;

use crate::likelihood::Outcome;
use crate::predict::{ClassUncertainty, Predictive, RealUncertainty};

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
        }
    }
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
    /// The score, where it is defined for the kind of outcome.
    pub score: fn(&Scored<'_>) -> Option<f64>,
}

/// Every metric.
pub const METRICS: &[Metric] = &[
    log_likelihood::METRIC,
    rmse::METRIC,
    mae::METRIC,
    coverage::METRIC,
    accuracy::METRIC,
    brier::METRIC,
    ece::METRIC,
];

fn mean(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let n = values.len();
    (n > 0).then(|| values.sum::<f64>() / n as f64)
}
