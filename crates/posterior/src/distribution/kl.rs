//! Kullback–Leibler divergences KL[q ‖ p] = E_q[log q(x) − log p(x)], in nats: closed forms, and Monte Carlo for the rest.
//!
//! The first argument is q, the second p: the divergence is not symmetric, and both directions exist wherever both are
//! closed. [`monte_carlo`] gives any pair with its standard error.
//!
//! Reference: Gil, Alajaji & Linder (2013), Information Sciences 249, for the table of closed forms.

use super::{
    Bernoulli, Categorical, DiagonalNormal, Distribution, HALF_LN_TAU, Laplace, LowRankNormal, MultiDistribution,
    MultivariateNormal, Normal,
};
use crate::error::{Error, Result};
use crate::math::linalg::dot;
use crate::math::special::{erf, ln_1p_minus};
use crate::rng::{Key, Stream};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// A Monte Carlo estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean over the draws.
    pub value: f64,
    /// The standard deviation of that mean.
    pub standard_error: f64,
}

/// KL[N(m, s²) ‖ N(μ, σ²)] = ln σ/s + (s² + (m − μ)²)/2σ² − ½.
pub fn normal(q: &Normal, p: &Normal) -> f64 {
    let (s, sigma) = (q.std(), p.std());
    // ½ (r − 1 − ln r) with r = s²/σ², without cancellation where the two are close.
    let r = (s - sigma) / sigma * ((s + sigma) / sigma);
    let d = (q.mean() - p.mean()) / sigma;
    let spread = if r.is_finite() && r > -0.5 {
        -ln_1p_minus(r)
    } else {
        (s / sigma).powi(2) - 1.0 - 2.0 * (s.ln() - sigma.ln())
    };
    0.5 * (spread + d * d)
}

/// [`normal`], summed over independent coordinates.
pub fn diagonal(q: &DiagonalNormal, p: &DiagonalNormal) -> Result<f64> {
    same_dim(q, p)?;
    Ok((0..q.dim()).map(|i| normal(&q.component(i), &p.component(i))).sum())
}

/// ½ (tr(Σₚ⁻¹ Σ_q) + δᵀ Σₚ⁻¹ δ − n + log det Σₚ − log det Σ_q)
fn gaussian(trace: f64, distance: f64, n: usize, log_det_q: f64, log_det_p: f64) -> f64 {
    // Rounding can leave −1e-16·n of a divergence that is 0.
    (0.5 * (trace + distance - n as f64 + log_det_p - log_det_q)).max(0.0)
}

/// KL between normals with full covariances. Cost n³.
pub fn multivariate(q: &MultivariateNormal, p: &MultivariateNormal) -> Result<f64> {
    same_dim(q, p)?;
    Ok(gaussian(p.trace_with(q), p.squared_distance(q.mean()), q.dim(), q.log_det(), p.log_det()))
}

/// KL[full covariance ‖ independent].
pub fn multivariate_diagonal(q: &MultivariateNormal, p: &DiagonalNormal) -> Result<f64> {
    same_dim(q, p)?;
    Ok(gaussian(ratio_sum(&q.variance(), &p.variance()), distance(q.mean(), p), q.dim(), q.log_det(), log_det(p)))
}

/// KL[independent ‖ full covariance].
pub fn diagonal_multivariate(q: &DiagonalNormal, p: &MultivariateNormal) -> Result<f64> {
    same_dim(q, p)?;
    let trace = dot(&q.variance(), &p.precision_diagonal());
    Ok(gaussian(trace, p.squared_distance(q.mean()), q.dim(), log_det(q), p.log_det()))
}

/// KL between normals of diagonal plus low rank. Cost n r².
pub fn low_rank(q: &LowRankNormal, p: &LowRankNormal) -> Result<f64> {
    same_dim(q, p)?;
    let (a, b) = (q.covariance(), p.covariance());
    let mut trace = dot(a.diagonal(), &b.inverse_diagonal());
    for k in 0..a.rank() {
        let column: Vec<f64> = a.factor().iter().skip(k).step_by(a.rank()).copied().collect();
        trace += b.inverse_quadratic(&column);
    }
    let d: Vec<f64> = q.mean().iter().zip(p.mean()).map(|(m, n)| m - n).collect();
    Ok(gaussian(trace, b.inverse_quadratic(&d), q.dim(), a.log_det(), b.log_det()))
}

/// KL[diagonal plus low rank ‖ independent].
pub fn low_rank_diagonal(q: &LowRankNormal, p: &DiagonalNormal) -> Result<f64> {
    same_dim(q, p)?;
    let trace = ratio_sum(&q.variance(), &p.variance());
    Ok(gaussian(trace, distance(q.mean(), p), q.dim(), q.covariance().log_det(), log_det(p)))
}

/// KL[independent ‖ diagonal plus low rank].
pub fn diagonal_low_rank(q: &DiagonalNormal, p: &LowRankNormal) -> Result<f64> {
    same_dim(q, p)?;
    let b = p.covariance();
    let d: Vec<f64> = q.mean().iter().zip(p.mean()).map(|(m, n)| m - n).collect();
    let trace = dot(&q.variance(), &b.inverse_diagonal());
    Ok(gaussian(trace, b.inverse_quadratic(&d), q.dim(), log_det(q), b.log_det()))
}

fn ratio_sum(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a / b).sum()
}

