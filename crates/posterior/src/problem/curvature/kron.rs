//! K-FAC: the block of a layer is A ⊗ B with A = Σₙ ωₙ Σₜ x̃x̃ᵀ/(Σω · area) and B = Σₙ Σₜ gᵀ(ωH)g.
//!
//! The bias is one more input, so that for one linear layer with normal noise A ⊗ B is G itself. Positions of a convolution count
//! as independent rows (KFC, or K-FAC-expand): B sums over them and A averages. Cost: N · area · (in² + K·out²) per layer.

use super::pass::{ggn as finished, in_teams, total_weight};
use super::{Curvature, Ggn, Subset};
use crate::math::{Mat, Threads, gemm};
use crate::nn::AffineBlock;
use crate::problem::Problem;

/// A and B of one layer.
#[derive(Debug, Clone)]
pub struct KronFactor {
    /// Whose.
    pub affine: AffineBlock,
    /// (inputs + 1)², the bias last.
    pub a: Vec<f64>,
    /// units².
    pub b: Vec<f64>,
}

pub(super) fn ggn(problem: &Problem, w: &[f64], subset: &Subset) -> Ggn {
    let sizes: Vec<(usize, usize)> = subset.affines.iter().map(|l| ((l.rows()).pow(2), l.units.pow(2))).collect();
    let len = sizes.iter().map(|(a, b)| a + b).sum();
    let outputs = problem.network().outputs();
    let (sums, log_likelihood) = in_teams(problem, w, subset, len, |pass, sums, weights| {
        let mut rest = sums;
        let mut scaled = Vec::new();
        for (l, affine) in subset.affines.iter().enumerate() {
            let (na, nb) = (affine.rows(), affine.units);
            let (own, others) = std::mem::take(&mut rest).split_at_mut(na * na + nb * nb);
            rest = others;
            let (a, b) = own.split_at_mut(na * na);
            let x = pass.factors.inputs(l);
            let weighted = match weights {
                None => x,
                Some(weights) => {
                    scaled.clear();
                    let rows = x.chunks_exact(affine.positions * na).zip(weights);
                    rows.for_each(|(x, w)| scaled.extend(x.iter().map(|v| v * w)));
                    &scaled[..]
                }
            };
            let rows = pass.rows() * affine.positions;
            gemm((na, na, rows), a, true, Mat::transposed(x, na), Mat::rows_of(weighted, na), Threads::One);
            let (g, hg) = (Mat::transposed(pass.factors.deltas(l), nb), Mat::rows_of(pass.products(l), nb));
            gemm((nb, nb, rows * outputs), b, true, g, hg, Threads::One);
        }
    });
    let weight = total_weight(problem);
    let mut rest = &sums[..];
    let factors = subset.affines.iter().zip(&sizes).map(|(affine, (a, b))| {
        let (own, others) = rest.split_at(a + b);
        rest = others;
        let share = 1.0 / (weight * affine.positions as f64);
        KronFactor { affine: *affine, a: own[..*a].iter().map(|v| v * share).collect(), b: own[*a..].to_vec() }
    });
    let factors = factors.collect();
    finished(problem, Curvature::Kron(factors), log_likelihood)
}
