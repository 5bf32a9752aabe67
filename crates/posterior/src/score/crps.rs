//! Mean continuous ranked probability score: a proper score in the units of the target; for one sure number it is the absolute
//! error. See [`crate::predict::Predictive::crps`].

use super::{Metric, Score, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "crps",
    summary: "continuous ranked probability score: absolute error of a whole distribution",
    larger_is_better: Some(false),
    short: false,
    functional,
};

fn functional(s: &Scored<'_>) -> Option<Score> {
    s.real.as_ref()?;
    mean(s.predictive.crps(s.y))
}
