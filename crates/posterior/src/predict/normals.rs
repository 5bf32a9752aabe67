//! A weighted mixture of normals, p(y) = Σᵢ wᵢ N(y | mᵢ, sᵢ²): distribution function, log-density, quantiles, CRPS.
//!
//! One component is a closed form throughout; several need a sum, and a quantile a bracketed Newton search of at most [`STEPS`] steps, to
//! 1e-13 of the spread. CRPS: Σᵢ wᵢ E|N(mᵢ − y, sᵢ²)| − ½ Σᵢⱼ wᵢwⱼ E|N(mᵢ − mⱼ, sᵢ² + sⱼ²)| (Grimit et al. 2006), n² terms.

use crate::likelihood::NormalPart;
use crate::math::special::{HALF_LN_TAU, erf, normal_cdf, normal_quantile};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Newton steps at most; bisection takes over where Newton leaves the bracket, so this is never reached in practice.
const STEPS: usize = 200;
/// Relative to the mixture's spread.
const TOLERANCE: f64 = 1e-13;
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

/// The value that Y stays below with probability `level`.
pub(super) fn quantile(parts: &[NormalPart], level: f64) -> f64 {
    let z = normal_quantile(level);
    let own = |p: &NormalPart| p.mean + z * p.std;
    if let [one] = parts {
        return own(one);
    }
    // The mixture's quantile lies between the lowest and the highest of its components'.
    let counted = || parts.iter().filter(|p| p.weight > 0.0);
    let (mut low, mut high) =
        counted().map(own).fold((f64::INFINITY, f64::NEG_INFINITY), |e, q| (e.0.min(q), e.1.max(q)));
    if !(low.is_finite() && high.is_finite()) {
        return f64::NAN;
    }
    let width = counted().map(|p| p.std).fold(high - low, f64::max);
    let mut y = counted().map(|p| p.weight * own(p)).sum::<f64>().clamp(low, high);
    for _ in 0..STEPS {
        let (mut gap, mut density) = (-level, 0.0);
        for p in counted() {
            let std = p.std.max(NARROWEST);
            let z = (y - p.mean) / std;
            gap += p.weight * normal_cdf(z);
            density += p.weight * (-0.5 * z * z - HALF_LN_TAU).exp() / std;
        }
        if gap == 0.0 {
            return y;
        }
        if gap < 0.0 {
            low = y
        } else {
            high = y
        }
        let newton = y - gap / density;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - y).abs() <= TOLERANCE * width || high - low <= TOLERANCE * width {
            return next;
        }
        y = next;
    }
    y
}

/// E|N(mean, std²)|.
fn mean_absolute(mean: f64, std: f64) -> f64 {
    if std <= NARROWEST {
        return mean.abs();
    }
    if mean == 0.0 {
        return std * (2.0 / PI).sqrt();
    }
    let z = mean / std;
    std * ((2.0 / PI).sqrt() * (-0.5 * z * z).exp() + z * erf(z * FRAC_1_SQRT_2))
}

/// E|Y − y| − ½ E|Y − Y′|.
pub(super) fn crps(parts: &[NormalPart], y: f64) -> f64 {
    let to_y: f64 = parts.iter().map(|p| p.weight * mean_absolute(p.mean - y, p.std)).sum();
    let mut pairs = 0.0;
    for (i, a) in parts.iter().enumerate() {
        let mut sum = 0.5 * a.weight * mean_absolute(0.0, a.std * std::f64::consts::SQRT_2);
        for b in &parts[..i] {
            sum += b.weight * mean_absolute(a.mean - b.mean, a.std.hypot(b.std));
        }
        pairs += a.weight * sum;
    }
    to_y - pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::quadrature::integrate;

    fn part(weight: f64, mean: f64, std: f64) -> NormalPart {
        NormalPart { weight, mean, std }
    }

    /// Quantiles invert the distribution function; the tolerance is 1e-13 of the spread times the largest density.
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
                let q = quantile(parts, level);
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
