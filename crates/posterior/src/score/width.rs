//! Mean width of the central interval of the predictive mixture: of two that cover as they should, the narrower is better.

use super::{Metric, Needs, Score, Scored, mean};

const NEEDS: Needs = Needs { intervals: true, ..Needs::NONE };

const NAMES: [(&str, &str); 4] = [
    ("width_50", "mean width of the 50 % interval"),
    ("width_80", "mean width of the 80 % interval"),
    ("width_90", "mean width of the 90 % interval"),
    ("width_95", "mean width of the 95 % interval"),
];

/// Of the interval with probability `LEVELS[L]`.
pub(super) const fn metric<const L: usize>() -> Metric {
    Metric {
        name: NAMES[L].0,
        summary: NAMES[L].1,
        larger_is_better: Some(false),
        short: false,
        functional: functional::<L>,
        needs: NEEDS,
    }
}

fn functional<const L: usize>(s: &Scored) -> Option<Score<'_>> {
    s.real.as_ref()?;
    mean(|n| s.width(n, L) / s.unit(n))
}
