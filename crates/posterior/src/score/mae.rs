//! Mean absolute error of the predictive mean.

use super::{Metric, Score, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "mae",
    summary: "mean absolute error of the predictive mean",
    larger_is_better: Some(false),
    short: true,
    functional,
};

fn functional(s: &Scored<'_>) -> Option<Score> {
    mean(s.real.as_ref()?.mean.iter().zip(s.y).map(|(m, y)| (m - y).abs()).collect())
}
