//! The continuous ranked probability score, ∫ (F(t) − [t ≥ y])² dt = E|X − y| − ½ E|X − X′|: in the units of y, 0 is best.
//!
//! A mixture of S normals has a closed form: E|N(μ, σ²)| = σ (2 φ(z) + z (2 Φ(z) − 1)) with z = μ/σ, for S² pairs (Grimit et
//! al. 2006). Counts are summed. All else, and more than [`PAIRS`] draws, goes through the distribution function by quadrature.
//! Reference: Gneiting & Raftery (2007), Strictly proper scoring rules.

use super::{Predictive, quantile};
use crate::likelihood::Outcome;
use crate::math::quadrature::integrate;
use crate::math::special::{NormalTable, erf};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Up to so many draws every pair is visited.
const PAIRS: usize = 128;
/// Relative error of the quadrature.
const TOLERANCE: f64 = 1e-9;
/// Counts are added one by one up to so many, and in steps beyond.
const TERMS: f64 = 4096.0;

/// E|X| of a normal X.
fn mean_absolute(mean: f64, variance: f64) -> f64 {
    let std = variance.sqrt();
    if std <= 0.0 {
        return mean.abs();
    }
    let z = mean / std;
    std * ((2.0 / PI).sqrt() * (-0.5 * z * z).exp() + z * erf(z * FRAC_1_SQRT_2))
}

/// The score of a mixture of normals with equal weights.
pub(super) fn of_normals(mean: &[f64], variance: &[f64], y: f64) -> f64 {
    let draws = mean.len() as f64;
    let to_y: f64 = mean.iter().zip(variance).map(|(m, v)| mean_absolute(m - y, *v)).sum();
    let (mut pairs, table) = (0.0, NormalTable::new());
    for s in 0..mean.len() {
        pairs += 0.5 * mean_absolute(0.0, 2.0 * variance[s]);
        for t in 0..s {
            let std = (variance[s] + variance[t]).sqrt().max(f64::MIN_POSITIVE);
            pairs += std * table.mean_absolute((mean[s] - mean[t]) / std);
        }
    }
    to_y / draws - pairs / (draws * draws)
}

/// ∫ (F − [t ≥ y])² of a distribution function that rises between about `low` and `high`; the tails are mapped to (0, 1].
fn of_cdf(cdf: &mut dyn FnMut(f64) -> f64, low: f64, high: f64, y: f64) -> f64 {
    const PANELS: usize = 6;
    let width = (high - low).max(f64::MIN_POSITIVE);
    let panel = |from: f64, to: f64| -> Vec<f64> {
        (0..=PANELS).map(|i| from + (to - from) * i as f64 / PANELS as f64).collect()
    };
    let mut below = |t: f64| cdf(t).powi(2);
    // t = edge − width (1 − u)/u, dt = width du/u²
    let left = low.min(y);
    let mut total =
        integrate(&mut |u| below(left - width * (1.0 - u) / u) * width / (u * u), &[0.0, 0.5, 1.0], TOLERANCE);
    if y > low {
        total += integrate(&mut below, &panel(low, y.min(high)), TOLERANCE);
        if y > high {
            total += integrate(&mut below, &panel(high, y), TOLERANCE);
        }
    }
    let mut above = |t: f64| (1.0 - cdf(t)).powi(2);
    let right = high.max(y);
    total += integrate(&mut |u| above(right + width * (1.0 - u) / u) * width / (u * u), &[0.0, 0.5, 1.0], TOLERANCE);
    if y < high {
        total += integrate(&mut above, &panel(y.max(low), high), TOLERANCE);
        if y < low {
            total += integrate(&mut above, &panel(y, low), TOLERANCE);
        }
    }
    total
}

/// Σ_k (F(k) − [k ≥ y])² over counts; F is 0 below `low` and 1 above `high` to rounding.
fn of_counts(cdf: &mut dyn FnMut(f64) -> f64, low: f64, high: f64, y: f64) -> f64 {
    let (low, high) = (low.min(y), high.max(y));
    let step = 2.0 * (0.5 * (high - low) / TERMS).floor() + 1.0; // odd, so that a step has a middle
    let mut part = |from: f64, to: f64, reached: f64| {
        let (mut k, mut sum) = (from, 0.0);
        while k < to {
            let n = step.min(to - k);
            // The middle of n terms stands for all of them: F bends little within a 4096th of its width.
            sum += n * (cdf((k + 0.5 * (n - 1.0)).floor()) - reached).powi(2);
            k += n;
        }
        sum
    };
    part(low, y, 0.0) + part(y, high + 1.0, 1.0)
}

