//! Part of the rows whose most probable class is the true one.

use super::{Metric, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "accuracy",
    summary: "part of the rows whose most probable class is the true one",
    larger_is_better: Some(true),
    score,
};

fn score(s: &Scored<'_>) -> Option<f64> {
    let classes = s.classes.as_ref()?;
    mean((0..s.y.len()).map(|n| if classes.predicted(n) as f64 == s.y[n] { 1.0 } else { 0.0 }))
}
