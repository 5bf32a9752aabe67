//! G whole. Between two dense layers l and m its block is Σₙ (x̃ₗx̃ₘᵀ) ⊗ (gₗᵀHgₘ): one product of two matrices with a row per data row.
//!
//! The first matrix holds the products x̃ᵢx̃ⱼ, the second the numbers of gᵀHg; of a layer with itself both are symmetric and only
//! their triangles are kept, a quarter of the work. Where positions share weights a row's Jacobian has no such form: it is written out for a
//! few rows at a time, and G = Jᵀ(HJ). Cost P²/2 a row, or K·P².

use super::pass::{ChunkPass, Data, ggn as finished, rows_per_chunk};
use super::{Curvature, Ggn, Subset};
use crate::math::{Mat, Threads, gemm};
use crate::nn::{JacobianFactors, Leaf};
use crate::problem::Problem;
use crate::simd_fn;
use rayon::prelude::*;

/// Numbers of the products of one chunk, about: more would be fresh memory, whose pages cost more than the arithmetic.
const PRODUCTS: usize = 1 << 18;
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
        out.fill(0.0);
        for (g, h) in g.chunks_exact(ng).zip(h.chunks_exact(nh)) {
            let mut rest = &mut *out;
            for (i, g) in g.iter().enumerate() {
                let h = if triangle { &h[i..] } else { h };
                let (now, later) = rest.split_at_mut(h.len());
                rest = later;
                if *g != 0.0 {
                    for j in 0..h.len() {
                        now[j] = crate::math::Real::mul_add::<F>(*g, h[j], now[j]);
                    }
                }
            }
        }
    }
}

/// Lengths of the two feature vectors of a pair of layers.
pub(crate) fn pair_sizes(leaves: &[Leaf], (l, m): (usize, usize)) -> (usize, usize) {
    let of = |n: usize, o: usize| if l == m { n * (n + 1) / 2 } else { n * o };
    (of(leaves[l].inputs + 1, leaves[m].inputs + 1), of(leaves[l].units, leaves[m].units))
}

/// All pairs of layers, each once.
pub(crate) fn pairs(leaves: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..leaves).flat_map(move |l| (l..leaves).map(move |m| (l, m)))
}

pub(super) fn ggn(problem: &Problem, w: &[f64], subset: &Subset) -> Ggn {
    if subset.leaves.iter().all(|l| l.area == 1) { by_pairs(problem, w, subset) } else { by_rows(problem, w, subset) }
}

fn by_pairs(problem: &Problem, w: &[f64], subset: &Subset) -> Ggn {
    let (data, leaves, k) = (Data::of(problem), &subset.leaves, problem.network().outputs());
    let sizes: Vec<_> = pairs(leaves.len()).map(|pair| (pair, pair_sizes(leaves, pair))).collect();
    let widest = sizes.iter().map(|(_, (u, v))| u + v).max().unwrap_or(1);
    let chunk = rows_per_chunk(widest, PRODUCTS, 1024, data.rows).max(32).min(data.rows);
    let mut pass = ChunkPass::new(problem, subset, chunk);
    let inputs = |l: usize| leaves[l].inputs + 1;
    let single = |l: usize, m: usize| l == m && leaves[l].units == 1;
    let numbers = |((l, m), (u, v)): &((usize, usize), (usize, usize))| {
        vec![0.0; if single(*l, *m) { inputs(*l).pow(2) } else { u * v }]
    };
    let mut sums: Vec<Vec<f64>> = sizes.iter().map(numbers).collect();
    let longest = |f: fn(&(usize, usize)) -> usize| sizes.iter().map(|(_, s)| f(s)).max().unwrap_or(0);
    let (mut left, mut right) = (vec![0.0; chunk * longest(|s| s.0)], vec![0.0; chunk * longest(|s| s.1)]);
    let starts: Vec<usize> = (0..data.rows).step_by(chunk).collect();
    for from in starts {
        pass.run(w, &data, from, (from + chunk).min(data.rows), Threads::Pool);
        let rows = pass.rows();
        for (((l, m), (u, v)), sums) in sizes.iter().zip(&mut sums) {
            let (left, right, same) = (&mut left[..rows * u], &mut right[..rows * v], l == m);
            let ((xl, xm), (g, hg)) =
                ((pass.factors.inputs(*l), pass.factors.inputs(*m)), (pass.factors.deltas(*l), pass.products(*m)));
            let (nl, nm) = (inputs(*l), inputs(*m));
            let (gl, gm) = (k * leaves[*l].units, k * leaves[*m].units);
            if single(*l, *m) {
                // gᵀHg is one number: x̃ᵀ diag(gᵀHg) x̃, without products.
                let scaled = &mut left[..rows * nl];
                for (n, (to, x)) in scaled.chunks_exact_mut(nl).zip(xl.chunks_exact(nl)).enumerate() {
                    let c: f64 = g[n * k..(n + 1) * k].iter().zip(&hg[n * k..(n + 1) * k]).map(|(g, h)| g * h).sum();
                    to.iter_mut().zip(x).for_each(|(to, x)| *to = c * x);
                }
                gemm((nl, nl, rows), sums, true, Mat::transposed(xl, nl), Mat::rows_of(&*scaled, nl), Threads::Pool);
                continue;
            }
            let parts = left.par_chunks_mut(ROWS_PER_TASK * u).zip(right.par_chunks_mut(ROWS_PER_TASK * v));
            parts.enumerate().for_each(|(task, (left, right))| {
                let first = task * ROWS_PER_TASK;
                for (i, (left, right)) in left.chunks_exact_mut(*u).zip(right.chunks_exact_mut(*v)).enumerate() {
                    let n = first + i;
                    outer(&xl[n * nl..(n + 1) * nl], &xm[n * nm..(n + 1) * nm], same, left);
                    contract(&g[n * gl..(n + 1) * gl], &hg[n * gm..(n + 1) * gm], k, same, right);
                }
            });
            gemm((*u, *v, rows), sums, true, Mat::transposed(left, *u), Mat::rows_of(right, *v), Threads::Pool);
        }
    }
    let log_likelihood = pass.log_likelihood;
    drop((pass, left, right));
    let (n, start) = (subset.len(), subset.range().start);
    let mut matrix = vec![0.0; n * n];
    for (((l, m), (_, v)), sums) in sizes.iter().zip(sums) {
        if single(*l, *m) {
            let (leaf, count) = (&leaves[*l], inputs(*l));
            for (i, row) in sums.chunks_exact(count).enumerate() {
                let to = (leaf.index(i, 0) - start) * n + leaf.index(0, 0) - start;
                matrix[to..to + count].copy_from_slice(row);
            }
            continue;
        }
        place(&leaves[*l], &leaves[*m], l == m, *v, &sums, start, n, &mut matrix);
    }
    finished(problem, Curvature::Full(matrix), log_likelihood)
}