impl Predictive {
    /// The continuous ranked probability score of every row, for real and count outcomes of one target; `y` in the user's
    /// units, and so is the score.
    pub fn crps(&self, y: &[f64]) -> Vec<f64> {
        let likelihood = self.likelihood();
        let (outputs, targets) = (likelihood.outputs(), likelihood.targets());
        let count = likelihood.outcome() == Outcome::Count;
        let (centre, unit) = self.target_scale(0);
        let marginals = self.marginals();
        self.by_rows(1, |n, out| {
            let value = (y[n * targets] - centre) / unit;
            if let Some(score) = marginals.as_ref().and_then(|m| m.crps(n, 0, value)) {
                out[0] = unit.abs() * score;
                return;
            }
            let mut f = vec![0.0; outputs];
            out[0] = unit.abs()
                * if marginals.is_none() && likelihood.is_normal() && self.draws() <= PAIRS {
                    let (mut mean, mut variance) = (vec![0.0; self.draws()], vec![0.0; self.draws()]);
                    let (mut m, mut v) = (vec![0.0; targets], vec![0.0; targets]);
                    for s in 0..self.draws() {
                        self.output(s, n, &mut f);
                        likelihood.moments(&f, self.noise_of(s), &mut m, &mut v);
                        (mean[s], variance[s]) = (m[0], v[0]);
                    }
                    of_normals(&mean, &variance, value)
                } else {
                    let edge = if count { 1e-13 } else { 1e-3 };
                    let mut ends = [0.0; 2];
                    quantile::of_mixture(self, n, 0, &[edge, 1.0 - edge], &mut ends);
                    let mut cdf = |t: f64| quantile::cdf(self, n, 0, t, &mut f);
                    if count {
                        of_counts(&mut cdf, ends[0], ends[1], value)
                    } else {
                        of_cdf(&mut cdf, ends[0], ends[1], value)
                    }
                };
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::special::normal_cdf;

    /// Both ways to the same number: the closed form by pairs, and the distribution function by quadrature.
    #[test]
    fn closed_form_is_the_integral() {
        let (mean, std) = ([-1.0, 0.5, 4.0], [0.3, 1.2, 0.05]);
        let variance = std.map(|s| s * s);
        let mut cdf = |t: f64| (0..3).map(|s| normal_cdf((t - mean[s]) / std[s])).sum::<f64>() / 3.0;
        for y in [-30.0, -2.0, 0.4, 3.99, 4.2, 50.0] {
            let (closed, integral) = (of_normals(&mean, &variance, y), of_cdf(&mut cdf, -2.0, 4.1, y));
            assert!((closed - integral).abs() < 1e-7 * (1.0 + closed), "{y}: {closed} {integral}");
        }
    }

    /// One normal (Gneiting & Raftery 2007, eq. 21): σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π).
    #[test]
    fn one_normal() {
        for (m, s, y) in [(0.0, 1.0, 0.0), (2.0, 0.5, 1.0), (-1.0, 3.0, 10.0)] {
            let z: f64 = (y - m) / s;
            let phi = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
            let exact = s * (z * (2.0 * normal_cdf(z) - 1.0) + 2.0 * phi - 1.0 / PI.sqrt());
            assert!((of_normals(&[m], &[s * s], y) - exact).abs() < 1e-13, "{exact}");
        }
    }

    /// Many counts in steps against one by one: a logistic distribution rounded to whole numbers.
    #[test]
    fn counts_in_steps() {
        let mut cdf = |k: f64| 1.0 / (1.0 + (-(k - 50_000.0) / 900.0).exp());
        let y = 51_234.0;
        let one_by_one: f64 =
            (0..100_000).map(|k| (cdf(f64::from(k)) - if f64::from(k) >= y { 1.0 } else { 0.0 }).powi(2)).sum();
        let steps = of_counts(&mut cdf, 0.0, 99_999.0, y);
        assert!((steps / one_by_one - 1.0).abs() < 1e-3, "{steps} {one_by_one}");
        let few = of_counts(&mut |k: f64| if k < 1.0 { 0.25 } else { 1.0 }, 0.0, 1.0, 3.0);
        assert_eq!(few, 0.25f64.powi(2) + 1.0 + 1.0); // F = ¼ at 0, 1 at 1 and 2, right from 3 on
    }
}
