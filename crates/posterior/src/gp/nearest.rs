//! Nearest-neighbour conditioning: p(y) ≈ Π p(yᵢ | the m rows before i that are most correlated with it).
//!
//! With S = neighbours ∪ {i}, K_S + σ²I = L Lᵀ, v the last row of L⁻¹ and r = (L⁻¹y)_last: log p(yᵢ | neighbours) = −½r² + ln v_last − ½ ln 2π, whose derivative in K_S is
//! ½[r(avᵀ + vaᵀ) + (r² − 1)vvᵀ], a the solution for the neighbours alone. A density of its own, so that its evidence is one; exact where m is all rows. Predictions
//! condition on the m rows of the fit that are most correlated with x. Rows stand in the order of the file, shuffled.
//! Reference: Vecchia (1988); Kang & Katzfuss (2021). Cost: n m³ for a value with its gradient, n² kernels to find neighbours.

use super::covariance::{Covariance, Scratch};
use super::exact::{JITTER, noise_of};
use super::kernel::Kernel;
use crate::error::{Error, Result};
use crate::math::linalg::dot;
use crate::math::special::HALF_LN_TAU;
use rayon::prelude::*;
use std::sync::Arc;

/// Rows that one task works through at a time.
const CHUNK: usize = 64;

/// The m rows of `among` (the first `count`) that are most correlated with a row, in order.
fn most_correlated(correlations: &[f64], m: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..correlations.len() as u32).collect();
    let by = |a: &u32, b: &u32| {
        let (x, y) = (correlations[*a as usize].abs(), correlations[*b as usize].abs());
        y.total_cmp(&x).then(a.cmp(b))
    };
    if m < order.len() {
        order.select_nth_unstable_by(m, by);
        order.truncate(m);
    }
    order.sort_unstable();
    order
}

/// The neighbours of every row among those before it.
pub(super) fn neighbours(kernel: &Kernel, log: &[f64], x: &[f64], m: usize) -> Vec<Vec<u32>> {
    let covariance = Covariance::new(kernel, log);
    let points = covariance.points(x);
    (0..points.n)
        .into_par_iter()
        .map_init(
            || (Scratch::default(), vec![0.0; points.n]),
            |(scratch, row), i| {
                covariance.row(&points, i, &points, 0, false, scratch, &mut row[..i]);
                most_correlated(&row[..i], m)
            },
        )
        .collect()
}

/// L of the covariance of some rows, row-major; none where it is not positive definite.
fn factor(k: &mut [f64], n: usize) -> bool {
    for i in 0..n {
        let (above, row) = k.split_at_mut(i * n);
        for j in 0..i {
            let other = &above[j * n..j * n + j + 1];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
        }
        let pivot = row[i] - dot(&row[..i], &row[..i]);
        if pivot.is_nan() || pivot <= 0.0 {
            return false;
        }
        row[i] = pivot.sqrt();
    }
    true
}

/// Solves Lᵀx = b for the first `n` of rows that are `stride` apart.
fn solve_transposed(l: &[f64], stride: usize, n: usize, b: &mut [f64]) {
    for i in (0..n).rev() {
        b[i] /= l[i * stride + i];
        let (x, row) = (b[i], &l[i * stride..i * stride + i]);
        b[..i].iter_mut().zip(row).for_each(|(v, l)| *v -= x * l);
    }
}

