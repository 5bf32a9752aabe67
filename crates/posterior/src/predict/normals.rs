//! A weighted mixture of normals, p(y) = Σᵢ wᵢ N(y | mᵢ, sᵢ²): distribution function, log-density, quantiles, CRPS.
//!
//! One component is a closed form throughout; several need a sum. Quantiles and CRPS of several: `mixture.rs`.

use super::mixture::{self, Components, Level};
use crate::likelihood::NormalPart;
use crate::math::special::{HALF_LN_TAU, Scratch, Standard, normal_cdf, normal_quantile};

/// Smaller standard deviations count as this: a point mass.
const NARROWEST: f64 = 1e-300;

/// P(Y ≤ y).
pub(super) fn cdf(parts: &[NormalPart], y: f64) -> f64 {
    parts.iter().map(|p| p.weight * normal_cdf((y - p.mean) / p.std.max(NARROWEST))).sum()
}

/// ln p(y).
pub(super) fn log_density(parts: &[NormalPart], y: f64) -> f64 {
    let (mut largest, mut sum) = (f64::NEG_INFINITY, 0.0);
    for p in parts.iter().filter(|p| p.weight > 0.0) {
        let std = p.std.max(NARROWEST);
        let z = (y - p.mean) / std;
        let l = p.weight.ln() - 0.5 * z * z - std.ln() - HALF_LN_TAU;
        if l > largest {
            sum = sum * (largest - l).exp() + 1.0;
            largest = l;
        } else if l > f64::NEG_INFINITY {
            sum += (l - largest).exp();
        }
    }
    largest + if sum > 0.0 { sum.ln() } else { 0.0 }
}

/// The values that Y stays below with the probabilities `levels`.
pub(super) fn quantiles(parts: &[NormalPart], levels: &[f64], out: &mut [f64]) {
    if let [one] = parts {
        out.iter_mut().zip(levels).for_each(|(q, level)| *q = one.mean + normal_quantile(*level) * one.std);
        return;
    }
    let (standard, mut scratch) = (Standard::normal(), Scratch::default());
    let components = Components::of_normals(parts);
    let Some(parts) = components.row(0) else { return out.fill(f64::NAN) };
    for (q, level) in out.iter_mut().zip(levels) {
        *q = Level::new(standard, *level).quantile(standard, parts, &mut scratch).0;
    }
}

/// E|Y − y| − ½ E|Y − Y′|.
pub(super) fn crps(parts: &[NormalPart], y: f64) -> f64 {
    let standard = Standard::normal();
    let components = Components::of_normals(parts);
    components.row(0).map_or(f64::NAN, |parts| mixture::crps(standard, parts, y, 0.0, &mut Scratch::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::quadrature::integrate;

    fn part(weight: f64, mean: f64, std: f64) -> NormalPart {
        NormalPart { weight, mean, std }
    }

    /// Quantiles invert the distribution function, to 1e-12 of the smaller tail; two peaks with nothing between have no median to speak of.
    #[test]
    fn quantiles_invert_the_distribution_function() {
        let mixtures = [
            vec![part(1.0, 3.0, 0.5)],
            vec![part(0.3, 0.0, 1.0), part(0.7, 0.1, 2.0)],
            vec![part(0.5, -50.0, 0.1), part(0.5, 50.0, 0.1)],
            vec![part(0.999, 0.0, 1e-3), part(0.001, 0.0, 100.0)],
            vec![part(0.0, f64::MAX, 1.0), part(1.0, 2.0, 3.0)],
        ];
        for parts in &mixtures {
            for level in [1e-9, 0.025, 0.3, 0.49, 0.5, 0.95, 1.0 - 1e-9] {
                let mut q = [0.0];
                quantiles(parts, &[level], &mut q);
                let q = q[0];
                let error = (cdf(parts, q) - level).abs();
                assert!(
                    error < 1e-11 || parts.len() == 2 && level == 0.5 && error < 1e-3,
                    "{parts:?} {level}: {q} {error}"
                );
            }
        }
    }

    /// The density by the derivative of nothing but itself: it integrates to the distribution function.
    #[test]
    fn densities_integrate_to_the_distribution_function() {
        let parts = [part(0.2, -1.0, 0.3), part(0.5, 0.4, 1.2), part(0.3, 4.0, 0.05)];
        for y in [-2.0, 0.0, 3.98, 5.0] {
            let edges: Vec<f64> = (0..=60).map(|i| -14.0 + (y + 14.0) * f64::from(i) / 60.0).collect();
            let integral = integrate(&mut |t| log_density(&parts, t).exp(), &edges, 1e-11);
            assert!((integral - cdf(&parts, y)).abs() < 1e-9, "{y}"); // the quadrature's tolerance
        }
    }

    /// CRPS as the integral of (F − [t ≥ y])².
    #[test]
    fn crps_is_the_integral_of_the_squared_gap() {
        let parts = [part(0.2, -1.0, 0.3), part(0.5, 0.4, 1.2), part(0.3, 4.0, 0.05)];
        for y in [-3.0, 0.3, 4.01, 9.0] {
            let panel = |from: f64, to: f64| -> Vec<f64> {
                (0..=80).map(|i| from + (to - from) * f64::from(i) / 80.0).collect()
            };
            let below = integrate(&mut |t| cdf(&parts, t).powi(2), &panel(-14.0, y), 1e-11);
            let above = integrate(&mut |t| (1.0 - cdf(&parts, t)).powi(2), &panel(y, 16.0), 1e-11);
            assert!((crps(&parts, y) - below - above).abs() < 1e-8, "{y}: {} {}", crps(&parts, y), below + above);
        }
    }
}
