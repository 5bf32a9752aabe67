//! Mean absolute error of the predictive mean.

use super::{Metric, Needs, Score, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "mae",
    summary: "mean absolute error of the predictive mean",
    larger_is_better: Some(false),
    short: true,
    functional,
    needs: Needs::NONE,
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    let real = s.real.as_ref()?;
    mean(|n| s.error(n, real).abs())
}
