//! G whole. Between two dense layers l and m its block is Σₙ (x̃ₗx̃ₘᵀ) ⊗ (gₗᵀHgₘ): one product of two matrices with a row per data row.
//!
//! The first matrix holds the products x̃ᵢx̃ⱼ, the second the numbers of gᵀHg; of a layer with itself both are symmetric and only
//! their triangles are kept, a quarter of the work. Where positions share weights a row's Jacobian has no such form: it is written out for a
//! few rows at a time, and G = Jᵀ(HJ). Cost P²/2 a row, or K·P².

use super::pass::{ChunkPass, Data, ggn as finished, rows_per_chunk};
use super::{Curvature, FullCurvature, Ggn, Subset};
use crate::math::{Mat, Threads, gemm};
use crate::nn::AffineBlock;
use crate::problem::JacobianFactors;
use crate::problem::Problem;
use crate::simd_fn;
use rayon::prelude::*;

/// Numbers of the products of one chunk, about: enough that large sums are not read and written too often.
const PRODUCTS: usize = 1 << 18;
/// The same for a team: more would be fresh memory, whose pages cost more than the arithmetic.
const TEAM_PRODUCTS: usize = 1 << 17;
/// Teams that work side by side where all their sums together are at most so many numbers.
const TEAMS: usize = 4;
const TEAM_SUMS: usize = 1 << 20;
/// Numbers of the written-out Jacobians of one chunk, about.
const JACOBIANS: usize = 1 << 21;
/// Rows that a task makes products of.
const ROWS_PER_TASK: usize = 32;

simd_fn! {
    /// out ← x ⊗ y, or the upper triangle of x ⊗ x, row by row.
    pub(crate) fn outer(x: &[f64], y: &[f64], triangle: bool, out: &mut [f64]) {
        let mut rest = out;
        for (i, x) in x.iter().enumerate() {
            let y = if triangle { &y[i..] } else { y };
            let (now, later) = rest.split_at_mut(y.len());
            rest = later;
            for j in 0..y.len() {
                now[j] = *x * y[j];
            }
        }
    }
}

simd_fn! {
    /// out ← Σₖ g_k ⊗ h_k, or its upper triangle.
    fn contract(g: &[f64], h: &[f64], k: usize, triangle: bool, out: &mut [f64]) {
        let (ng, nh) = (g.len() / k, h.len() / k);
        for (at, (g, h)) in g.chunks_exact(ng).zip(h.chunks_exact(nh)).enumerate() {
            let mut rest = &mut *out;
            for (i, g) in g.iter().enumerate() {
                let h = if triangle { &h[i..] } else { h };
                let (now, later) = rest.split_at_mut(h.len());
                rest = later;
                if at == 0 {
                    for j in 0..h.len() {
                        now[j] = *g * h[j];
                    }
                } else if *g != 0.0 {
                    for j in 0..h.len() {
                        now[j] = crate::math::Real::mul_add::<F>(*g, h[j], now[j]);
                    }
                }
            }
        }
    }
}

/// Lengths of the two feature vectors of a pair of layers.
pub(crate) fn pair_sizes(affines: &[AffineBlock], (l, m): (usize, usize)) -> (usize, usize) {
    let of = |n: usize, o: usize| if l == m { n * (n + 1) / 2 } else { n * o };
    (of(affines[l].rows(), affines[m].rows()), of(affines[l].units, affines[m].units))
}

/// All pairs of layers, each once.
pub(crate) fn pairs(affines: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..affines).flat_map(move |l| (l..affines).map(move |m| (l, m)))
}

pub(super) fn ggn(problem: &Problem, w: &[f64], subset: &Subset) -> Ggn {
    if subset.affines.iter().all(|l| l.positions == 1) {
        by_pairs(problem, w, subset)
    } else {
        by_rows(problem, w, subset)
    }
}

/// What is added up for a pair of layers.
struct Pair {
    l: usize,
    m: usize,
    /// Lengths of the two feature vectors.
    u: usize,
    v: usize,
    /// One unit: gᵀHg is a number, and no products are needed.
    single: bool,
}

