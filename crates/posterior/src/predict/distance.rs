//! How far one predictive distribution is from another: what an approximation loses against a reference run.
//!
//! Total variation, ½ ∫ |p − q|: the most by which the probability of any event differs. Wasserstein-1, ∫ |F − G|: how far mass
//! must be moved, in the units of y. Agreement: part of the rows where both name the same class (Izmailov et al. 2021, What are
//! Bayesian neural network posteriors really like?).
//!
//! Real outcomes go through both distribution functions on a common grid of [`CELLS`] cells, with an error of the order of a cell's
//! width squared; cost CELLS·(S + S′) per row. Counts are summed one by one where they fit on the grid.

use super::{Predictive, quantile};
use crate::likelihood::Outcome;

/// Cells of the grid.
const CELLS: usize = 400;
/// Probability beyond either end of the grid.
const BEYOND: f64 = 1e-5;

/// Distances between two predictive distributions, means over rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distance {
    /// Part of the rows where both have the same most probable class; for class outcomes.
    pub agreement: Option<f64>,
    /// From 0 (the same) to 1 (nothing in common).
    pub total_variation: f64,
    /// In the user's units, or with several targets in standard deviations of each; for real and count outcomes.
    pub wasserstein: Option<f64>,
}

impl Predictive {
    /// How far this is from another predictive distribution of the same rows.
    ///
    /// # Panics
    /// If the rows or the kinds of outcome differ.
    pub fn distance(&self, other: &Predictive) -> Distance {
        assert_eq!(self.rows(), other.rows(), "the same rows");
        assert_eq!(self.likelihood().outcome(), other.likelihood().outcome(), "the same outcome");
        let n = self.rows() as f64;
        if self.likelihood().outcome() == Outcome::Class {
            let (a, b) = (self.classes(), other.classes());
            let apart: f64 = a.probabilities.iter().zip(&b.probabilities).map(|(p, q)| (p - q).abs()).sum();
            let agreed = (0..self.rows()).filter(|n| a.predicted(*n) == b.predicted(*n)).count();
            return Distance {
                agreement: Some(agreed as f64 / n),
                total_variation: 0.5 * apart / n,
                wasserstein: None,
            };
        }
        let targets = self.likelihood().targets();
        assert_eq!(targets, other.likelihood().targets(), "the same targets");
        let rows = self.by_rows(2 * targets, |n, out| {
            for (t, out) in out.chunks_exact_mut(2).enumerate() {
                let unit = if targets > 1 { self.target_scale(t).1 } else { 1.0 };
                let (variation, moved) = self.row_distance(other, n, t);
                out.copy_from_slice(&[variation, moved / unit]);
            }
        });
        let n = n * targets as f64;
        let mean = |i: usize| rows.iter().skip(i).step_by(2).sum::<f64>() / n;
        Distance { agreement: None, total_variation: mean(0), wasserstein: Some(mean(1)) }
    }

    /// Total variation and Wasserstein distance of a target at one row, in the user's units.
    fn row_distance(&self, other: &Predictive, n: usize, t: usize) -> (f64, f64) {
        let ends = |p: &Predictive| {
            let (mean, std) = p.target_scale(t);
            let mut ends = [0.0; 2];
            quantile::of_mixture(p, n, t, &[BEYOND, 1.0 - BEYOND], &mut ends);
            ends.map(|q| mean + std * q)
        };
        let (a, b) = (ends(self), ends(other));
        let (low, high) = (a[0].min(b[0]), a[1].max(b[1]));
        let count = self.likelihood().outcome() == Outcome::Count;
        let step = match (high - low) / CELLS as f64 {
            step if count => step.ceil().max(1.0),
            step => step,
        };
        if !(step.is_finite() && step > 0.0) {
            return (0.0, 0.0);
        }
        let cells = ((high - low) / step).ceil() as usize;
        let gap = |y: f64| self.cdf(n, t, y) - other.cdf(n, t, y);
        let mut before = gap(if count { low - 1.0 } else { low });
        let (mut variation, mut moved) = (before.abs(), 0.0);
        for i in 0..=cells {
            // A count's function is flat up to the next count; another's is taken as straight between two points.
            let after = gap(low + step * if count { i as f64 } else { (i + 1) as f64 });
            variation += (after - before).abs();
            moved += step * if count { after.abs() } else { 0.5 * (after.abs() + before.abs()) };
            before = after;
        }
        (0.5 * (variation + before.abs()), moved)
    }
}
