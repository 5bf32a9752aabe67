//! Rows streamed in chunks: factors of the Jacobians, Hessians of the likelihood, and H·g of every affine block.

use super::{Ggn, Subset};
use crate::likelihood::{Likelihood, LikelihoodOps};
use crate::math::{MatRef, Threads};
use crate::nn::AffineBlock;
use crate::problem::JacobianFactors;
use crate::problem::Problem;
use crate::simd_fn;
use rayon::prelude::*;
use std::sync::Arc;

/// Teams that work side by side, at most; which chunks are whose follows from the number of rows alone.
const TEAMS: usize = 8;
/// Numbers that all teams' sums may hold together before there are fewer teams.
const SUMS: usize = 1 << 23;
/// Numbers of one chunk's factors, about.
const CHUNK: usize = 1 << 18;

simd_fn! {
    /// out ← H g for a `k × k` matrix H and `k` rows of g.
    fn hessian_product(h: &[f64], g: &[f64], k: usize, out: &mut [f64]) {
        let m = g.len() / k;
        for i in 0..k {
            let out = &mut out[i * m..(i + 1) * m];
            out.fill(0.0);
            for j in 0..k {
                let f = h[i * k + j];
                if f != 0.0 {
                    let g = &g[j * m..(j + 1) * m];
                    for c in 0..m {
                        out[c] = crate::math::Real::mul_add::<F>(f, g[c], out[c]);
                    }
                }
            }
        }
    }
}

simd_fn! {
    /// out ← (diag(d) − v vᵀ) g for `k` rows of g.
    fn parts_product(d: &[f64], v: &[f64], g: &[f64], k: usize, out: &mut [f64]) {
        let m = g.len() / k;
        // Σ v g, first in the place of the last row.
        let (head, sum) = out.split_at_mut((k - 1) * m);
        sum.fill(0.0);
        for (v, g) in v.iter().zip(g.chunks_exact(m)) {
            for c in 0..m {
                sum[c] = crate::math::Real::mul_add::<F>(*v, g[c], sum[c]);
            }
        }
        for (i, (out, g)) in head.chunks_exact_mut(m).zip(g.chunks_exact(m)).enumerate() {
            for c in 0..m {
                out[c] = d[i] * g[c] - v[i] * sum[c];
            }
        }
        let g = &g[(k - 1) * m..];
        for c in 0..m {
            sum[c] = d[k - 1] * g[c] - v[k - 1] * sum[c];
        }
    }
}

/// ω H of one row.
#[derive(Clone, Copy)]
pub(super) enum RowHessian<'a> {
    /// Written out.
    Whole(&'a [f64]),
    /// diag(d) − v vᵀ
    Parts(&'a [f64], &'a [f64]),
}

impl RowHessian<'_> {
    /// out ← H g for `k` rows of g.
    pub fn times(self, g: &[f64], k: usize, out: &mut [f64]) {
        match self {
            RowHessian::Whole(h) => hessian_product(h, g, k, out),
            RowHessian::Parts(d, v) => parts_product(d, v, g, k, out),
        }
    }
}

/// One chunk of rows at a time.
pub(super) struct ChunkPass<'p> {
    problem: &'p Problem,
    pub factors: JacobianFactors,
    affines: Vec<AffineBlock>,
    /// k² numbers a row, or d and v.
    hessians: Vec<f64>,
    by_parts: bool,
    /// H g of every affine block, laid out as the deltas.
    products: Vec<Vec<f64>>,
    rows: usize,
    pub log_likelihood: f64,
}

/// The data in f64, shared by all teams.
pub(super) struct Data {
    x: Arc<[f64]>,
    width: usize,
    pub rows: usize,
}

impl Data {
    pub fn of(problem: &Problem) -> Data {
        let data = problem.data();
        Data { x: data.x.to::<f64>(), width: data.shape.len(), rows: data.rows }
    }
}

/// Rows of a chunk so that `numbers` of each stay within bounds.
pub(super) fn rows_per_chunk(numbers: usize, budget: usize, most: usize, rows: usize) -> usize {
    (budget / numbers.max(1)).clamp(1, most).min(rows.max(1))
}

impl<'p> ChunkPass<'p> {
    pub fn new(problem: &'p Problem, subset: &Subset, rows: usize) -> Self {
        let k = problem.network().outputs();
        let products = subset.affines.iter().map(|l| vec![0.0; rows * k * l.positions * l.units]).collect();
        let likelihood = problem.likelihood();
        let by_parts =
            likelihood.sites() == 1 && likelihood.hessian_parts(&vec![0.0; k], &mut vec![0.0; k], &mut vec![0.0; k]);
        ChunkPass {
            problem,
            factors: JacobianFactors::new(problem.network().clone(), &subset.affines, rows),
            affines: subset.affines.clone(),
            hessians: vec![0.0; rows * k * if by_parts { 2 } else { k }],
            by_parts,
            products,
            rows: 0,
            log_likelihood: 0.0,
        }
    }

    /// Runs rows `from..to`, and adds up their log-likelihood.
    pub fn run(&mut self, w: &[f64], data: &Data, from: usize, to: usize, threads: Threads) {
        let problem = self.problem;
        let (likelihood, k) = (&**problem.likelihood(), problem.network().outputs());
        let size = problem.network().layout().len();
        let (w, noise) = w.split_at(size);
        let (targets, rows) = (likelihood.sites() * likelihood.targets(), to - from);
        let x = MatRef::new(&data.x[from * data.width..to * data.width], rows, data.width);
        self.rows = rows;
        self.factors.run(w, x, threads);
        let f = self.factors.outputs();
        let y = &problem.data().y[from * targets..to * targets];
        let weights = problem.data().weights.as_deref().map(|w| &w[from..to]);
        self.log_likelihood += (likelihood as &dyn LikelihoodOps<f64>).log_prob(f, y, noise, weights, 1.0, None);
        hessians(likelihood, f, y, noise, weights, self.by_parts, &mut self.hessians);
        let width = k * if self.by_parts { 2 } else { k };
        for (l, affine) in self.affines.iter().enumerate() {
            let n = k * affine.positions * affine.units;
            let rows = self.factors.deltas(l).chunks_exact(n).zip(self.products[l].chunks_exact_mut(n));
            for ((g, product), h) in rows.zip(self.hessians.chunks_exact(width)) {
                row_hessian(h, self.by_parts, k).times(g, k, product);
            }
        }
    }