/// The log density and, where wanted, its gradient in `log`.
pub(super) fn log_density(
    kernel: &Kernel,
    x: &[f64],
    y: &[f64],
    neighbours: &[Vec<u32>],
    log: &[f64],
    gradient: Option<&mut [f64]>,
) -> Result<f64> {
    let (covariance, noise, width) = (Covariance::new(kernel, log), noise_of(kernel, log), kernel.width());
    let wanted = gradient.is_some();
    let chunk = |from: usize| -> Option<(f64, Vec<f64>)> {
        let (mut scratch, mut sum, mut part) = (Scratch::default(), 0.0, vec![0.0; log.len()]);
        for i in from..y.len().min(from + CHUNK) {
            let set: Vec<usize> = neighbours[i].iter().map(|j| *j as usize).chain([i]).collect();
            let n = set.len();
            let rows: Vec<f64> = set.iter().flat_map(|j| x[j * width..(j + 1) * width].iter().copied()).collect();
            let points = covariance.points(&rows);
            let mut k = vec![0.0; n * n];
            for (a, k) in k.chunks_mut(n).enumerate() {
                covariance.row(&points, a, &points, 0, true, &mut scratch, &mut k[..=a]);
                k[a] += noise;
            }
            if !factor(&mut k, n) {
                return None;
            }
            let mut half: Vec<f64> = set.iter().map(|j| y[*j]).collect();
            for a in 0..n {
                half[a] = (half[a] - dot(&k[a * n..a * n + a], &half[..a])) / k[a * n + a];
            }
            let r = half[n - 1];
            sum += -0.5 * r * r - k[n * n - 1].ln() - HALF_LN_TAU;
            if wanted {
                let mut v = vec![0.0; n];
                v[n - 1] = 1.0;
                solve_transposed(&k, n, n, &mut v);
                let mut own = half;
                own[n - 1] = 0.0;
                solve_transposed(&k, n, n - 1, &mut own[..n - 1]);
                for a in 0..n {
                    let weight = |b: usize| {
                        let w = r * (own[a] * v[b] + v[a] * own[b]) + (r * r - 1.0) * v[a] * v[b];
                        if a == b { 0.5 * w } else { w }
                    };
                    let weights: Vec<f64> = (0..=a).map(weight).collect();
                    part[log.len() - 1] += noise * weights[a];
                    covariance.gradient(&points, a, &points, 0, true, &weights, &mut scratch, &mut part);
                }
            }
        }
        Some((sum, part))
    };
    let starts: Vec<usize> = (0..y.len()).step_by(CHUNK).collect();
    let parts: Vec<Option<(f64, Vec<f64>)>> = starts.into_par_iter().map(chunk).collect();
    let (mut value, mut total) = (0.0, vec![0.0; log.len()]);
    for part in parts {
        let (sum, part) = part.ok_or_else(singular)?;
        value += sum;
        total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
    }
    if let Some(gradient) = gradient {
        gradient.copy_from_slice(&total);
    }
    Ok(value)
}

fn singular() -> Error {
    let what = "the covariance of a row and its neighbours is not positive definite";
    Error::numerical(what, "let the noise be learned, or add a white kernel")
}

/// A process that is asked about a row through its neighbours.
#[derive(Debug, Clone)]
pub(super) struct Nearest {
    pub kernel: Arc<Kernel>,
    pub log: Vec<f64>,
    pub x: Arc<[f64]>,
    pub y: Arc<[f64]>,
    pub count: usize,
}

impl Nearest {
    /// Mean and variance of f at rows of encoded inputs; a variance is never negative.
    pub(super) fn predict(&self, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (covariance, width) = (Covariance::new(&self.kernel, &self.log), self.kernel.width());
        let (points, train) = (covariance.points(x), covariance.points(&self.x));
        let noise = noise_of(&self.kernel, &self.log);
        let one = |(scratch, row): &mut (Scratch, Vec<f64>), i: usize| {
            covariance.row(&points, i, &train, 0, false, scratch, row);
            let near = most_correlated(row, self.count);
            let rows: Vec<f64> = near
                .iter()
                .flat_map(|j| self.x[*j as usize * width..(*j as usize + 1) * width].iter().copied())
                .collect();
            let (own, n) = (covariance.points(&rows), near.len());
            let prior = covariance.diagonal(&points, i, scratch);
            let mut k = vec![0.0; n * n];
            let mut build = |extra: f64, k: &mut [f64]| {
                for (a, k) in k.chunks_mut(n).enumerate() {
                    covariance.row(&own, a, &own, 0, true, scratch, &mut k[..=a]);
                    k[a] += noise + extra;
                }
                factor(k, n)
            };
            // Neighbours that are the same row under next to no noise.
            if !build(0.0, &mut k) && !JITTER.iter().any(|step| build(step * (prior + noise), &mut k)) {
                return (0.0, prior);
            }
            let mut cross: Vec<f64> = near.iter().map(|j| row[*j as usize]).collect();
            let mut half: Vec<f64> = near.iter().map(|j| self.y[*j as usize]).collect();
            for a in 0..n {
                half[a] = (half[a] - dot(&k[a * n..a * n + a], &half[..a])) / k[a * n + a];
                cross[a] = (cross[a] - dot(&k[a * n..a * n + a], &cross[..a])) / k[a * n + a];
            }
            (dot(&half, &cross), (prior - dot(&cross, &cross)).max(0.0))
        };
        (0..points.n)
            .into_par_iter()
            .map_init(|| (Scratch::default(), vec![0.0; train.n]), one)
            .collect::<Vec<_>>()
            .into_iter()
            .unzip()
    }
}
