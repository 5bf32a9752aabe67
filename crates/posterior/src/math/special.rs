//! Special functions in f64: error function, gamma and beta families, the normal distribution, quadrature, log-sums.
//!
//! | function | accuracy | method |
//! |---|---|---|
//! | [`erf`], [`erfc`], [`ln_gamma`] | 1e-15 relative, `erfc` in its tail too | `libm` (from FreeBSD's msun) |
//! | [`digamma`] | 1e-14 relative or absolute | recurrence, then the asymptotic series |
//! | [`normal_cdf`], [`normal_quantile`] | 1e-14 relative, in the tails too | `erfc`; Wichura (1988), AS 241 |
//! | [`normal_log_cdf`] | 1e-14 relative | `erfc`, asymptotic series below −10 |
//! | [`beta_inc`], [`gamma_p`], [`gamma_q`] | 1e-12 | continued fraction by Lentz; series; Temme (1979) above 10⁶ |
//! | [`Standard`], for mixtures of many | 1e-12 relative | interpolation at Chebyshev points |
//! | [`gauss_hermite`] | 1e-13 | Golub & Welsch (1969), Newton steps |
//!
//! Arguments outside a function's domain give NaN, as in the standard library. The bounds are tested against 50-digit
//! values.

// Published coefficients and 50-digit test values keep their digits, so that they can be compared with their source.
#![allow(clippy::excessive_precision)]

mod gamma;
mod hermite;
mod normal;
mod standard;

pub(crate) use gamma::beta_inc_pair;
pub use gamma::{beta_inc, digamma, gamma_p, gamma_q, ln_1p_minus, ln_beta, ln_gamma};
pub use hermite::{gauss_hermite, normal_quadrature};
pub use normal::{erf, erfc, normal_cdf, normal_log_cdf, normal_quantile};
pub use standard::Standard;
pub(crate) use standard::{Parts, Scratch, ln_student_constant, student_tail};

/// ½ ln 2π
pub(crate) const HALF_LN_TAU: f64 = 0.918_938_533_204_672_741_78;

/// ln(eᵃ + eᵇ) without overflow; −∞ when both are −∞.
pub fn log_add_exp(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    // Equal infinities would give ∞ − ∞.
    if high.is_infinite() && high == low { high } else { high + (low - high).exp().ln_1p() }
}

/// ln Σ e^{xᵢ} without overflow; −∞ of an empty slice, NaN if any is NaN.
///
/// ```
/// use posterior::math::special::log_sum_exp;
/// assert!((log_sum_exp(&[-1000.0, -1000.0]) - (2f64.ln() - 1000.0)).abs() < 1e-12);
/// ```
pub fn log_sum_exp(x: &[f64]) -> f64 {
    let high = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if high.is_infinite() {
        return if x.iter().any(|v| v.is_nan()) { f64::NAN } else { high };
    }
    high + x.iter().map(|v| (v - high).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_sums_at_the_edges() {
        let inf = f64::INFINITY;
        assert_eq!(log_add_exp(-inf, -inf), -inf);
        assert_eq!(log_add_exp(inf, inf), inf);
        assert_eq!(log_add_exp(-inf, 3.0), 3.0);
        assert_eq!(log_add_exp(3.0, -inf), 3.0);
        assert!(log_add_exp(f64::NAN, 1.0).is_nan() && log_add_exp(1.0, f64::NAN).is_nan());
        assert_eq!(log_sum_exp(&[]), -inf);
        assert_eq!(log_sum_exp(&[-inf, -inf]), -inf);
        assert_eq!(log_sum_exp(&[1.0, inf]), inf);
        assert!(log_sum_exp(&[f64::NAN, 1.0]).is_nan());
        assert!(log_sum_exp(&[f64::NAN, f64::NEG_INFINITY]).is_nan());
    }

    #[test]
    fn log_sums_agree_with_plain_sums() {
        // Rounding: a few units in the last place.
        let x: [f64; 4] = [0.3, -2.0, 1.7, 0.0];
        let plain = x.iter().map(|v| v.exp()).sum::<f64>().ln();
        assert!((log_sum_exp(&x) - plain).abs() < 1e-15);
        let folded = x.iter().fold(f64::NEG_INFINITY, |a, b| log_add_exp(a, *b));
        assert!((folded - plain).abs() < 1e-15);
    }
}
