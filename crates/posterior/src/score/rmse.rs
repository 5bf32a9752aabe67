//! Root mean squared error of the predictive mean.

use super::{Metric, Score, Scored, weighted_mean};

pub(super) const METRIC: Metric = Metric {
    name: "rmse",
    summary: "root mean squared error of the predictive mean",
    larger_is_better: Some(false),
    short: true,
    functional,
};

fn functional(s: &Scored<'_>) -> Option<Score> {
    let squares: Vec<f64> = s.real.as_ref()?.mean.iter().zip(s.y).map(|(m, y)| (m - y).powi(2)).collect();
    Some(Score::Of(Box::new(move |weights| weighted_mean(&squares, weights).sqrt())))
}