/// From products and numbers of gᵀHg to rows and columns of G.
fn place(a: &Leaf, b: &Leaf, same: bool, v: usize, sums: &[f64], start: usize, n: usize, matrix: &mut [f64]) {
    let mut rows = sums.chunks_exact(v.max(1));
    for i in 0..=a.inputs {
        for j in if same { i } else { 0 }..=b.inputs {
            let Some(row) = rows.next() else { return };
            let mut values = row.iter();
            for o in 0..a.units {
                for q in if same { o } else { 0 }..b.units {
                    let Some(value) = values.next() else { return };
                    let mut put = |r: usize, c: usize| {
                        let (r, c) = (r - start, c - start);
                        (matrix[r * n + c], matrix[c * n + r]) = (*value, *value);
                    };
                    put(a.index(i, o), b.index(j, q));
                    if same {
                        put(a.index(i, q), b.index(j, o));
                    }
                }
            }
        }
    }
}

fn by_rows(problem: &Problem, w: &[f64], subset: &Subset) -> Ggn {
    let (data, leaves, k) = (Data::of(problem), &subset.leaves, problem.network().outputs());
    let (n, start) = (subset.len(), subset.range().start);
    let per_row = (2 * k * n).max(JacobianFactors::numbers(leaves, k));
    let chunk = rows_per_chunk(per_row, JACOBIANS, 256, data.rows);
    let mut pass = ChunkPass::new(problem, subset, chunk);
    let mut matrix = vec![0.0; n * n];
    let (mut j, mut hj) = (vec![0.0; chunk * k * n], vec![0.0; chunk * k * n]);
    let starts: Vec<usize> = (0..data.rows).step_by(chunk).collect();
    for from in starts {
        pass.run(w, &data, from, (from + chunk).min(data.rows), Threads::Pool);
        let rows = pass.rows();
        write_jacobians(&pass.factors, leaves, k, start, n, &mut j[..rows * k * n]);
        let parts = j[..rows * k * n].par_chunks(k * n).zip(hj.par_chunks_mut(k * n));
        parts.enumerate().for_each(|(row, (j, hj))| pass.hessian(row).times(j, k, hj));
        let (left, right) = (Mat::transposed(&j[..rows * k * n], n), Mat::rows_of(&hj[..rows * k * n], n));
        gemm((n, n, rows * k), &mut matrix, true, left, right, Threads::Pool);
    }
    finished(problem, Curvature::Full(matrix), pass.log_likelihood)
}

/// The Jacobians of the last run's rows, `rows × outputs × n`, in the order of w.
pub(crate) fn write_jacobians(
    factors: &JacobianFactors,
    leaves: &[Leaf],
    outputs: usize,
    start: usize,
    n: usize,
    out: &mut [f64],
) {
    out.par_chunks_mut(outputs * n).enumerate().for_each(|(row, out)| {
        for (l, leaf) in leaves.iter().enumerate() {
            let mut own = vec![0.0; leaf.len()];
            for (k, out) in out.chunks_exact_mut(n).enumerate() {
                factors.jacobian(l, row, k, &mut own);
                for i in 0..=leaf.inputs {
                    (0..leaf.units).for_each(|o| out[leaf.index(i, o) - start] = own[i * leaf.units + o]);
                }
            }
        }
    });
}
