//! Part of the rows whose most probable class is the true one.

use super::{Metric, Needs, Score, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "accuracy",
    summary: "fraction of rows whose most probable class is the true one",
    larger_is_better: Some(true),
    short: true,
    functional,
    needs: Needs::NONE,
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    let classes = s.classes.as_ref()?;
    mean(|n| if classes.predicted(n) as f64 == s.y[n] { 1.0 } else { 0.0 })
}
