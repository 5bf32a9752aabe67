//! How often the central 90 % interval of the predictive mixture holds what came true; 0.9 is right.

use super::{Metric, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "coverage_90",
    summary: "part of the rows inside their 90 % interval; 0.9 is right",
    larger_is_better: None,
    score,
};

fn score(s: &Scored<'_>) -> Option<f64> {
    s.real.as_ref()?;
    let bounds = s.predictive.quantiles(&[0.05, 0.95]);
    let inside = |(b, y): (&[f64], &f64)| if b[0] <= *y && *y <= b[1] { 1.0 } else { 0.0 };
    mean(bounds.chunks(2).zip(s.y).map(inside).collect::<Vec<_>>().into_iter())
}
