//! KL[N(θ, αθ²) ‖ p] for the improper p(w) ∝ 1/|w|: a function of α alone, up to a constant.
//!
//! KL(α) = E_{ε~N(1,α)}[ln|ε|] − ½ ln α + C ≈ k₁ − k₁·sigmoid(k₂ + k₃ ln α) + ½ ln(1 + 1/α), with C such that KL(∞) = 0
//! (Molchanov, Ashukha & Vetrov 2017, equation 14). Against quadrature it is off by −0.0044 to 0.0094; the paper states
//! less than 0.009, which holds up to a constant, and a constant changes no gradient.

use crate::math::Real;

const K1: f64 = 0.63576;
const K2: f64 = 1.87320;
const K3: f64 = 1.48695;

/// KL as a function of ln α; 0 for α → ∞.
pub fn log_uniform_kl(log_alpha: f64) -> f64 {
    let s = 1.0 / (1.0 + (-(K2 + K3 * log_alpha)).exp());
    K1 - K1 * s + 0.5 * (-log_alpha).exp().ln_1p()
}

/// Its slope, negative everywhere: noise is what this prior asks for.
pub fn log_uniform_kl_slope(log_alpha: f64) -> f64 {
    -sigmoid_part::<f64, false>(log_alpha).1 - 0.5 / (1.0 + log_alpha.exp())
}

/// The first part of −dKL/d ln α, k₁k₃·s(1 − s); the other is ½/(1 + α).
#[inline(always)]
fn sigmoid_part<R: Real, const F: bool>(log_alpha: R) -> (R, R) {
    let s = R::of(K3).mul_add::<F>(log_alpha, R::of(K2)).sigmoid::<F>();
    (s, R::of(K1 * K3) * s * (R::ONE - s))
}

/// |m| is taken as at least this, so that ln α stays finite.
const SMALLEST: f64 = 1e-12;

/// ln α = ln σ² − ln m².
#[inline(always)]
pub(crate) fn log_alpha<R: Real, const F: bool>(m: R, s: R) -> R {
    let ratio = s / m.abs().max(R::of(SMALLEST));
    let ln = ratio.max(R::of(1e-18)).ln_positive::<F>();
    ln + ln
}

/// KL of one weight N(m, s²).
#[inline(always)]
pub(crate) fn kl_of<R: Real, const F: bool>(m: R, s: R) -> R {
    let (sigmoid, _) = sigmoid_part::<R, F>(log_alpha::<R, F>(m, s));
    let (mm, ss) = (m * m, s * s);
    R::of(K1) - R::of(K1) * sigmoid + R::HALF * ((ss + mm) / ss).ln_positive::<F>()
}

/// ∂KL/∂m and ∂KL/∂s. With A = k₁k₃·s(1−s): 2A/m + m/(m² + s²) and −(2A + m²/(m² + s²))/s; both have limits at m = 0.
#[inline(always)]
pub(crate) fn slopes<R: Real, const F: bool>(m: R, s: R) -> (R, R) {
    let (_, a) = sigmoid_part::<R, F>(log_alpha::<R, F>(m, s));
    let twice = a + a;
    let (mm, total) = (m * m, m * m + s * s);
    let on_mean = twice * m / mm.max(R::of(1e-24)) + m / total;
    (on_mean, -(twice + mm / total) / s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use posterior_testing::expect_gradient;

    /// E ln|ε| for ε ~ N(1, α), minus its value ½ ln α + ½(ln 2 − γ − …) at α → ∞, by quadrature in t = ln|ε| on both sides.
    fn by_quadrature(log_alpha: f64) -> f64 {
        let alpha = log_alpha.exp();
        let density = |e: f64| (-0.5 * (e - 1.0) * (e - 1.0) / alpha).exp() / (std::f64::consts::TAU * alpha).sqrt();
        // The trapezoidal rule on the whole line in t converges beyond all powers.
        let h = 1e-3;
        let mut sum = 0.0;
        for i in -40_000i32..12_000 {
            let t = f64::from(i) * h;
            let e = t.exp();
            sum += t * e * (density(e) + density(-e));
        }
        let expectation = sum * h;
        // KL = −entropy − E ln p = −½ ln(2πe αθ²) + E ln|θε| + const = E ln|ε| − ½ ln α + const. For α → ∞, ε/√α is
        // standard normal, E ln|z| = −(γ + ln 2)/2, and KL → 0 fixes the constant.
        let gamma = 0.577_215_664_901_532_9;
        expectation - 0.5 * log_alpha + 0.5 * (gamma + 2f64.ln())
    }

    #[test]
    fn as_close_to_the_integral_as_its_paper_states() {
        let (mut low, mut high) = (0.0f64, 0.0f64);
        for i in -80..=80 {
            let log_alpha = f64::from(i) / 10.0;
            let error = log_uniform_kl(log_alpha) - by_quadrature(log_alpha);
            (low, high) = (low.min(error), high.max(error));
        }
        assert!(0.5 * (high - low) < 0.009, "up to a constant: {low} to {high}");
        assert!(low > -0.0045 && high < 0.0095, "{low} to {high}");
    }

    #[test]
    fn slopes_by_differences_and_kl_in_both_precisions() {
        for (m, s) in [(0.3, 0.1), (-0.02, 0.5), (1.5, 1e-3), (-0.7, 0.7)] {
            let f = |p: &[f64]| {
                let (a, b) = slopes::<f64, false>(p[0], p[1]);
                (kl_of::<f64, false>(p[0], p[1]), vec![a, b])
            };
            if s > 0.05 {
                expect_gradient(f, &[m, s], 1e-6);
            }
            let exact = log_uniform_kl(2.0 * (s / f64::abs(m)).ln());
            assert!((kl_of::<f64, false>(m, s) - exact).abs() < 1e-12 * exact.max(1.0));
            // f32: rounding of a logarithm near 7.
            assert!((f64::from(kl_of::<f32, false>(m as f32, s as f32)) - exact).abs() < 2e-6 * exact.max(1.0));
        }
        for log_alpha in [-6.0, -1.0, 0.5, 4.0] {
            expect_gradient(|p: &[f64]| (log_uniform_kl(p[0]), vec![log_uniform_kl_slope(p[0])]), &[log_alpha], 1e-9);
        }
        // At m = 0 nothing penalties, and σ has no slope.
        let (a, b) = slopes::<f32, false>(0.0, 0.3);
        assert!(a == 0.0 && b.abs() < 1e-6);
    }
}