impl Pair {
    /// Numbers of its sum.
    fn len(&self, affines: &[AffineBlock]) -> usize {
        if self.single { (affines[self.l].rows()).pow(2) } else { self.u * self.v }
    }

    /// Numbers of the products of a row.
    fn products(&self, affines: &[AffineBlock]) -> (usize, usize) {
        if self.single { (affines[self.l].rows(), 0) } else { (self.u, self.v) }
    }

    /// Adds the rows of the last run to the sum, with `left` and `right` as room for products.
    fn add(
        &self,
        pass: &ChunkPass<'_>,
        affines: &[AffineBlock],
        k: usize,
        (left, right): (&mut [f64], &mut [f64]),
        sums: &mut [f64],
        threads: Threads,
    ) {
        let (rows, (u, v), same) = (pass.rows(), (self.u, self.v), self.l == self.m);
        let (xl, xm) = (pass.factors.inputs(self.l), pass.factors.inputs(self.m));
        let (g, hg) = (pass.factors.deltas(self.l), pass.products(self.m));
        let (nl, nm) = (affines[self.l].rows(), affines[self.m].rows());
        if self.single {
            // x̃ᵀ diag(gᵀHg) x̃
            let scaled = &mut left[..rows * nl];
            for (n, (to, x)) in scaled.chunks_exact_mut(nl).zip(xl.chunks_exact(nl)).enumerate() {
                let c: f64 = g[n * k..(n + 1) * k].iter().zip(&hg[n * k..(n + 1) * k]).map(|(g, h)| g * h).sum();
                to.iter_mut().zip(x).for_each(|(to, x)| *to = c * x);
            }
            gemm((nl, nl, rows), sums, true, Mat::transposed(xl, nl), Mat::rows_of(&*scaled, nl), threads);
            return;
        }
        let (gl, gm) = (k * affines[self.l].units, k * affines[self.m].units);
        let (left, right) = (&mut left[..rows * u], &mut right[..rows * v]);
        let fill = |(task, (left, right)): (usize, (&mut [f64], &mut [f64]))| {
            for (i, (left, right)) in left.chunks_exact_mut(u).zip(right.chunks_exact_mut(v)).enumerate() {
                let n = task * ROWS_PER_TASK + i;
                outer(&xl[n * nl..(n + 1) * nl], &xm[n * nm..(n + 1) * nm], same, left);
                contract(&g[n * gl..(n + 1) * gl], &hg[n * gm..(n + 1) * gm], k, same, right);
            }
        };
        let (lefts, rights) = (ROWS_PER_TASK * u, ROWS_PER_TASK * v);
        match threads {
            Threads::One => left.chunks_mut(lefts).zip(right.chunks_mut(rights)).enumerate().for_each(fill),
            Threads::Pool => left.par_chunks_mut(lefts).zip(right.par_chunks_mut(rights)).enumerate().for_each(fill),
        }
        gemm((u, v, rows), sums, true, Mat::transposed(left, u), Mat::rows_of(right, v), threads);
    }
}

