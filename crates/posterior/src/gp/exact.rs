//! Exact Gaussian process regression: y = f(x) + ε, f ~ GP(0, k), ε ~ N(0, σ²).
//!
//! K = k(X, X) + σ²I = L Lᵀ, α = K⁻¹y:  log p(y) = −½ yᵀα − Σ ln Lᵢᵢ − (n/2) ln 2π;  ∂/∂θ = ½ tr[(ααᵀ − K⁻¹) ∂K/∂θ];
//! f* ~ N(k*ᵀα, k** − ‖L⁻¹k*‖²). Left out one row at a time: yᵢ ~ N(yᵢ − αᵢ/[K⁻¹]ᵢᵢ, 1/[K⁻¹]ᵢᵢ).
//! Cost n³ for a value with its gradient and n²/2 · 2 numbers, whatever the number of inputs; n² for a prediction.
//! Reference: Rasmussen & Williams (2006), Gaussian Processes for Machine Learning, 2.3, 5.4.1, 5.4.2.

use super::covariance::{Covariance, Points, Scratch};
use super::factor::Lower;
use super::kernel::Kernel;
use crate::error::{Error, Result};
use crate::fitted::LeaveOneOut;
use crate::math::linalg::dot;
use crate::math::special::HALF_LN_TAU;
use rayon::prelude::*;
use std::sync::Arc;

/// K with noise, not yet factored. Numbers above the diagonal are not set.
pub(super) fn matrix(covariance: &Covariance<'_>, points: &Points, noise: f64) -> Lower {
    let mut lower = Lower::zeros(points.n);
    lower.fill(|rows, out| {
        let (width, mut scratch) = (rows.end, Scratch::default());
        for (i, out) in rows.zip(out.chunks_mut(width)) {
            covariance.row(points, i, points, 0, true, &mut scratch, &mut out[..=i]);
        }
    });
    lower.add_diagonal(noise);
    lower
}

/// log p(y | X, θ) and, where wanted, its gradient in `log`: the logarithms of the kernel's parameters and of the noise variance. An error where K is not
/// positive definite in double precision.
pub fn log_marginal(kernel: &Kernel, x: &[f64], y: &[f64], log: &[f64], gradient: Option<&mut [f64]>) -> Result<f64> {
    let noise = noise_of(kernel, log);
    let covariance = Covariance::new(kernel, log);
    let points = covariance.points(x);
    let mut lower = matrix(&covariance, &points, noise);
    lower.factor()?;
    let mut alpha = y.to_vec();
    lower.solve(&mut alpha);
    let value = -0.5 * dot(&alpha, &alpha) - 0.5 * lower.log_det() - HALF_LN_TAU * y.len() as f64;
    if let Some(gradient) = gradient {
        lower.solve_transposed(&mut alpha);
        lower.invert();
        gradient.fill(0.0);
        let parts = lower.map(|rows, inverse| {
            let (width, mut scratch) = (rows.end, Scratch::default());
            let (mut part, mut weights) = (vec![0.0; log.len()], Vec::new());
            for (i, inverse) in rows.zip(inverse.chunks(width)) {
                weights.clear();
                weights.extend((0..=i).map(|j| alpha[i] * alpha[j] - inverse[j]));
                weights[i] *= 0.5;
                part[log.len() - 1] += weights[i] * noise;
                covariance.gradient(&points, i, &points, 0, true, &weights, &mut scratch, &mut part);
            }
            part
        });
        for part in parts {
            gradient.iter_mut().zip(part).for_each(|(g, p)| *g += p);
        }
    }
    Ok(value)
}

/// σ², whose logarithm is the last number.
pub(super) fn noise_of(kernel: &Kernel, log: &[f64]) -> f64 {
    log[kernel.parameters().len()].exp()
}

/// Bytes that a value with its gradient takes at most, and a fit keeps.
pub(super) fn bytes(n: usize) -> u128 {
    // The matrix, and its factor inverted; panels are small beside them.
    2 * Lower::numbers(n) * 8
}

/// Seconds of a value with its gradient on this many threads, about: n³ operations.
pub(super) fn seconds(n: usize) -> f64 {
    let threads = rayon::current_num_threads().clamp(1, 16) as f64;
    (n as f64).powi(3) / (15e9 * threads) + 1e-3
}

/// A Gaussian process under data, at fixed parameters.
#[derive(Debug, Clone)]
pub(super) struct Exact {
    pub kernel: Arc<Kernel>,
    /// Logarithms of the kernel's parameters and of the noise variance.
    pub log: Vec<f64>,
    pub x: Arc<[f64]>,
    pub y: Arc<[f64]>,
    pub lower: Lower,
    pub alpha: Vec<f64>,
    /// What was added to the diagonal so that K is positive definite in double precision.
    pub jitter: f64,
    points: Points,
}

