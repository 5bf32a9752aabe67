//! How far the probability integral transforms F(yₙ) are from uniform: the largest distance between their distribution and the
//! diagonal (Kolmogorov–Smirnov); about 0.87/√N where predictions are calibrated (Dawid 1984).
//!
//! A count's transform is spread evenly over (F(y − 1), F(y)) instead (Czado, Gneiting & Held 2009).

use super::{Metric, Needs, Score, Scored};

pub(super) const METRIC: Metric = Metric {
    name: "pit_deviation",
    summary: "largest distance of the PIT values (outcomes' places in their distributions) from uniform",
    larger_is_better: Some(false),
    short: false,
    functional,
    needs: Needs { pit: true, ..Needs::NONE },
};

/// Where the distribution of counts' transforms, which has no steps, is compared.
const GRID: usize = 100;

fn functional(s: &Scored) -> Option<Score<'_>> {
    s.real.as_ref()?;
    let rows = 0..s.y.len() as u32;
    if rows.clone().all(|n| s.pit(n as usize).0 == s.pit(n as usize).1) {
        let mut order: Vec<u32> = rows.collect();
        order.sort_by(|a, b| s.pit(*a as usize).1.total_cmp(&s.pit(*b as usize).1));
        return Some(Score::Of(Box::new(move |weights| {
            let total: f64 = weights.iter().sum();
            let (mut below, mut largest) = (0.0, 0.0f64);
            for n in order.iter().map(|n| *n as usize) {
                let u = s.pit(n).1;
                // Just before the step and just after it.
                largest = largest.max((below / total - u).abs());
                below += weights[n];
                largest = largest.max((below / total - u).abs());
            }
            largest
        })));
    }
    Some(Score::Of(Box::new(move |weights| {
        let total: f64 = weights.iter().sum();
        let at = |u: f64| {
            let part = |(n, w): (usize, &f64)| {
                let (low, high) = s.pit(n);
                w * ((u - low) / (high - low).max(1e-12)).clamp(0.0, 1.0)
            };
            weights.iter().enumerate().map(part).sum::<f64>() / total - u
        };
        (1..GRID).map(|i| at(i as f64 / GRID as f64).abs()).fold(0.0, f64::max)
    })))
}
