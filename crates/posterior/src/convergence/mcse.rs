//! Monte Carlo standard errors: how far an estimate from the draws may be from the posterior's own value.
//!
//! Mean: std/√ESS. Standard deviation: by the delta method, √((E c⁴ − (E c²)²)/(4 E c² ESS)) with c = x − mean. Quantile: half the distance of
//! the order statistics at the 16 % and 84 % points of Beta(ESS·p + 1, ESS·(1 − p) + 1), each ESS that of the quantity itself.
//! Reference: Vehtari et al. (2021), Bayesian Analysis 16(2), section 4.4; Kenney & Keeping (1951) for the standard deviation.

use super::ess::{ess_mean, ess_quantile};
use super::trace::Trace;
use crate::math::special::beta_inc;

/// One standard deviation below and above the centre of a normal.
const BAND: [f64; 2] = [0.158_655_3, 0.841_344_7];

/// Of the mean.
pub fn mcse_mean(trace: &Trace) -> f64 {
    trace.std() / ess_mean(trace).sqrt()
}

/// Of the standard deviation.
pub fn mcse_std(trace: &Trace) -> f64 {
    let centre = trace.mean();
    let squares = trace.map(|v| (v - centre).powi(2));
    let variance = squares.mean();
    let fourth = squares.map(|v| v * v).mean();
    ((fourth - variance * variance) / ess_mean(&squares) / variance / 4.0).sqrt()
}

/// Of the quantile of a level.
pub fn mcse_quantile(trace: &Trace, level: f64) -> f64 {
    let ess = ess_quantile(trace, level);
    if ess.is_nan() {
        return f64::NAN;
    }
    let sorted = trace.sorted();
    let last = (sorted.len() - 1) as f64;
    let place = |p| beta_quantile(ess * level + 1.0, ess * (1.0 - level) + 1.0, p) * sorted.len() as f64 - 1.0;
    let low = place(BAND[0]).max(0.0).floor() as usize;
    let high = place(BAND[1]).min(last).ceil() as usize;
    0.5 * (sorted[high] - sorted[low])
}

/// x with Iₓ(a, b) = p, by bisection to the last digit.
fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return middle;
        }
        if beta_inc(a, b, middle) < p { low = middle } else { high = middle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_beta_distributions_with_a_closed_form() {
        // I_x(a, 1) = xᵃ, I_x(1, b) = 1 − (1 − x)ᵇ. beta_inc has twelve digits.
        for p in [1e-6, 0.2, 0.5, 0.9] {
            assert!((beta_quantile(3.0, 1.0, p) - p.powf(1.0 / 3.0)).abs() < 1e-12);
            assert!((beta_quantile(1.0, 50.0, p) - (1.0 - (1.0 - p).powf(0.02))).abs() < 1e-12);
        }
    }
}
