//! Brier score, (1/N) Σₙ Σ_c (p̄_c − [yₙ = c])²: a proper score, 0 is best, 2 is worst.

use super::{Metric, Score, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "brier",
    summary: "mean squared distance between probabilities and what came true",
    larger_is_better: Some(false),
    short: true,
    functional,
};

fn functional(s: &Scored<'_>) -> Option<Score> {
    let classes = s.classes.as_ref()?;
    let one = |(n, y): (usize, &f64)| {
        let row = classes.row(n).iter().enumerate();
        row.map(|(c, p)| (p - if c as f64 == *y { 1.0 } else { 0.0 }).powi(2)).sum()
    };
    mean(s.y.iter().enumerate().map(one).collect())
}
