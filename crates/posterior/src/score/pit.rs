//! How far the probability integral transforms F(yₙ) are from uniform: the largest distance between their distribution and the
//! diagonal (Kolmogorov–Smirnov); about 0.87/√N where predictions are calibrated (Dawid 1984).
//!
//! A count's transform is spread evenly over (F(y − 1), F(y)) instead (Czado, Gneiting & Held 2009).

use super::{Metric, Score, Scored};

pub(super) const METRIC: Metric = Metric {
    name: "pit_deviation",
    summary: "largest distance of the outcomes' places in their distributions from uniform",
    larger_is_better: Some(false),
    short: false,
    functional,
};

/// Where the distribution of counts' transforms, which has no steps, is compared.
const GRID: usize = 100;

fn functional(s: &Scored<'_>) -> Option<Score> {
    s.real.as_ref()?;
    let mut rows: Vec<(usize, f64, f64)> = s.pit().iter().enumerate().map(|(n, p)| (n, p.0, p.1)).collect();
    rows.sort_by(|a, b| a.2.total_cmp(&b.2));
    if rows.iter().all(|r| r.1 == r.2) {
        return Some(Score::Of(Box::new(move |weights| {
            let total: f64 = weights.iter().sum();
            let (mut below, mut largest) = (0.0, 0.0f64);
            for (n, u, _) in &rows {
                // Just before the step and just after it.
                largest = largest.max((below / total - u).abs());
                below += weights[*n];
                largest = largest.max((below / total - u).abs());
            }
            largest
        })));
    }
    Some(Score::Of(Box::new(move |weights| {
        let total: f64 = weights.iter().sum();
        let at = |u: f64| {
            let part = |r: &(usize, f64, f64)| weights[r.0] * ((u - r.1) / (r.2 - r.1).max(1e-12)).clamp(0.0, 1.0);
            rows.iter().map(part).sum::<f64>() / total - u
        };
        (1..GRID).map(|i| at(i as f64 / GRID as f64).abs()).fold(0.0, f64::max)
    })))
}
