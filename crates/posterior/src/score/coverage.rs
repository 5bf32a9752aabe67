//! How often the central interval of the predictive mixture holds the observed outcome; its own probability is right.

use super::{Metric, Needs, Score, Scored, mean};

const NEEDS: Needs = Needs { intervals: true, ..Needs::NONE };

const NAMES: [(&str, &str); 4] = [
    ("coverage_50", "fraction of rows inside the 50% interval (ideal: 0.5)"),
    ("coverage_80", "fraction of rows inside the 80% interval (ideal: 0.8)"),
    ("coverage_90", "fraction of rows inside the 90% interval (ideal: 0.9)"),
    ("coverage_95", "fraction of rows inside the 95% interval (ideal: 0.95)"),
];

/// Of the interval with probability `LEVELS[L]`.
pub(super) const fn metric<const L: usize>() -> Metric {
    Metric {
        name: NAMES[L].0,
        summary: NAMES[L].1,
        larger_is_better: None,
        short: L == 2,
        functional: functional::<L>,
        needs: NEEDS,
    }
}

fn functional<const L: usize>(s: &Scored) -> Option<Score<'_>> {
    s.real.as_ref()?;
    mean(|n| if s.is_inside(n, L) { 1.0 } else { 0.0 })
}
