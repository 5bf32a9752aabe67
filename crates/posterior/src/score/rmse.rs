//! Root mean squared error of the predictive mean.

use super::{Metric, Needs, Score, Scored, weighted_mean};

pub(super) const METRIC: Metric = Metric {
    name: "rmse",
    summary: "root mean squared error of the predictive mean",
    larger_is_better: Some(false),
    short: true,
    functional,
    needs: Needs::NONE,
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    let real = s.real.as_ref()?;
    Some(Score::Of(Box::new(|weights| weighted_mean(|n| s.error(n, real).powi(2), weights).sqrt())))
}