fn distance(x: &[f64], p: &DiagonalNormal) -> f64 {
    (0..x.len()).map(|i| ((x[i] - p.mean()[i]) / p.std()[i]).powi(2)).sum()
}

fn log_det(p: &DiagonalNormal) -> f64 {
    2.0 * p.std().iter().map(|s| s.ln()).sum::<f64>()
}

/// Σ qₖ ln(qₖ/pₖ) with 0 ln 0 = 0; ∞ where q has a class that p rules out.
fn masses(q: &[f64], ln_q: &[f64], ln_p: &[f64]) -> f64 {
    let sum: f64 = (0..q.len()).filter(|k| q[*k] > 0.0).map(|k| q[k] * (ln_q[k] - ln_p[k])).sum();
    sum.max(0.0)
}

/// KL between distributions over the same classes.
pub fn categorical(q: &Categorical, p: &Categorical) -> Result<f64> {
    if q.classes() != p.classes() {
        return Err(dimensions(q.classes(), p.classes()));
    }
    Ok(masses(q.probabilities(), q.log_probabilities(), p.log_probabilities()))
}

/// KL between two coins.
pub fn bernoulli(q: &Bernoulli, p: &Bernoulli) -> f64 {
    let ln = |d: &Bernoulli| [d.log_mass(true), d.log_mass(false)];
    masses(&ln(q).map(f64::exp), &ln(q), &ln(p))
}

/// KL[Laplace(m, s) ‖ Laplace(μ, b)] = ln b/s + (s e^{−d/s} + d)/b − 1 with d = |m − μ|.
pub fn laplace(q: &Laplace, p: &Laplace) -> f64 {
    let (s, b, d) = (q.scale(), p.scale(), (q.mean() - p.mean()).abs());
    ((b / s).ln() + (s * (-d / s).exp() + d) / b - 1.0).max(0.0)
}

/// KL[N(m, s²) ‖ Laplace(μ, b)] = E|w − μ|/b + ln 2b − ½ ln 2πe s², with the mean of a folded normal,
/// E|w − μ| = s √(2/π) e^{−d²/2s²} + d erf(d/s√2), d = m − μ.
pub fn normal_laplace(q: &Normal, p: &Laplace) -> f64 {
    let (s, d) = (q.std(), q.mean() - p.mean());
    let z = d / s * FRAC_1_SQRT_2;
    let folded = s * (2.0 / PI).sqrt() * (-z * z).exp() + d * erf(z);
    folded / p.scale() + (2.0 * p.scale()).ln() - q.entropy()
}

/// KL[Laplace(m, b) ‖ N(μ, σ²)] = (2b² + (m − μ)²)/2σ² + ½ ln 2πσ² − 1 − ln 2b.
pub fn laplace_normal(q: &Laplace, p: &Normal) -> f64 {
    let d = (q.mean() - p.mean()) / p.std();
    0.5 * (q.variance() / p.variance() + d * d) + p.std().ln() + HALF_LN_TAU - q.entropy()
}

/// E_q[log q − log p] over n draws of q, for any pair of scalar distributions.
///
/// Infinite, with an infinite standard error, if a draw falls where p has no mass.
pub fn monte_carlo(q: &dyn Distribution, p: &dyn Distribution, n: usize, key: Key) -> Result<Estimate> {
    let mut stream = Stream::new(key);
    estimate(n, || {
        let x = q.sample(&mut stream);
        q.log_density(x) - p.log_density(x)
    })
}

/// [`monte_carlo`] for distributions of vectors; draw i has the key `key.step(i)`.
pub fn monte_carlo_multi(q: &dyn MultiDistribution, p: &dyn MultiDistribution, n: usize, key: Key) -> Result<Estimate> {
    same_dim(q, p)?;
    let (mut x, mut step) = (vec![0.0; q.dim()], 0);
    estimate(n, || {
        q.sample_keyed(key.step(step), &mut x);
        step += 1;
        q.log_density(&x) - p.log_density(&x)
    })
}

/// Mean and standard error of n numbers (Welford's recurrence).
pub fn estimate(n: usize, mut next: impl FnMut() -> f64) -> Result<Estimate> {
    if n < 2 {
        return Err(Error::setting(format!("{n} draws give no standard error"), "take at least 2"));
    }
    let (mut mean, mut squares) = (0.0, 0.0);
    for i in 0..n {
        let x = next();
        if x == f64::INFINITY {
            return Ok(Estimate { value: x, standard_error: x });
        }
        if !x.is_finite() {
            return Err(Error::numerical(
                format!("a Monte Carlo draw of a divergence is {x}"),
                "check that both densities are numbers where the first one draws",
            ));
        }
        let d = x - mean;
        mean += d / (i + 1) as f64;
        squares += d * (x - mean);
    }
    let n = n as f64;
    Ok(Estimate { value: mean, standard_error: (squares / (n - 1.0) / n).sqrt() })
}

fn same_dim<A: MultiDistribution + ?Sized, B: MultiDistribution + ?Sized>(q: &A, p: &B) -> Result<()> {
    if q.dim() == p.dim() { Ok(()) } else { Err(dimensions(q.dim(), p.dim())) }
}

fn dimensions(q: usize, p: usize) -> Error {
    Error::setting(format!("a divergence between {q} and {p} dimensions"), "both have to have the same")
}

#[cfg(test)]
#[path = "kl_tests.rs"]
mod tests;
