//! What is drawn: reliability diagrams, histograms of probability integral transforms, risk against coverage.

use super::risk_coverage::by_uncertainty;
use super::{BINS, Scored, bin_of};

/// A bin of a reliability diagram.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bin {
    /// Rows in it.
    pub rows: usize,
    /// Mean of the largest probability.
    pub confidence: f64,
    /// Part of the rows whose most probable class is the true one.
    pub accuracy: f64,
}

/// Confidence against accuracy in 15 bins of equal width; for class outcomes.
pub fn reliability(s: &Scored) -> Option<Vec<Bin>> {
    s.classes.as_ref()?;
    let mut bins = vec![Bin::default(); BINS];
    for (uncertainty, loss) in s.uncertainty_and_loss()? {
        let bin = &mut bins[bin_of(1.0 - uncertainty)];
        bin.rows += 1;
        bin.confidence += 1.0 - uncertainty;
        bin.accuracy += 1.0 - loss;
    }
    for bin in bins.iter_mut().filter(|b| b.rows > 0) {
        bin.confidence /= bin.rows as f64;
        bin.accuracy /= bin.rows as f64;
    }
    Some(bins)
}

/// Part of the rows whose outcome lies in each of `bins` equal parts of its predictive distribution: all the same where predictions
/// are calibrated; for real and count outcomes.
pub fn pit_histogram(s: &Scored, bins: usize) -> Option<Vec<f64>> {
    s.real.as_ref()?;
    let mut parts = vec![0.0; bins];
    for (from, to) in (0..s.y.len()).map(|n| s.pit(n)) {
        if to <= from {
            parts[((to * bins as f64) as usize).min(bins - 1)] += 1.0;
            continue;
        }
        for (b, part) in parts.iter_mut().enumerate() {
            let (low, high) = (b as f64 / bins as f64, (b + 1) as f64 / bins as f64);
            *part += (to.min(high) - from.max(low)).max(0.0) / (to - from);
        }
    }
    let n = s.y.len().max(1) as f64;
    Some(parts.into_iter().map(|p| p / n).collect())
}

/// (coverage, risk): the mean loss of the surest rows, for about `points` shares of the rows. Rows of one uncertainty count on average.
pub fn risk_coverage_curve(s: &Scored, points: usize) -> Option<Vec<(f64, f64)>> {
    let sorted = by_uncertainty(s)?;
    let (n, mut rows, mut loss) = (sorted.len(), 0, 0.0);
    let mut curve: Vec<(f64, f64)> = Vec::with_capacity(n);
    for group in sorted.chunk_by(|a, b| a.1 == b.1) {
        let mean = group.iter().map(|r| r.2).sum::<f64>() / group.len() as f64;
        for _ in group {
            rows += 1;
            loss += mean;
            curve.push((rows as f64 / n as f64, loss / rows as f64));
        }
    }
    let every = n.div_ceil(points.max(1)).max(1);
    Some(curve.into_iter().enumerate().filter(|(i, _)| (i + 1) % every == 0 || i + 1 == n).map(|(_, c)| c).collect())
}
