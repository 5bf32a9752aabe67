//! Sparse Gaussian process regression: inducing rows Z chosen greedily, and the collapsed variational bound.
//!
//! With K_uu = k(Z, Z) = L Lᵀ, A = L⁻¹K_uf/σ and B = I + A Aᵀ:
//! log p(y) ≥ −½ log|B| − (n/2) log 2πσ² − (yᵀy − (Ay)ᵀB⁻¹Ay)/2σ² − ½ tr(K_ff)/σ² + ½ tr(A Aᵀ).
//! The bound rises with every row that is added to Z, and is log p(y) where Z is all rows. With u = L⁻ᵀB⁻¹Ay/σ and α = (y − AᵀB⁻¹Ay)/σ² its gradient is
//! Σ of ∂k times uαᵀ + L⁻ᵀ(I − B⁻¹)A/σ over K_uf, −½(uuᵀ + L⁻ᵀ(B − 2I + B⁻¹)L⁻¹) over K_uu, −1/2σ² over the diagonal. Predictions: k*ᵀu and k** − ‖L⁻¹k*‖² + ‖L_B⁻¹L⁻¹k*‖².
//! Z is what pivoted Cholesky takes: the row whose variance given those before is largest.
//! Reference: Titsias (2009); Burt, Rasmussen & van der Wilk (2020). Cost: 4 n m² for a value with its gradient, n m numbers.

use super::covariance::{Covariance, Points, Scratch};
use super::exact::{JITTER, noise_of};
use super::factor::Lower;
use super::kernel::Kernel;
use crate::error::Result;
use crate::math::linalg::dot;
use crate::math::special::HALF_LN_TAU;
use crate::math::{Mat, Threads, gemm};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use std::sync::Arc;

/// Rows that one task works through at a time.
const CHUNK: usize = 128;
/// Rows that inducing ones are chosen among.
const CANDIDATES: usize = 4000;

/// Bytes that a value with its gradient takes, about.
pub(super) fn bytes(n: usize, m: usize) -> u128 {
    (n as u128 * m as u128 + 8 * m as u128 * m as u128) * 8
}

/// Numbers of the rows that pivoted Cholesky takes, m of them or fewer where the rest follows from them.
pub(super) fn choose(kernel: &Kernel, log: &[f64], x: &[f64], m: usize) -> Vec<usize> {
    let width = kernel.width();
    let n = x.len() / width;
    let candidates: Vec<usize> = if n <= CANDIDATES.max(m) {
        (0..n).collect()
    } else {
        let count = CANDIDATES.max(m);
        (0..count).map(|i| i * n / count).collect()
    };
    let rows: Vec<f64> = candidates.iter().flat_map(|r| x[r * width..(r + 1) * width].iter().copied()).collect();
    let covariance = Covariance::new(kernel, log);
    let points = covariance.points(&rows);
    let (count, mut scratch) = (points.n, Scratch::default());
    // Without what a white kernel adds: no other row tells of that.
    let mut left = vec![0.0; count];
    for i in 0..count {
        covariance.row(&points, i, &points, i, false, &mut scratch, &mut left[i..=i]);
    }
    let floor = 1e-10 * left.iter().fold(0.0f64, |m, v| m.max(*v));
    // Column-wise: what is known of a candidate stands together.
    let mut known: Vec<Vec<f64>> = vec![Vec::with_capacity(m.min(count)); count];
    let mut taken = Vec::with_capacity(m.min(count));
    while taken.len() < m.min(count) {
        let (mut best, mut most) = (0, f64::NEG_INFINITY);
        for (i, v) in left.iter().enumerate() {
            if *v > most {
                (best, most) = (i, *v);
            }
        }
        if most <= floor {
            break;
        }
        taken.push(best);
        let (own, root) = (known[best].clone(), most.sqrt());
        let mut row = vec![0.0; count];
        covariance.row(&points, best, &points, 0, false, &mut scratch, &mut row);
        known.par_iter_mut().zip(&mut left).zip(&row).with_min_len(64).for_each(|((known, left), k)| {
            let v = (k - dot(known, &own)) / root;
            known.push(v);
            *left -= v * v;
        });
        left[best] = f64::NEG_INFINITY;
    }
    taken.into_iter().map(|i| candidates[i]).collect()
}

