//! The continuous ranked probability score, ∫ (F(t) − [t ≥ y])² dt = E|X − y| − ½ E|X − X′|: in the units of y, 0 is best.
//!
//! Draws of one distribution around their own locations and scales: `mixture.rs`. Counts are summed one by one below [`EACH`], and beyond as an integral
//! of a smooth function that is F at whole numbers, with Σ_{a ≤ k < b} g(k) = ∫ₐᵇ g + ½ (g(a) − g(b)) − (g′(a) − g′(b))/12 (Euler & Maclaurin; what is left out
//! falls with the cube of the draws' σ). All else goes through the distribution function by quadrature.
//! Reference: Gneiting & Raftery (2007), Strictly proper scoring rules.

use super::quantile::{self, LARGEST_COUNT};
use super::{Predictive, mixture};
use crate::likelihood::Outcome;
use crate::math::quadrature::integrate;
use crate::math::special::Scratch;

/// Relative error of the quadrature.
const TOLERANCE: f64 = 1e-9;
/// Counts below this are added one by one; those above scatter by more than its root.
const EACH: f64 = 2048.0;

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

/// Σ_k (F(k) − [k ≥ y])² over counts; F is 0 below `low` and 1 above `high` to rounding, and smooth between whole numbers.
fn of_counts(cdf: &mut dyn FnMut(f64) -> f64, low: f64, high: f64, y: f64) -> f64 {
    if low.max(high).max(y) > LARGEST_COUNT {
        return f64::INFINITY;
    }
    let mut part = |from: f64, to: f64, reached: f64| {
        let mut g = |k: f64| (cdf(k) - reached).powi(2);
        let (mut k, mut sum) = (from, 0.0);
        while k < to.min(EACH) {
            sum += g(k);
            k += 1.0;
        }
        if k >= to {
            return sum;
        }
        // Panels that grow: counts scatter in proportion to their root.
        let ratio = (to / k).powf(1.0 / 16.0);
        let mut edges: Vec<f64> = (0..16).map(|i| k * ratio.powi(i)).collect();
        edges.push(to);
        let slope = |g: &mut dyn FnMut(f64) -> f64, at: f64| 0.5 * (g(at + 1.0) - g(at - 1.0));
        let ends = 0.5 * (g(k) - g(to)) - (slope(&mut g, k) - slope(&mut g, to)) / 12.0;
        sum + integrate(&mut g, &edges, TOLERANCE) + ends
    };
    let (low, high) = (low.min(y), high.max(y));
    part(low, y, 0.0) + part(y, high + 1.0, 1.0)
}

impl Predictive {
    /// The continuous ranked probability score of every row and target, `rows × targets`, for real and count outcomes; `y` in the user's
    /// units, and so is the score. Infinite where counts reach beyond 1e300; not a number where a draw has a location or scale that is not one or beyond 1e100.
    pub fn crps(&self, y: &[f64]) -> Vec<f64> {
        let targets = self.likelihood().targets();
        let unit = |t: usize| self.target_scale(t).1.abs();
        let standardised = |n: usize, t: usize| {
            let (centre, unit) = self.target_scale(t);
            (y[n * targets + t] - centre) / unit
        };
        let each = |score: &(dyn Fn(usize, usize) -> f64 + Sync)| {
            self.by_rows(targets, |n, out| out.iter_mut().enumerate().for_each(|(t, out)| *out = unit(t) * score(n, t)))
        };
        if let Some(marginals) = self.marginals() {
            return each(&|n, t| marginals.crps(n, t, standardised(n, t)));
        }
        let Some(standard) = self.likelihood().standard() else {
            return each(&|n, t| self.crps_by_cdf(n, t, standardised(n, t)));
        };
        let reach = mixture::reach(standard);
        self.by_blocks(targets, |from, out| {
            let mut scratch = Scratch::default();
            for t in 0..targets {
                let all = quantile::components(self, standard, from, out.len() / targets, t);
                for (i, out) in out.iter_mut().skip(t).step_by(targets).enumerate() {
                    let score = |parts| mixture::crps(standard, parts, standardised(from + i, t), reach, &mut scratch);
                    *out = unit(t) * all.row(i).map_or(f64::NAN, score);
                }
            }
        })
    }

    fn crps_by_cdf(&self, n: usize, t: usize, y: f64) -> f64 {
        let count = self.likelihood().outcome() == Outcome::Count;
        let edge = if count { 1e-13 } else { 1e-3 };
        let mut ends = [0.0; 2];
        quantile::of_mixture(self, n, t, &[edge, 1.0 - edge], &mut ends);
        if ends.iter().any(|q| q.is_nan()) || y.is_nan() {
            return f64::NAN;
        }
        let mut f = vec![0.0; self.likelihood().outputs()];
        if count {
            of_counts(&mut |y| quantile::smooth_cdf(self, n, t, y, &mut f), ends[0], ends[1], y)
        } else {
            of_cdf(&mut |y| quantile::cdf(self, n, t, y, &mut f), ends[0], ends[1], y)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::special::normal_cdf;
    use std::f64::consts::PI;

    /// One normal (Gneiting & Raftery 2007, eq. 21): σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π); to the quadrature's tolerance.
    #[test]
    fn one_normal() {
        for (m, s, y) in [(0.0, 1.0, 0.0), (2.0, 0.5, 1.0), (-1.0, 3.0, 10.0)] {
            let z: f64 = (y - m) / s;
            let phi = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
            let exact = s * (z * (2.0 * normal_cdf(z) - 1.0) + 2.0 * phi - 1.0 / PI.sqrt());
            let integral = of_cdf(&mut |t| normal_cdf((t - m) / s), m - 3.0 * s, m + 3.0 * s, y);
            assert!((integral / exact - 1.0).abs() < 1e-8, "{exact} {integral}");
        }
    }

    /// Many counts as an integral against one by one: a logistic distribution rounded to whole numbers, to ten times the quadrature's tolerance.
    #[test]
    fn counts_in_steps() {
        let mut cdf = |k: f64| 1.0 / (1.0 + (-(k - 50_000.0) / 900.0).exp());
        let y = 51_234.0;
        let one_by_one: f64 =
            (0..100_000).map(|k| (cdf(f64::from(k)) - if f64::from(k) >= y { 1.0 } else { 0.0 }).powi(2)).sum();
        let steps = of_counts(&mut cdf, 0.0, 99_999.0, y);
        assert!((steps / one_by_one - 1.0).abs() < 1e-8, "{steps} {one_by_one}");
        let few = of_counts(&mut |k: f64| if k < 1.0 { 0.25 } else { 1.0 }, 0.0, 1.0, 3.0);
        assert_eq!(few, 0.25f64.powi(2) + 1.0 + 1.0); // F = ¼ at 0, 1 at 1 and 2, right from 3 on
    }
}
