//! Approximations judged: weights p(w, D)/q(w) of draws from q, and whether outcomes fall where they were predicted.
//!
//! Where q has a density, Pareto-k of its weights says how far it is from the posterior (Yao, Vehtari, Simpson & Gelman 2018, "Yes,
//! but did it work?"). In a network k is large for nearly every q although predictions may be good; so these are
//! held against outcomes: the part of them inside 90 % intervals, or, for classes, their log score against what the predictive itself
//! expects of it. Cost: an evaluation of the log joint for each draw.

use crate::likelihood::Outcome;
use crate::predict::Predictive;

/// Standard errors below which overconfidence is no chance: 1 in 700.
const BELOW: f64 = -3.0;

/// Outcomes against what was predicted of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictiveCheck {
    /// What is compared: `coverage_90` or `log_score`.
    pub name: &'static str,
    /// The observed outcomes.
    pub value: f64,
    /// What the predictive says it should be.
    pub expected: f64,
    /// (value − expected)/standard error.
    pub z: f64,
    /// Rows.
    pub rows: usize,
}

impl PredictiveCheck {
    /// Predictions against outcomes `y` in the user's units; a class is its number.
    pub fn new(predictive: &Predictive, y: &[f64], outcome: Outcome) -> PredictiveCheck {
        // Outcomes of one row may go together: the error is that of as many as there are rows, which it is at most.
        let (n, each) = (y.len() as f64, predictive.outcomes_per_row() as f64);
        let rows = y.len() / predictive.outcomes_per_row();
        if outcome == Outcome::Class {
            let classes = predictive.classes();
            let (mut value, mut expected, mut variance) = (0.0, 0.0, 0.0);
            for (row, y) in y.iter().enumerate() {
                let p = classes.row(row);
                let score = |p: f64| p.max(f64::MIN_POSITIVE).ln();
                let mean: f64 = p.iter().map(|p| p * score(*p)).sum();
                value += score(p[(*y as usize).min(p.len() - 1)]);
                expected += mean;
                variance += p.iter().map(|p| p * (score(*p) - mean).powi(2)).sum::<f64>();
            }
            let error = (each * variance).sqrt().max(1e-9 * n);
            let z = (value - expected) / error;
            return PredictiveCheck { name: "log_score", value: value / n, expected: expected / n, z, rows };
        }
        let bounds = predictive.quantiles(&[0.05, 0.95]);
        let inside = bounds.chunks(2).zip(y).filter(|(b, y)| b[0] <= **y && **y <= b[1]).count();
        PredictiveCheck::of_coverage(inside as f64 / n, rows)
    }

    /// From the fraction of so many rows that lies inside its 90 % interval.
    pub(super) fn of_coverage(value: f64, rows: usize) -> PredictiveCheck {
        let expected = 0.9;
        let z = (value - expected) / (expected * (1.0 - expected) / rows as f64).sqrt();
        PredictiveCheck { name: "coverage_90", value, expected, z, rows }
    }

    /// Whether predictions are not more certain than they ought to be, beyond chance.
    pub fn holds(&self) -> bool {
        self.z > BELOW
    }

    /// What was seen, as a clause.
    pub fn clause(&self) -> String {
        match self.name {
            "coverage_90" => format!("{:.0} % of the rows lie inside their 90 % intervals", 100.0 * self.value),
            _ => format!(
                "the log score of the outcomes is {:.3} where the predictions themselves expect {:.3}",
                self.value, self.expected
            ),
        }
    }
}