/// A process known through its inducing rows.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    pub kernel: Arc<Kernel>,
    pub log: Vec<f64>,
    /// Encoded inputs of the inducing rows.
    pub z: Arc<[f64]>,
    pub weights: Vec<f64>,
    /// L and L_B.
    pub root: Lower,
    pub inner: Lower,
    points: Points,
}

/// K_uu factored, with jitter only where that fails without.
fn root_of(covariance: &Covariance<'_>, points: &Points) -> Result<Lower> {
    let mut plain = Lower::zeros(points.n);
    plain.fill(|rows, out| {
        let (width, mut scratch) = (rows.end, Scratch::default());
        for (i, out) in rows.zip(out.chunks_mut(width)) {
            covariance.row(points, i, points, 0, false, &mut scratch, &mut out[..=i]);
        }
    });
    let mean = (0..points.n).map(|i| plain.diagonal(i)).sum::<f64>() / points.n.max(1) as f64;
    let build = |extra: f64| {
        let mut lower = plain.clone();
        lower.add_diagonal(extra);
        lower.factor().map(|()| lower)
    };
    JITTER.iter().fold(build(0.0), |found, step| found.or_else(|_| build(step * mean)))
}

/// What the bound and its gradient are made of.
struct Parts {
    root: Lower,
    inner: Lower,
    /// A, for each chunk of rows m × rows.
    chunks: Vec<Vec<f64>>,
    /// B⁻¹Ay.
    solved: Vec<f64>,
    value: f64,
    trace: f64,
}

fn parts(covariance: &Covariance<'_>, points: &Points, inducing: &Points, y: &[f64], noise: f64) -> Result<Parts> {
    let (n, m, sigma) = (points.n, inducing.n, noise.sqrt());
    let root = root_of(covariance, inducing)?;
    let starts: Vec<usize> = (0..n).step_by(CHUNK).collect();
    let chunk = |from: usize| {
        let cols = CHUNK.min(n - from);
        let (mut a, mut scratch) = (vec![0.0; m * cols], Scratch::default());
        for (i, out) in a.chunks_mut(cols).enumerate() {
            covariance.row(inducing, i, points, from, false, &mut scratch, out);
        }
        root.solve_matrix(&mut a, cols);
        a.iter_mut().for_each(|v| *v /= sigma);
        a
    };
    let chunks: Vec<Vec<f64>> = starts.into_par_iter().map(chunk).collect();
    let mut inner = Lower::zeros(m);
    inner.fill(|rows, out| {
        let (own, width) = (rows.len(), rows.end);
        for a in &chunks {
            let cols = a.len() / m;
            let left = MatRef::from_row_major_slice(&a[rows.start * cols..rows.end * cols], own, cols);
            let right = MatRef::from_row_major_slice(&a[..width * cols], width, cols).transpose();
            let into = MatMut::from_row_major_slice_mut(&mut *out, own, width);
            matmul(into, Accum::Add, left, right, 1.0, Par::Seq);
        }
    });
    let squares: f64 = (0..m).map(|i| inner.diagonal(i)).sum();
    inner.add_diagonal(1.0);
    inner.factor()?;
    let mut projected = vec![0.0; m];
    for (a, y) in chunks.iter().zip(y.chunks(CHUNK)) {
        projected.iter_mut().zip(a.chunks(y.len())).for_each(|(p, a)| *p += dot(a, y));
    }
    let mut half = projected;
    inner.solve(&mut half);
    let explained = dot(&half, &half);
    inner.solve_transposed(&mut half);
    let mut scratch = Scratch::default();
    let trace: f64 = (0..n).map(|i| covariance.diagonal(points, i, &mut scratch)).sum();
    let value = -0.5 * inner.log_det()
        - n as f64 * (HALF_LN_TAU + 0.5 * noise.ln())
        - 0.5 * (dot(y, y) - explained) / noise
        - 0.5 * (trace / noise - squares);
    Ok(Parts { root, inner, chunks, solved: half, value, trace: trace - noise * squares })
}