/// Steps of jitter, as parts of the mean of the diagonal: beyond the last the matrix would be another one.
pub(super) const JITTER: [f64; 4] = [1e-10, 1e-9, 1e-8, 1e-7];

impl Exact {
    /// Factors K; with jitter only where that fails without.
    pub(super) fn new(kernel: Arc<Kernel>, log: Vec<f64>, x: Arc<[f64]>, y: Arc<[f64]>) -> Result<Exact> {
        let noise = noise_of(&kernel, &log);
        let covariance = Covariance::new(&kernel, &log);
        let points = covariance.points(&x);
        let build = |extra: f64| {
            let mut lower = matrix(&covariance, &points, noise + extra);
            lower.factor().map(|()| lower)
        };
        let mut scratch = Scratch::default();
        let mean = (0..points.n).map(|i| covariance.diagonal(&points, i, &mut scratch)).sum::<f64>() / points.n as f64;
        let (mut jitter, mut found) = (0.0, build(0.0));
        for step in JITTER {
            if found.is_ok() {
                break;
            }
            jitter = step * (mean + noise);
            found = build(jitter);
        }
        let lower = found.map_err(|_| {
            Error::numerical(
                format!(
                    "the covariance of {} rows is not positive definite, even with {:e} of its mean variance added",
                    points.n,
                    JITTER[JITTER.len() - 1]
                ),
                "let the noise be learned, or add a white kernel",
            )
        })?;
        Ok(Exact::with_factor(kernel.clone(), log, x, y, lower, jitter))
    }

    /// From a factor that is known.
    pub(super) fn with_factor(
        kernel: Arc<Kernel>,
        log: Vec<f64>,
        x: Arc<[f64]>,
        y: Arc<[f64]>,
        lower: Lower,
        jitter: f64,
    ) -> Exact {
        let points = Covariance::new(&kernel, &log).points(&x);
        let mut alpha = y.to_vec();
        lower.solve(&mut alpha);
        lower.solve_transposed(&mut alpha);
        Exact { kernel, log, x, y, lower, alpha, jitter, points }
    }

    pub(super) fn log_marginal(&self) -> f64 {
        -0.5 * dot(&self.y, &self.alpha) - 0.5 * self.lower.log_det() - HALF_LN_TAU * self.y.len() as f64
    }

    /// Mean and variance of f at rows of encoded inputs; a variance is never negative.
    pub(super) fn predict(&self, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let covariance = Covariance::new(&self.kernel, &self.log);
        let (points, n) = (covariance.points(x), self.points.n);
        let fill = |columns: std::ops::Range<usize>, out: &mut [f64]| {
            // A row of the panel for every training row.
            let mut scratch = Scratch::default();
            let cols = columns.len();
            for (i, out) in (0..n).zip(out.chunks_mut(cols)) {
                covariance.row(&self.points, i, &points, columns.start, false, &mut scratch, out);
            }
        };
        let work = |columns: std::ops::Range<usize>, plain: &[f64], solved: &[f64]| {
            let cols = columns.len();
            let (mut mean, mut square) = (vec![0.0; cols], vec![0.0; cols]);
            for i in 0..n {
                for j in 0..cols {
                    mean[j] += self.alpha[i] * plain[i * cols + j];
                    square[j] += solved[i * cols + j] * solved[i * cols + j];
                }
            }
            let mut scratch = Scratch::default();
            let variance =
                columns.zip(square).map(|(j, s)| (covariance.diagonal(&points, j, &mut scratch) - s).max(0.0));
            (mean, variance.collect::<Vec<f64>>())
        };
        let mut out = (Vec::with_capacity(points.n), Vec::with_capacity(points.n));
        for (mean, variance) in self.lower.solve_panels(points.n, fill, work) {
            out.0.extend(mean);
            out.1.extend(variance);
        }
        out
    }

    /// K⁻¹ v.
    pub(super) fn solve(&self, v: &mut [f64]) {
        self.lower.solve(v);
        self.lower.solve_transposed(v);
    }

    /// Rows made ready.
    pub(super) fn points(&self) -> &Points {
        &self.points
    }

    /// In closed form, from the diagonal of K⁻¹.
    pub(super) fn leave_one_out(&self) -> LeaveOneOut {
        let mut inverse = self.lower.clone();
        inverse.invert();
        let diagonal: Vec<f64> = (0..self.alpha.len()).into_par_iter().map(|i| inverse.diagonal(i)).collect();
        LeaveOneOut {
            residual: self.alpha.iter().zip(&diagonal).map(|(a, d)| a / d).collect(),
            std: diagonal.iter().map(|d| d.sqrt().recip()).collect(),
        }
    }
}
