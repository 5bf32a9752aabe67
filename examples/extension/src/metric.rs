//! Bias: the mean of prediction − outcome, which is 0 for predictions that are right on average.

use posterior::score::{Metric, Needs, Score, Scored};

/// `bias` in tables and JSON.
pub const METRIC: Metric = Metric {
    name: "bias",
    summary: "mean of the predictive mean minus the outcome (ideal: 0)",
    larger_is_better: None,
    short: false,
    functional,
    needs: Needs::NONE,
};

/// As a function of how often each row counts, from which the standard error comes by resampling.
fn functional(scored: &Scored) -> Option<Score<'_>> {
    let mean = &scored.real.as_ref()?.mean;
    Some(Score::Of(Box::new(move |weights| {
        let sum: f64 = weights.iter().zip(mean.iter().zip(&scored.y)).map(|(w, (mean, y))| w * (mean - y)).sum();
        sum / weights.iter().sum::<f64>()
    })))
}