/// The collapsed bound and, where wanted, its gradient in `log`, for inducing rows `z`.
pub fn bound(
    kernel: &Kernel,
    x: &[f64],
    y: &[f64],
    z: &[f64],
    log: &[f64],
    gradient: Option<&mut [f64]>,
) -> Result<f64> {
    let noise = noise_of(kernel, log);
    let covariance = Covariance::new(kernel, log);
    let (points, inducing) = (covariance.points(x), covariance.points(z));
    let (m, sigma) = (inducing.n, noise.sqrt());
    let p = parts(&covariance, &points, &inducing, y, noise)?;
    let Some(gradient) = gradient else { return Ok(p.value) };
    let mut inverse = vec![0.0; m * m];
    (0..m).for_each(|i| inverse[i * m + i] = 1.0);
    p.root.solve_matrix(&mut inverse, m); // L⁻¹
    let mut b = p.inner.clone();
    b.invert();
    let b_inverse = b.dense();
    let product = |a: Mat<'_, f64>, b: Mat<'_, f64>| {
        let mut c = vec![0.0; m * m];
        gemm((m, m, m), &mut c, false, a, b, Threads::Pool);
        c
    };
    // L⁻ᵀ(I − B⁻¹) and L⁻ᵀ(B − 2I + B⁻¹)L⁻¹.
    let mut rest: Vec<f64> = b_inverse.iter().map(|v| -v).collect();
    (0..m).for_each(|i| rest[i * m + i] += 1.0);
    let outer = product(Mat::transposed(&inverse, m), Mat::rows_of(&rest, m));
    let lower = p.inner.dense_lower();
    let mut middle = product(Mat::rows_of(&lower, m), Mat::transposed(&lower, m));
    middle.iter_mut().zip(&b_inverse).for_each(|(v, b)| *v += b);
    (0..m).for_each(|i| middle[i * m + i] -= 2.0);
    let within = product(Mat::transposed(&inverse, m), Mat::rows_of(&middle, m));
    let within = product(Mat::rows_of(&within, m), Mat::rows_of(&inverse, m));
    let mut u = p.solved.clone();
    p.root.solve_transposed(&mut u);
    u.iter_mut().for_each(|v| *v /= sigma);
    let last = log.len() - 1;
    let of_chunk = |(c, a): (usize, &Vec<f64>)| {
        let (from, cols) = (c * CHUNK, a.len() / m);
        let (mut scratch, mut part) = (Scratch::default(), vec![0.0; log.len()]);
        let alpha: Vec<f64> = (0..cols)
            .map(|j| (y[from + j] - (0..m).map(|i| a[i * cols + j] * p.solved[i]).sum::<f64>()) / noise)
            .collect();
        let mut weights = vec![0.0; m * cols];
        let left = MatRef::from_row_major_slice(&outer, m, m);
        let into = MatMut::from_row_major_slice_mut(&mut weights, m, cols);
        matmul(into, Accum::Replace, left, MatRef::from_row_major_slice(a, m, cols), 1.0 / sigma, Par::Seq);
        for (i, weights) in weights.chunks_mut(cols).enumerate() {
            weights.iter_mut().zip(&alpha).for_each(|(w, alpha)| *w += u[i] * alpha);
            covariance.gradient(&inducing, i, &points, from, false, weights, &mut scratch, &mut part);
        }
        for j in from..from + cols {
            covariance.gradient(&points, j, &points, j, true, &[-0.5 / noise], &mut scratch, &mut part);
        }
        part[last] += 0.5 * noise * dot(&alpha, &alpha);
        part
    };
    let over_rows: Vec<Vec<f64>> = p.chunks.par_iter().enumerate().map(of_chunk).collect();
    let of_inducing = |i: usize| {
        let (mut scratch, mut part) = (Scratch::default(), vec![0.0; log.len()]);
        let weights: Vec<f64> = (0..m).map(|j| -0.5 * (u[i] * u[j] + within[i * m + j])).collect();
        covariance.gradient(&inducing, i, &inducing, 0, false, &weights, &mut scratch, &mut part);
        part
    };
    let over_inducing: Vec<Vec<f64>> = (0..m).into_par_iter().map(of_inducing).collect();
    gradient.fill(0.0);
    for part in over_rows.iter().chain(&over_inducing) {
        gradient.iter_mut().zip(part).for_each(|(g, p)| *g += p);
    }
    // −½ σ² tr P with σ² tr P = n − m + tr B⁻¹, and tr(K_ff − Q_ff)/2σ².
    let count = y.len() as f64 - m as f64 + (0..m).map(|i| b_inverse[i * m + i]).sum::<f64>();
    gradient[last] += -0.5 * count + 0.5 * p.trace / noise;
    Ok(p.value)
}

