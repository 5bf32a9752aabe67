//! Σ whole over dense layers, between every two of them: x̃ᵀ Σ x̃ as one product with all rows of a chunk.
//!
//! The block of layers l and m, contracted with the products x̃ᵢx̃ⱼ of a row's inputs, is an out × out matrix, which g takes on both sides. Of a layer with
//! itself only triangles are kept, as in `problem/curvature/full.rs`. Cost per row: a quarter of the block's numbers, or half.

use super::linearised_forms::grow;
use crate::math::linalg::dot;
use crate::math::{Mat, Threads, gemm};
use crate::nn::AffineBlock;
use crate::problem::JacobianFactors;
use crate::problem::curvature::{outer, pair_sizes};
use crate::simd_fn;
use rayon::prelude::*;

/// Rows of Σ that are written out at a time, about.
const PANEL: usize = 128;

/// Σ = F Fᵀ between two layers, in the order of products of inputs and of numbers of the outputs' matrix. Only a few rows of Σ exist at a time.
pub(super) fn packed(
    factor: &[f64],
    affines: &[AffineBlock],
    (l, m): (usize, usize),
    start: usize,
    n: usize,
) -> Vec<f64> {
    let (a, b, same) = (&affines[l], &affines[m], l == m);
    let (u, v) = pair_sizes(affines, (l, m));
    // One unit: the matrix itself. Else of a layer with itself one triangle, since a product of two inputs stands for both orders.
    let alone = same && v == 1;
    let triangle = same && !alone;
    let first = |i: usize| if triangle { i } else { 0 };
    let mut out = vec![0.0; if alone { a.rows().pow(2) } else { u * v }];
    let (mut tasks, mut rest) = (Vec::new(), &mut out[..]);
    let inputs = (PANEL / a.units).max(1);
    for from in (0..a.rows()).step_by(inputs) {
        let these = from..(from + inputs).min(a.rows());
        let count: usize = these.clone().map(|i| (b.rows() - first(i)) * v).sum();
        let (now, later) = std::mem::take(&mut rest).split_at_mut(count);
        rest = later;
        tasks.push((these, now));
    }
    let columns = &factor[(b.start - start) * n..(b.start - start + b.len()) * n];
    tasks.into_par_iter().for_each(|(these, out)| {
        let count = these.len() * a.units;
        let mut rows = Vec::with_capacity(count * n);
        for i in these.clone() {
            (0..a.units).for_each(|o| rows.extend_from_slice(&factor[(a.index(i, o) - start) * n..][..n]));
        }
        let mut panel = vec![0.0; count * b.len()];
        gemm((count, b.len(), n), &mut panel, false, Mat::rows_of(&rows, n), Mat::transposed(columns, n), Threads::One);
        let at = |i: usize, o: usize, j: usize, q: usize| {
            panel[((i - these.start) * a.units + o) * b.len() + b.index(j, q) - b.start]
        };
        let mut to = out.iter_mut();
        for i in these.clone() {
            for j in first(i)..b.rows() {
                for o in 0..a.units {
                    for q in if triangle { o } else { 0 }..b.units {
                        let twice = triangle && i != j;
                        let value = at(i, o, j, q) + if twice { at(i, q, j, o) } else { 0.0 };
                        to.next().into_iter().for_each(|to| *to = value);
                    }
                }
            }
        }
    });
    out
}

simd_fn! {
    /// out ← G T: `outputs` rows of g times the matrix t of `ng × nt`.
    fn times(g: &[f64], t: &[f64], ng: usize, nt: usize, out: &mut [f64]) {
        for (g, out) in g.chunks_exact(ng).zip(out.chunks_exact_mut(nt)) {
            out.fill(0.0);
            for (g, t) in g.iter().zip(t.chunks_exact(nt)) {
                for j in 0..nt {
                    out[j] = crate::math::Real::mul_add::<F>(*g, t[j], out[j]);
                }
            }
        }
    }
}

pub(super) fn by_pair(
    matrix: &[f64],
    factors: &JacobianFactors,
    affines: &[AffineBlock],
    (l, m): (usize, usize),
    rows: usize,
    outputs: usize,
    scratch: &mut [Vec<f64>; 4],
    out: &mut [f64],
) {
    let (a, b, same) = (&affines[l], &affines[m], l == m);
    let (u, v) = pair_sizes(affines, (l, m));
    let [products, contracted, square, turned] = scratch;
    let alone = same && v == 1;
    // One unit needs no products, only room for x̃ᵀΣ.
    let u = if alone { a.rows() } else { u };
    grow(products, rows * u);
    grow(contracted, rows * v);
    grow(square, a.units * b.units);
    grow(turned, outputs * b.units);
    let (products, contracted) = (&mut products[..rows * u], &mut contracted[..rows * v]);
    if alone {
        // x̃ᵀΣx̃ of one unit, without products.
        let (n, x) = (a.rows(), factors.inputs(l));
        let turned = &mut products[..rows * n];
        gemm((rows, n, n), turned, false, Mat::rows_of(x, n), Mat::rows_of(matrix, n), Threads::One);
        for ((x, t), to) in x.chunks_exact(n).zip(turned.chunks_exact(n)).zip(&mut *contracted) {
            *to = dot(x, t);
        }
    } else {
        let inputs = factors.inputs(l).chunks_exact(a.rows()).zip(factors.inputs(m).chunks_exact(b.rows()));
        inputs.zip(products.chunks_exact_mut(u)).for_each(|((x, y), to)| outer(x, y, same, to));
        gemm((rows, v, u), contracted, false, Mat::rows_of(&*products, u), Mat::rows_of(matrix, v), Threads::One);
    }
    let (square, turned) = (&mut square[..a.units * b.units], &mut turned[..outputs * b.units]);
    let g = factors.deltas(l).chunks_exact(outputs * a.units).zip(factors.deltas(m).chunks_exact(outputs * b.units));
    for ((t, (gl, gm)), out) in contracted.chunks_exact(v).zip(g).zip(out.chunks_exact_mut(outputs * outputs)) {
        let t: &[f64] = if same {
            let mut values = t.iter();
            for o in 0..a.units {
                for q in o..a.units {
                    let value = *values.next().unwrap_or(&0.0);
                    (square[o * a.units + q], square[q * a.units + o]) = (value, value);
                }
            }
            square
        } else {
            t
        };
        times(gl, t, a.units, b.units, turned);
        for k in 0..outputs {
            for q in 0..outputs {
                let value = dot(&turned[k * b.units..(k + 1) * b.units], &gm[q * b.units..(q + 1) * b.units]);
                out[k * outputs + q] += value;
                if !same {
                    out[q * outputs + k] += value;
                }
            }
        }
    }
}
