//! Area under the risk–coverage curve: the mean over k of the mean loss of the k rows the model is surest of. A model that knows
//! when it is wrong has a small one (El-Yaniv & Wiener 2010; Geifman & El-Yaniv 2017).
//!
//! The loss is 0 or 1 for classes and the absolute error otherwise. Rows it is equally sure of are taken in random order, on average.

use super::{Metric, Needs, Score, Scored};

pub(super) const METRIC: Metric = Metric {
    name: "risk_coverage_area",
    summary: "area under the risk-coverage curve: mean loss of the most certain rows, over all fractions kept",
    larger_is_better: Some(false),
    short: false,
    functional,
    needs: Needs::NONE,
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    let sorted = by_uncertainty(s)?;
    Some(Score::Of(Box::new(move |weights| {
        let (mut rows, mut loss, mut area) = (0.0, 0.0, 0.0);
        for group in sorted.chunk_by(|a, b| a.1 == b.1) {
            let mass: f64 = group.iter().map(|r| weights[r.0]).sum();
            if mass == 0.0 {
                continue;
            }
            let mean = group.iter().map(|r| weights[r.0] * r.2).sum::<f64>() / mass;
            for _ in 0..mass.round() as usize {
                rows += 1.0;
                loss += mean;
                area += loss / rows;
            }
        }
        area / rows
    })))
}

/// Rows as (number, uncertainty, loss), the surest first.
pub(super) fn by_uncertainty(s: &Scored) -> Option<Vec<(usize, f64, f64)>> {
    let mut rows: Vec<_> = s.uncertainty_and_loss()?.into_iter().enumerate().map(|(n, (d, l))| (n, d, l)).collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    Some(rows)
}
