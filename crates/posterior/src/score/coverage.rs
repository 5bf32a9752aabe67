//! How often the central interval of the predictive mixture holds what came true; its own probability is right.

use super::{Metric, Needs, Score, Scored, mean};

const NEEDS: Needs = Needs { intervals: true, ..Needs::NONE };

const NAMES: [(&str, &str); 4] = [
    ("coverage_50", "part of the rows inside their 50 % interval; 0.5 is right"),
    ("coverage_80", "part of the rows inside their 80 % interval; 0.8 is right"),
    ("coverage_90", "part of the rows inside their 90 % interval; 0.9 is right"),
    ("coverage_95", "part of the rows inside their 95 % interval; 0.95 is right"),
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
