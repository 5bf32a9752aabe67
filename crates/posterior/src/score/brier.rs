//! Brier score, (1/N) Σₙ Σ_c (p̄_c − [yₙ = c])²: a proper score, 0 is best, 2 is worst.

use super::{Metric, Needs, Score, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "brier",
    summary: "mean squared distance between probabilities and the observed outcomes",
    larger_is_better: Some(false),
    short: true,
    functional,
    needs: Needs::NONE,
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    let classes = s.classes.as_ref()?;
    mean(|n| {
        let row = classes.row(n).iter().enumerate();
        row.map(|(c, p)| (p - if c as f64 == s.y[n] { 1.0 } else { 0.0 }).powi(2)).sum()
    })
}
