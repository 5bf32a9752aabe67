//! Brier score, (1/N) Σₙ Σ_c (p̄_c − [yₙ = c])²: a proper score, 0 is best, 2 is worst.

use super::{Metric, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "brier",
    summary: "mean squared distance between probabilities and what came true",
    larger_is_better: Some(false),
    score,
};

fn score(s: &Scored<'_>) -> Option<f64> {
    let classes = s.classes.as_ref()?;
    mean((0..s.y.len()).map(|n| {
        let row = classes.row(n).iter().enumerate();
        row.map(|(c, p)| (p - if c as f64 == s.y[n] { 1.0 } else { 0.0 }).powi(2)).sum()
    }))
}
