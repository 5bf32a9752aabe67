//! The diagonal of G: Σₙ x̃ᵢ² Σ_kl g_kj H_kl g_lj for a dense layer, Σₙ Σ_kl J_k,ij H_kl J_l,ij with J summed over positions for a convolution.
//!
//! Cost: N · in · out per dense layer beside the pass, K · area times that for a convolution.

use super::pass::{ChunkPass, ggn as finished, in_teams};
use super::{Curvature, Ggn, Subset};
use crate::math::{Mat, Threads, gemm};
use crate::nn::AffineBlock;
use crate::problem::Problem;

pub(super) fn ggn(problem: &Problem, w: &[f64], subset: &Subset) -> Ggn {
    let outputs = problem.network().outputs();
    let (sums, log_likelihood) = in_teams(problem, w, subset, subset.len(), |pass, sums, _| {
        let mut rest = sums;
        for (l, affine) in subset.affines.iter().enumerate() {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(affine.len());
            rest = others;
            if affine.positions == 1 {
                dense(pass, l, affine, outputs, own)
            } else {
                shared(pass, l, affine, outputs, own)
            }
        }
    });
    // From (inputs + 1) × units of each affine block to the order of w.
    let (start, mut diagonal, mut rest) = (subset.range().start, vec![0.0; subset.len()], &sums[..]);
    for affine in &subset.affines {
        for i in 0..affine.rows() {
            (0..affine.units).for_each(|o| diagonal[affine.index(i, o) - start] = rest[i * affine.units + o]);
        }
        rest = &rest[affine.len()..];
    }
    finished(problem, Curvature::Diagonal(diagonal), log_likelihood)
}

/// One position: the squares of x̃ times gᵀHg, unit by unit.
fn dense(pass: &ChunkPass<'_>, l: usize, affine: &AffineBlock, outputs: usize, sums: &mut [f64]) {
    let (na, nb) = (affine.rows(), affine.units);
    let squares: Vec<f64> = pass.factors.inputs(l).iter().map(|x| x * x).collect();
    let mut weights = vec![0.0; pass.rows() * nb];
    let rows = pass.factors.deltas(l).chunks_exact(outputs * nb).zip(pass.products(l).chunks_exact(outputs * nb));
    for ((g, hg), weights) in rows.zip(weights.chunks_exact_mut(nb)) {
        for (g, hg) in g.chunks_exact(nb).zip(hg.chunks_exact(nb)) {
            (0..nb).for_each(|j| weights[j] += g[j] * hg[j]);
        }
    }
    let size = (na, nb, pass.rows());
    gemm(size, sums, true, Mat::transposed(&squares, na), Mat::rows_of(&weights, nb), Threads::One);
}

/// Several positions: the Jacobian of each row is written out.
fn shared(pass: &ChunkPass<'_>, l: usize, affine: &AffineBlock, outputs: usize, sums: &mut [f64]) {
    let (na, nb, area) = (affine.rows(), affine.units, affine.positions);
    let n = na * nb;
    let (mut j, mut hj) = (vec![0.0; outputs * n], vec![0.0; outputs * n]);
    let rows = pass.factors.inputs(l).chunks_exact(area * na);
    let rows = rows.zip(pass.factors.deltas(l).chunks_exact(outputs * area * nb));
    for (row, (x, g)) in rows.enumerate() {
        for (g, j) in g.chunks_exact(area * nb).zip(j.chunks_exact_mut(n)) {
            gemm((na, nb, area), j, false, Mat::transposed(x, na), Mat::rows_of(g, nb), Threads::One);
        }
        pass.hessian(row).times(&j, outputs, &mut hj);
        for (j, hj) in j.chunks_exact(n).zip(hj.chunks_exact(n)) {
            (0..n).for_each(|i| sums[i] += j[i] * hj[i]);
        }
    }
}