impl Sparse {
    /// The process given all rows, and the bound.
    pub(super) fn new(
        kernel: Arc<Kernel>,
        log: Vec<f64>,
        x: &[f64],
        y: &[f64],
        z: Arc<[f64]>,
    ) -> Result<(Sparse, f64)> {
        let noise = noise_of(&kernel, &log);
        let covariance = Covariance::new(&kernel, &log);
        let (points, inducing) = (covariance.points(x), covariance.points(&z));
        let p = parts(&covariance, &points, &inducing, y, noise)?;
        let mut weights = p.solved;
        p.root.solve_transposed(&mut weights);
        weights.iter_mut().for_each(|v| *v /= noise.sqrt());
        Ok((Sparse::with_factors(kernel.clone(), log, z, weights, p.root, p.inner), p.value))
    }

    pub(super) fn with_factors(
        kernel: Arc<Kernel>,
        log: Vec<f64>,
        z: Arc<[f64]>,
        weights: Vec<f64>,
        root: Lower,
        inner: Lower,
    ) -> Sparse {
        let points = Covariance::new(&kernel, &log).points(&z);
        Sparse { kernel, log, z, weights, root, inner, points }
    }

    pub(super) fn points(&self) -> &Points {
        &self.points
    }

    /// Mean and variance of f at rows of encoded inputs; a variance is never negative.
    pub(super) fn predict(&self, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let covariance = Covariance::new(&self.kernel, &self.log);
        let (points, m) = (covariance.points(x), self.points.n);
        let fill = |columns: std::ops::Range<usize>, out: &mut [f64]| {
            let (cols, mut scratch) = (columns.len(), Scratch::default());
            for (i, out) in (0..m).zip(out.chunks_mut(cols)) {
                covariance.row(&self.points, i, &points, columns.start, false, &mut scratch, out);
            }
        };
        let work = |columns: std::ops::Range<usize>, plain: &[f64], solved: &[f64]| {
            let (cols, mut scratch) = (columns.len(), Scratch::default());
            let mut inner = solved.to_vec();
            self.inner.solve_matrix(&mut inner, cols);
            let (mut mean, mut left) = (vec![0.0; cols], vec![0.0; cols]);
            for i in 0..m {
                for j in 0..cols {
                    let at = i * cols + j;
                    mean[j] += self.weights[i] * plain[at];
                    left[j] += solved[at] * solved[at] - inner[at] * inner[at];
                }
            }
            let variance = columns.zip(left).map(|(j, s)| (covariance.diagonal(&points, j, &mut scratch) - s).max(0.0));
            (mean, variance.collect::<Vec<f64>>())
        };
        let mut out = (Vec::with_capacity(points.n), Vec::with_capacity(points.n));
        for (mean, variance) in self.root.solve_panels(points.n, fill, work) {
            out.0.extend(mean);
            out.1.extend(variance);
        }
        out
    }

    /// K_uu⁻¹(u − f₀(Z)) for u drawn given the data, from standard normals and f₀ at the inducing rows: u = K_uu w + L L_B⁻ᵀ z.
    pub(super) fn correction(&self, normals: &mut [f64], before: &[f64]) -> Vec<f64> {
        self.inner.solve_transposed(normals);
        self.root.solve_transposed(normals);
        let mut own = before.to_vec();
        self.root.solve(&mut own);
        self.root.solve_transposed(&mut own);
        self.weights.iter().zip(&*normals).zip(own).map(|((w, z), f)| w + z - f).collect()
    }
}