fn by_pairs(problem: &Problem, w: &[f64], subset: &Subset) -> Ggn {
    let (data, affines, k) = (Data::of(problem), &subset.affines, problem.network().outputs());
    let pair = |(l, m)| {
        let (u, v) = pair_sizes(affines, (l, m));
        Pair { l, m, u, v, single: l == m && affines[l].units == 1 }
    };
    let all: Vec<Pair> = pairs(affines.len()).map(pair).collect();
    let most = |f: &dyn Fn((usize, usize)) -> usize| all.iter().map(|p| f(p.products(affines))).max().unwrap_or(1);
    let len: usize = all.iter().map(|p| p.len(affines)).sum();
    // Small sums: teams by themselves. Large ones exist once, and their products use the pool.
    let (teams, threads, numbers) =
        if TEAMS * len <= TEAM_SUMS { (TEAMS, Threads::One, TEAM_PRODUCTS) } else { (1, Threads::Pool, PRODUCTS) };
    let chunk = rows_per_chunk(most(&|(u, v)| u + v), numbers, 1024, data.rows).max(32).min(data.rows.max(1));
    let chunks = data.rows.div_ceil(chunk);
    let teams = teams.min(chunks).max(1);
    let team = |t: usize| {
        let mut pass = ChunkPass::new(problem, subset, chunk);
        let mut sums: Vec<Vec<f64>> = all.iter().map(|p| vec![0.0; p.len(affines)]).collect();
        let (mut left, mut right) = (vec![0.0; chunk * most(&|s| s.0)], vec![0.0; chunk * most(&|s| s.1)]);
        for c in chunks * t / teams..chunks * (t + 1) / teams {
            pass.run(w, &data, c * chunk, ((c + 1) * chunk).min(data.rows), threads);
            for (pair, sums) in all.iter().zip(&mut sums) {
                pair.add(&pass, affines, k, (&mut left, &mut right), sums, threads);
            }
        }
        (sums, pass.log_likelihood)
    };
    let parts: Vec<_> = (0..teams).into_par_iter().map(team).collect();
    let mut parts = parts.into_iter();
    let (mut sums, mut log_likelihood) = parts.next().unwrap_or_default();
    for (others, value) in parts {
        for (sums, others) in sums.iter_mut().zip(others) {
            sums.iter_mut().zip(others).for_each(|(s, o)| *s += o);
        }
        log_likelihood += value;
    }
    finished(problem, Curvature::Full(FullCurvature::of_pairs(affines, sums)), log_likelihood)
}

fn by_rows(problem: &Problem, w: &[f64], subset: &Subset) -> Ggn {
    let (data, affines, k) = (Data::of(problem), &subset.affines, problem.network().outputs());
    let (n, start) = (subset.len(), subset.range().start);
    let per_row = (2 * k * n).max(JacobianFactors::numbers(affines, k));
    let chunk = rows_per_chunk(per_row, JACOBIANS, 256, data.rows);
    let mut pass = ChunkPass::new(problem, subset, chunk);
    let mut matrix = vec![0.0; n * n];
    let (mut j, mut hj) = (vec![0.0; chunk * k * n], vec![0.0; chunk * k * n]);
    let starts: Vec<usize> = (0..data.rows).step_by(chunk).collect();
    for from in starts {
        pass.run(w, &data, from, (from + chunk).min(data.rows), Threads::Pool);
        let rows = pass.rows();
        write_jacobians(&pass.factors, affines, k, start, n, &mut j[..rows * k * n]);
        let parts = j[..rows * k * n].par_chunks(k * n).zip(hj.par_chunks_mut(k * n));
        parts.enumerate().for_each(|(row, (j, hj))| pass.hessian(row).times(j, k, hj));
        let (left, right) = (Mat::transposed(&j[..rows * k * n], n), Mat::rows_of(&hj[..rows * k * n], n));
        gemm((n, n, rows * k), &mut matrix, true, left, right, Threads::Pool);
    }
    let curvature = FullCurvature::written(n, start, matrix);
    finished(problem, Curvature::Full(curvature), pass.log_likelihood)
}

/// The Jacobians of the last run's rows, `rows × outputs × n`, in the order of w.
pub(crate) fn write_jacobians(
    factors: &JacobianFactors,
    affines: &[AffineBlock],
    outputs: usize,
    start: usize,
    n: usize,
    out: &mut [f64],
) {
    out.par_chunks_mut(outputs * n).enumerate().for_each(|(row, out)| {
        for (l, affine) in affines.iter().enumerate() {
            let mut own = vec![0.0; affine.len()];
            for (k, out) in out.chunks_exact_mut(n).enumerate() {
                factors.jacobian(l, row, k, &mut own);
                for i in 0..affine.rows() {
                    (0..affine.units).for_each(|o| out[affine.index(i, o) - start] = own[i * affine.units + o]);
                }
            }
        }
    });
}
