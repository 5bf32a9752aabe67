//! Gaussian outputs seen through a likelihood: ∫ p(y | f) N(f | m, C) df as a mixture of normals, without draws.
//!
//! Normal noise adds its variance: N(m, C + σ²). Student's t is a scale mixture, σ²/λ with λ ~ Gamma(ν/2, ν/2), so that it is Σᵢ wᵢ N(m, C + σ²/λᵢ) with
//! the trapezoidal rule in ln λ; noise that the network gives is a sum over nodes of its output, with the mean conditional on it. The sums are smooth at every ratio of
//! noise to C, unlike points of f, between which narrow noise leaves holes. The trapezoidal rule of a function analytic in a strip of half-width a has an error of
//! e^{−2πa/h} (Trefethen & Weideman 2014, SIAM Review 56); steps h are chosen so that this is below 1e-9.

use crate::math::special::{HALF_LN_TAU, ln_gamma};
use std::f64::consts::PI;

/// A component of a mixture of normals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormalPart {
    /// Its share; those of a mixture sum to 1.
    pub weight: f64,
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation.
    pub std: f64,
}

/// A likelihood under which Gaussian outputs give a mixture of normals.
pub trait ClosedForm: Sync {
    /// The components of p(y_target) for one row of outputs f ~ N(mean, covariance), `covariance` of `outputs × outputs`. Weights sum to 1.
    fn normals(&self, target: usize, mean: &[f64], covariance: &[f64], noise: &[f64], push: &mut dyn FnMut(NormalPart));

    /// E[Var[y_target | f]], the aleatoric part of the variance. The epistemic part is the variance of output number `target`.
    fn noise_variance(&self, target: usize, mean: &[f64], covariance: &[f64], noise: &[f64]) -> f64;
}

/// Where a standard normal is cut off: 2e-17 lies beyond.
const CUT: f64 = 8.5;
/// Nodes of a rule at most.
const MOST: usize = 512;

/// Nodes z and weights of Σ wᵢ g(m + s zᵢ) ≈ E g(N(m, s²)) for functions g analytic within π of the real line, such as logistic functions. The error is below 1e-10
/// up to s = 24, 1e-5 at 50.
pub fn normal_nodes(std: f64) -> impl Iterator<Item = (f64, f64)> + Clone {
    let step = (0.8 / std.max(1e-3)).min(0.5);
    let half = ((CUT / step).ceil() as usize).clamp(1, MOST / 2);
    let step = CUT / half as f64;
    let weight = move |i: usize| {
        let z = (i as f64 - half as f64) * step;
        (z, (-0.5 * z * z).exp())
    };
    let total: f64 = (0..=2 * half).map(|i| weight(i).1).sum();
    (0..=2 * half).map(move |i| {
        let (z, w) = weight(i);
        (z, w / total)
    })
}

/// Steps in ln λ at most, and in standard deviations of ln λ, which are about √(2/ν). The error of the weights' sum is 2|Γ(ν/2 + 2πi/h)|/Γ(ν/2), at most 2e-10 (at
/// ν = 8).
const STEP: f64 = 0.3;
const STEP_OF_STD: f64 = 0.6;
/// e^{−this} is left out on either side.
const BEYOND: f64 = 40.0;

/// Weights and 1/λ of λ ~ Gamma(ν/2, ν/2): Student's t with ν degrees of freedom as a mixture of normals of variance 1/λ.
pub(super) fn student_scales(degrees: f64) -> Vec<(f64, f64)> {
    let half = 0.5 * degrees;
    // ln of the density of u = ln λ, relative to its mode at 0.
    let log = |u: f64| half * (1.0 + u - u.exp());
    let edge = |mut inside: f64, mut outside: f64| {
        for _ in 0..200 {
            let middle = 0.5 * (inside + outside);
            if log(middle) > -BEYOND { inside = middle } else { outside = middle }
        }
        outside
    };
    let (low, high) = (edge(0.0, -BEYOND / half - 2.0), edge(0.0, (2.0 + BEYOND / half).ln() + 2.0));
    let count = ((high - low) / STEP.min(STEP_OF_STD * (1.0 / half).sqrt())).ceil();
    let step = (high - low) / count;
    let nodes = (0..=count as usize).map(|i| low + step * i as f64);
    let all: Vec<(f64, f64)> = nodes.map(|u| (log(u).exp(), (-u).exp())).collect();
    let total: f64 = all.iter().map(|(w, _)| w).sum();
    debug_assert!({
        // ∫ e^{log u} du = Γ(ν/2) (ν/2)^{−ν/2} e^{ν/2}: the rule reproduces the constant.
        let exact = ln_gamma(half) - half * half.ln() + half;
        degrees > 1e8 || ((total * step).ln() - exact).abs() < 1e-9
    });
    all.into_iter().map(|(w, v)| (w / total, v)).collect()
}

