//! K-FAC: the block of a layer is A ⊗ B with A = Σₙ ωₙ Σₜ x̃x̃ᵀ/(Σω · area) and B = Σₙ Σₜ gᵀ(ωH)g.
//!
//! The bias is one more input, so that for one linear layer with normal noise A ⊗ B is G itself. Positions of a convolution count
//! as independent rows (KFC, or K-FAC-expand): B sums over them and A averages. Cost: N · area · (in² + K·out²) per layer.

use super::pass::{ggn as finished, in_teams, total_weight};
use super::{Curvature, Ggn, Subset};
use crate::math::{Mat, Threads, gemm};
use crate::nn::Leaf;
use crate::problem::Problem;

/// A and B of one layer.
#[derive(Debug, Clone)]
pub struct KronFactor {
    /// Whose.
    pub leaf: Leaf,
    /// (inputs + 1)², the bias last.
    pub a: Vec<f64>,
    /// units².
    pub b: Vec<f64>,
}

pub(super) fn ggn(problem: &Problem, w: &[f64], subset: &Subset) -> Ggn {
    let sizes: Vec<(usize, usize)> = subset.leaves.iter().map(|l| ((l.inputs + 1).pow(2), l.units.pow(2))).collect();
    let len = sizes.iter().map(|(a, b)| a + b).sum();
    let outputs = problem.network().outputs();
    let (sums, log_likelihood) = in_teams(problem, w, subset, len, |pass, sums, weights| {
        let mut rest = sums;
        let mut scaled = Vec::new();
        for (l, leaf) in subset.leaves.iter().enumerate() {
            let (na, nb) = (leaf.inputs + 1, leaf.units);
            let (own, others) = std::mem::take(&mut rest).split_at_mut(na * na + nb * nb);
            rest = others;
            let (a, b) = own.split_at_mut(na * na);
            let x = pass.factors.inputs(l);
            let weighted = match weights {
                None => x,
                Some(weights) => {
                    scaled.clear();
                    let rows = x.chunks_exact(leaf.area * na).zip(weights);
                    rows.for_each(|(x, w)| scaled.extend(x.iter().map(|v| v * w)));
                    &scaled[..]
                }
            };
            let rows = pass.rows() * leaf.area;
            gemm((na, na, rows), a, true, Mat::transposed(x, na), Mat::rows_of(weighted, na), Threads::One);
            let (g, hg) = (Mat::transposed(pass.factors.deltas(l), nb), Mat::rows_of(pass.products(l), nb));
            gemm((nb, nb, rows * outputs), b, true, g, hg, Threads::One);
        }
    });
    let weight = total_weight(problem);
    let mut rest = &sums[..];
    let factors = subset.leaves.iter().zip(&sizes).map(|(leaf, (a, b))| {
        let (own, others) = rest.split_at(a + b);
        rest = others;
        let share = 1.0 / (weight * leaf.area as f64);
        KronFactor { leaf: *leaf, a: own[..*a].iter().map(|v| v * share).collect(), b: own[*a..].to_vec() }
    });
    let factors = factors.collect();
    finished(problem, Curvature::Kron(factors), log_likelihood)
}
