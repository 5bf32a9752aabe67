//! Distribution functions and constants of the likelihoods, over `math::special`.

use crate::math::special::{HALF_LN_TAU, gamma_q, ln_gamma, student_tail};
use std::sync::LazyLock;

/// ln(1 + eˣ)
pub(super) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// 1/(1 + e⁻ˣ), with relative accuracy in the lower tail.
pub(super) fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// ln y! for a whole y ≥ 0; ∞ for any other number, which no count is.
#[inline]
pub(super) fn ln_factorial(y: f64) -> f64 {
    static SMALL: LazyLock<[f64; 256]> = LazyLock::new(|| std::array::from_fn(|y| ln_gamma(y as f64 + 1.0)));
    if !(y >= 0.0 && y.fract() == 0.0) {
        f64::INFINITY
    } else if y < 256.0 {
        SMALL[y as usize]
    } else {
        // Stirling's series; the first term left out is 1/1260y⁵ < 1e-15.
        (y + 0.5) * y.ln() - y + HALF_LN_TAU + (1.0 / 12.0 - 1.0 / (360.0 * y * y)) / y
    }
}

/// P(T ≤ t) of Student's t with ν degrees of freedom: ½ I_{ν/(ν+t²)}(ν/2, ½) is the tail beyond |t|.
pub(super) fn student_cdf(t: f64, degrees: f64) -> f64 {
    if t.is_nan() {
        return t;
    }
    let tail = student_tail(t, degrees);
    if t < 0.0 { tail } else { 1.0 - tail }
}

/// P(Y ≤ y) of a Poisson count with the rate λ: the upper incomplete gamma function Q(y + 1, λ), continued to
/// all y above −1.
pub(super) fn poisson_cdf(y: f64, rate: f64) -> f64 {
    if y.is_nan() || rate.is_nan() {
        return f64::NAN;
    }
    if y <= -1.0 {
        return 0.0;
    }
    if rate <= 0.0 || y.is_infinite() {
        return 1.0;
    }
    gamma_q(y + 1.0, rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::special::ln_student_constant;
    use std::f64::consts::PI;

    /// Values by hand: closed forms of t with 1 and 2 degrees, sums of Poisson terms, ln of factorials.
    #[test]
    fn known_values() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12 * b.abs().max(1e-3), "{a} {b}");
        for t in [-50.0, -3.0, -0.1, 0.0, 0.7, 20.0] {
            near(student_cdf(t, 1.0), 0.5 + f64::atan(t) / PI);
            near(student_cdf(t, 2.0), 0.5 + t / (2.0 * (2.0 + t * t).sqrt()));
            assert!((student_cdf(t, 0.99e6) - student_cdf(t, 1.01e6)).abs() < 2e-8); // across the seam
        }
        for rate in [0.01_f64, 1.0, 7.5, 60.0] {
            let (mut term, mut sum) = ((-rate).exp(), 0.0);
            for k in 0..90 {
                sum += term;
                near(poisson_cdf(f64::from(k), rate), sum);
                term *= rate / f64::from(k + 1);
            }
        }
        assert!((poisson_cdf(0.9999e7, 0.9999e7) - poisson_cdf(1.0001e7, 1.0001e7)).abs() < 1e-7); // across the seam
        near(ln_factorial(5.0), 120_f64.ln());
        near(ln_factorial(256.0), ln_gamma(257.0));
        near(ln_factorial(1e6), ln_gamma(1e6 + 1.0));
        assert!(ln_factorial(-1.0).is_infinite() && ln_factorial(0.5).is_infinite());
        near(ln_student_constant(200.1), ln_gamma(100.55) - ln_gamma(100.05) - 0.5 * (PI * 200.1).ln());
        near(softplus(0.0), std::f64::consts::LN_2);
        near(sigmoid(-800.0), 0.0);
    }
}
