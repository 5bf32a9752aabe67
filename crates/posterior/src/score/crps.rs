//! Mean continuous ranked probability score: a proper score in the units of the target; for one sure number it is the absolute
//! error. See [`crate::predict::Predictive::crps`].

use super::{Metric, Needs, Score, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "crps",
    summary: "continuous ranked probability score: absolute error of a whole distribution",
    larger_is_better: Some(false),
    short: false,
    functional,
    needs: Needs { crps: true, ..Needs::NONE },
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    s.real.as_ref()?;
    mean(|n| s.crps[n] / s.unit(n))
}