    /// Rows of the last run.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// ω H of a row of the last run.
    pub fn hessian(&self, row: usize) -> RowHessian<'_> {
        let k = self.problem.network().outputs();
        let width = k * if self.by_parts { 2 } else { k };
        row_hessian(&self.hessians[row * width..(row + 1) * width], self.by_parts, k)
    }

    /// ω H g of affine block l, laid out as its deltas.
    pub fn products(&self, l: usize) -> &[f64] {
        &self.products[l][..self.factors.deltas(l).len()]
    }
}

fn row_hessian(h: &[f64], by_parts: bool, k: usize) -> RowHessian<'_> {
    if by_parts { RowHessian::Parts(&h[..k], &h[k..]) } else { RowHessian::Whole(h) }
}

fn hessians(
    likelihood: &dyn Likelihood,
    f: &[f64],
    y: &[f64],
    noise: &[f64],
    weights: Option<&[f64]>,
    by_parts: bool,
    out: &mut [f64],
) {
    if likelihood.sites() > 1 {
        return site_hessians(likelihood, f, y, noise, weights, out);
    }
    let (k, targets) = (likelihood.outputs(), likelihood.targets());
    let width = k * if by_parts { 2 } else { k };
    for (n, (f, h)) in f.chunks_exact(k).zip(out.chunks_exact_mut(width)).enumerate() {
        let weight = weights.map_or(1.0, |w| w[n]);
        if by_parts {
            let (d, v) = h.split_at_mut(k);
            likelihood.hessian_parts(f, d, v);
            // The rank-one part is a product of two vectors: each takes a root of the weight.
            d.iter_mut().for_each(|d| *d *= weight);
            v.iter_mut().for_each(|v| *v *= weight.sqrt());
        } else {
            likelihood.hessian_row(f, &y[n * targets..(n + 1) * targets], noise, h);
            h.iter_mut().for_each(|h| *h *= weight);
        }
    }
}

/// Sites do not meet in the likelihood: the Hessian of a row has a block for each.
fn site_hessians(
    likelihood: &dyn Likelihood,
    f: &[f64],
    y: &[f64],
    noise: &[f64],
    weights: Option<&[f64]>,
    out: &mut [f64],
) {
    let (sites, each, targets) = (likelihood.sites(), likelihood.outputs(), likelihood.targets());
    let k = sites * each;
    let mut block = vec![0.0; each * each];
    for (n, (f, h)) in f.chunks_exact(k).zip(out.chunks_exact_mut(k * k)).enumerate() {
        let weight = weights.map_or(1.0, |w| w[n]);
        h.fill(0.0);
        for (s, f) in f.chunks_exact(each).enumerate() {
            let at = (n * sites + s) * targets;
            likelihood.hessian_row(f, &y[at..at + targets], noise, &mut block);
            for (i, block) in block.chunks_exact(each).enumerate() {
                let row = &mut h[(s * each + i) * k + s * each..][..each];
                row.iter_mut().zip(block).for_each(|(h, b)| *h = weight * b);
            }
        }
    }
}

/// Adds up sums of `len` numbers over all chunks, in teams.
pub(super) fn in_teams(
    problem: &Problem,
    w: &[f64],
    subset: &Subset,
    len: usize,
    add: impl Fn(&ChunkPass<'_>, &mut [f64], Option<&[f64]>) + Sync,
) -> (Vec<f64>, f64) {
    let data = Data::of(problem);
    let numbers = JacobianFactors::numbers(&subset.affines, problem.network().outputs());
    let chunk = rows_per_chunk(numbers, CHUNK, 256, data.rows);
    let chunks = data.rows.div_ceil(chunk);
    let teams = chunks.min((SUMS / len.max(1)).clamp(1, TEAMS));
    let team = |t: usize| {
        let mut pass = ChunkPass::new(problem, subset, chunk);
        let mut sums = vec![0.0; len];
        for c in chunks * t / teams..chunks * (t + 1) / teams {
            let (from, to) = (c * chunk, ((c + 1) * chunk).min(data.rows));
            pass.run(w, &data, from, to, Threads::One);
            add(&pass, &mut sums, problem.data().weights.as_deref().map(|w| &w[from..to]));
        }
        (sums, pass.log_likelihood)
    };
    let parts: Vec<(Vec<f64>, f64)> = (0..teams).into_par_iter().map(team).collect();
    let mut parts = parts.into_iter();
    let (mut sums, mut log_likelihood) = parts.next().unwrap_or_default();
    for (other, value) in parts {
        sums.iter_mut().zip(&other).for_each(|(s, o)| *s += o);
        log_likelihood += value;
    }
    (sums, log_likelihood)
}

/// Σ ωₙ.
pub(super) fn total_weight(problem: &Problem) -> f64 {
    problem.data().weights.as_ref().map_or(problem.data().rows as f64, |w| w.iter().sum())
}

/// Puts the parts together.
pub(super) fn ggn(problem: &Problem, curvature: super::Curvature, log_likelihood: f64) -> Ggn {
    Ggn { curvature, log_likelihood, weight: total_weight(problem) }
}
