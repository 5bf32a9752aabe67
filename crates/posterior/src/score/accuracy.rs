//! Part of the rows whose most probable class is the true one.

use super::{Metric, Score, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "accuracy",
    summary: "part of the rows whose most probable class is the true one",
    larger_is_better: Some(true),
    short: true,
    functional,
};

fn functional(s: &Scored<'_>) -> Option<Score> {
    let classes = s.classes.as_ref()?;
    mean(s.y.iter().enumerate().map(|(n, y)| if classes.predicted(n) as f64 == *y { 1.0 } else { 0.0 }).collect())
}