/// ln N(y | mean, covariance) of a few numbers; `covariance` is overwritten by its Cholesky factor. None where it is not positive definite.
pub(crate) fn log_normal_density(y: &[f64], mean: &[f64], covariance: &mut [f64]) -> Option<f64> {
    let k = y.len();
    let mut solved = vec![0.0; k];
    let mut log = -(k as f64) * HALF_LN_TAU;
    for i in 0..k {
        for j in 0..=i {
            let inner: f64 = (0..j).map(|t| covariance[i * k + t] * covariance[j * k + t]).sum();
            let rest = covariance[i * k + j] - inner;
            if i == j {
                if rest.is_nan() || rest <= 0.0 {
                    return None;
                }
                covariance[i * k + i] = rest.sqrt();
            } else {
                covariance[i * k + j] = rest / covariance[j * k + j];
            }
        }
        let inner: f64 = (0..i).map(|t| covariance[i * k + t] * solved[t]).sum();
        solved[i] = (y[i] - mean[i] - inner) / covariance[i * k + i];
        log -= 0.5 * solved[i] * solved[i] + covariance[i * k + i].ln();
    }
    Some(log)
}

/// The mean of the logistic function under N(m, s²), by [`normal_nodes`].
pub fn mean_logistic(mean: f64, std: f64) -> f64 {
    normal_nodes(std).map(|(z, w)| w / (1.0 + (-(mean + std * z)).exp())).sum::<f64>().clamp(0.0, 1.0)
}

/// The probit approximation of [`mean_logistic`] (MacKay 1992): σ(m/√(1 + πs²/8)).
pub fn probit_logistic(mean: f64, std: f64) -> f64 {
    1.0 / (1.0 + (-mean / (1.0 + PI / 8.0 * std * std).sqrt()).exp())
}

#[cfg(test)]
mod tests {
    use super::super::special::student_cdf;
    use super::*;
    use crate::math::quadrature::integrate;
    use crate::math::special::{ln_student_constant, normal_cdf};

    /// Without spread of f the mixture is Student's t itself: distribution function and density against the exact ones.
    #[test]
    fn student_is_its_scale_mixture() {
        for degrees in [2.1, 3.0, 4.0, 5.5, 30.0, 1000.0, 1e6] {
            let scales = student_scales(degrees);
            for z in [0.0f64, 0.3, 1.0, -2.5, 6.0, 40.0, 300.0] {
                let cdf: f64 = scales.iter().map(|(w, v)| w * normal_cdf(z / v.sqrt())).sum();
                assert!((cdf - student_cdf(z, degrees)).abs() < 1e-10, "{degrees} {z}: {cdf}");
                let exact = ln_student_constant(degrees) - 0.5 * (degrees + 1.0) * (z * z / degrees).ln_1p();
                if exact > -60.0 {
                    let density: f64 =
                        scales.iter().map(|(w, v)| w * (-0.5 * z * z / v - 0.5 * v.ln() - HALF_LN_TAU).exp()).sum();
                    assert!((density.ln() - exact).abs() < 1e-7, "{degrees} {z}: {} {exact}", density.ln());
                }
            }
        }
    }

    /// Against adaptive quadrature with a tolerance of 1e-12.
    #[test]
    fn mean_of_the_logistic_function() {
        for (mean, std) in [(0.0, 1.0), (1.0, 0.01), (-3.0, 2.0), (2.0, 10.0), (0.5, 24.0)] {
            let edges: Vec<f64> = (0..=400).map(|i| -9.0 + 18.0 * f64::from(i) / 400.0).collect();
            let mut of = |z: f64| (-0.5 * z * z - HALF_LN_TAU).exp() / (1.0 + (-(mean + std * z)).exp());
            let exact = integrate(&mut of, &edges, 1e-12);
            assert!(
                (mean_logistic(mean, std) - exact).abs() < 1e-9,
                "{mean} {std}: {} {exact}",
                mean_logistic(mean, std)
            );
        }
        assert!((mean_logistic(0.0, 1e4) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn density_of_two_numbers() {
        let (a, b, c): (f64, f64, f64) = (2.0, 0.6, 1.5);
        let (y, m) = ([1.0, -0.5], [0.2, 0.3]);
        let det = a * c - b * b;
        let (d0, d1) = (y[0] - m[0], y[1] - m[1]);
        let square = (c * d0 * d0 - 2.0 * b * d0 * d1 + a * d1 * d1) / det;
        let exact = -2.0 * HALF_LN_TAU - 0.5 * det.ln() - 0.5 * square;
        let found = log_normal_density(&y, &m, &mut [a, b, b, c]).unwrap();
        assert!((found - exact).abs() < 1e-14); // rounding
        assert!(log_normal_density(&y, &m, &mut [1.0, 2.0, 2.0, 1.0]).is_none());
    }
}
