//! Rows streamed in chunks: factors of the Jacobians, Hessians of the likelihood, and H·g of every leaf.

use super::{Ggn, Subset};
use crate::likelihood::{Likelihood, LikelihoodOps};
use crate::math::{MatRef, Threads};
use crate::nn::{JacobianFactors, Leaf};
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
    pub(super) fn hessian_product(h: &[f64], g: &[f64], k: usize, out: &mut [f64]) {
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

/// One chunk of rows at a time.
pub(super) struct ChunkPass<'p> {
    problem: &'p Problem,
    pub factors: JacobianFactors,
    leaves: Vec<Leaf>,
    hessians: Vec<f64>,
    /// H g of every leaf, laid out as the deltas.
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
        let products = subset.leaves.iter().map(|l| vec![0.0; rows * k * l.area * l.units]).collect();
        ChunkPass {
            problem,
            factors: JacobianFactors::new(problem.network().clone(), &subset.leaves, rows),
            leaves: subset.leaves.clone(),
            hessians: vec![0.0; rows * k * k],
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
        let (targets, rows) = (likelihood.targets(), to - from);
        let x = MatRef::new(&data.x[from * data.width..to * data.width], rows, data.width);
        self.rows = rows;
        self.factors.run(w, x, threads);
        let f = self.factors.outputs();
        let y = &problem.data().y[from * targets..to * targets];
        let weights = problem.data().weights.as_deref().map(|w| &w[from..to]);
        self.log_likelihood += (likelihood as &dyn LikelihoodOps<f64>).log_prob(f, y, noise, weights, 1.0, None);
        hessians(likelihood, f, y, noise, weights, &mut self.hessians);
        for (l, leaf) in self.leaves.iter().enumerate() {
            let n = k * leaf.area * leaf.units;
            let rows = self.factors.deltas(l).chunks_exact(n).zip(self.products[l].chunks_exact_mut(n));
            for ((g, product), h) in rows.zip(self.hessians.chunks_exact(k * k)) {
                hessian_product(h, g, k, product);
            }
        }
    }

    /// Rows of the last run.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// ω H of every row, `rows × outputs × outputs`.
    pub fn hessians(&self) -> &[f64] {
        let k = self.problem.network().outputs();
        &self.hessians[..self.rows * k * k]
    }

    /// ω H g of leaf l, laid out as its deltas.
    pub fn products(&self, l: usize) -> &[f64] {
        &self.products[l][..self.factors.deltas(l).len()]
    }
}

fn hessians(
    likelihood: &dyn Likelihood,
    f: &[f64],
    y: &[f64],
    noise: &[f64],
    weights: Option<&[f64]>,
    out: &mut [f64],
) {
    let (k, targets) = (likelihood.outputs(), likelihood.targets());
    for (n, (f, h)) in f.chunks_exact(k).zip(out.chunks_exact_mut(k * k)).enumerate() {
        likelihood.hessian_row(f, &y[n * targets..(n + 1) * targets], noise, h);
        if let Some(weights) = weights {
            h.iter_mut().for_each(|h| *h *= weights[n]);
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
    let numbers = JacobianFactors::numbers(&subset.leaves, problem.network().outputs());
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
