//! Mean absolute error of the predictive mean.

use super::{Metric, Scored, mean};

pub(super) const METRIC: Metric =
    Metric { name: "mae", summary: "mean absolute error of the predictive mean", larger_is_better: Some(false), score };

fn score(s: &Scored<'_>) -> Option<f64> {
    let real = s.real.as_ref()?;
    mean(real.mean.iter().zip(s.y).map(|(m, y)| (m - y).abs()).collect::<Vec<_>>().into_iter())
}
