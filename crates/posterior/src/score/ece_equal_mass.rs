//! Expected calibration error over 15 bins that hold equally many rows (Nguyen & O'Connor 2015): no bin is empty, none is crowded.
//!
//! Rows are laid end to end by confidence and the line is cut into 15 equal parts; rows with one confidence share their cut, so
//! that their order does not matter.

use super::{BINS, Metric, Needs, Score, Scored};

pub(super) const METRIC: Metric = Metric {
    name: "ece_equal_mass",
    summary: "expected calibration error, 15 bins of equally many rows",
    larger_is_better: Some(false),
    short: false,
    functional,
    needs: Needs::NONE,
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    s.classes.as_ref()?;
    let mut rows: Vec<(usize, f64, f64)> =
        s.uncertainty_and_loss()?.into_iter().enumerate().map(|(n, (uncertainty, loss))| (n, uncertainty, uncertainty - loss)).collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some(Score::Of(Box::new(move |weights| {
        let total: f64 = weights.iter().sum();
        let mut bins = [0.0; BINS];
        let mut from = 0.0;
        for group in rows.chunk_by(|a, b| a.1 == b.1) {
            let mass: f64 = group.iter().map(|r| weights[r.0]).sum();
            let gap: f64 = group.iter().map(|r| weights[r.0] * r.2).sum();
            let to = from + mass;
            let bin = |at: f64| (at / total * BINS as f64) as usize;
            for b in bin(from)..=bin(to).min(BINS - 1) {
                let edge = |b: usize| total * b as f64 / BINS as f64;
                let part = (to.min(edge(b + 1)) - from.max(edge(b))).max(0.0);
                if mass > 0.0 {
                    bins[b] += gap * part / mass;
                }
            }
            from = to;
        }
        bins.iter().map(|b: &f64| b.abs()).sum::<f64>() / total
    })))
}
