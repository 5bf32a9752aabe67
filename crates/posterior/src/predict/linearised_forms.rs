//! J Σ Jᵀ of rows for every shape of Σ, from the factors of J: never rows × outputs × parameters where layers are dense.
//!
//! - By layer, Σ = (D L ⊗ R) diag(v) (D L ⊗ R)ᵀ (Kronecker factors; with L = R = I a diagonal): with a = LᵀDx̃ and b_k = Rᵀg_k the covariance of outputs k, l is
//!   Σⱼ (Σᵢ aᵢ² vᵢⱼ) b_kj b_lj. Cost per row: in² + K·out² + in·out + K²·out per layer.
//! - Σ whole, dense layers: Σ between layers l and m contracted with x̃ₗx̃ₘᵀ gives an out × out matrix, then g on both sides. Cost per row about P²/2, whatever K:
//!   one product with all rows of a chunk, of a layer with itself over triangles only.
//! - Σ whole of one layer with one unit has a pass of its own (`linearised_unit.rs`).
//! - Σ whole, positions sharing weights: J written out, |FᵀJᵀ|² with Σ = F Fᵀ. Cost per row: K·P².

use super::linearised_pairs::{by_pair, packed};
use crate::math::{Mat, Real, Threads, gemm};
use crate::nn::AffineBlock;
use crate::posterior::{BlockGaussian, GaussianBlock};
use crate::problem::JacobianFactors;
use crate::problem::curvature::{pair_sizes, pairs, write_jacobians};
use crate::simd_fn;

/// Inputs `first..first + rows` of an affine block.
#[derive(Debug)]
pub(super) struct Part {
    affine: usize,
    first: usize,
    rows: usize,
    /// D L, rows², or D alone.
    left: Option<Vec<f64>>,
    scale: Vec<f64>,
    right: Option<Vec<f64>>,
    /// v, rows × units.
    variance: Vec<f64>,
}

#[derive(Debug)]
pub(super) enum Form {
    /// Blocks of layers.
    Layers(Vec<Part>),
    /// Between every two dense layers, products of inputs × numbers of the outputs' matrix.
    Pairs(Vec<Vec<f64>>),
    /// F of Σ = F Fᵀ over all affine blocks, n².
    Whole(Vec<f64>),
}

/// Room for what a chunk of rows needs besides its factors; grows as needed and is used again.
pub(super) type Scratch = [Vec<f64>; 4];

fn wide(v: &[f32]) -> Vec<f64> {
    v.iter().map(|v| f64::from(*v)).collect()
}

/// F of Σ = F Fᵀ where the posterior is one covariance of the `n` parameters at `start`, n².
pub(super) fn whole_factor(q: &BlockGaussian, start: usize, n: usize) -> Option<Vec<f64>> {
    let [block] = q.blocks() else { return None };
    if block.columns != 1 || block.left.is_empty() || block.start != start || block.len() != n {
        return None;
    }
    if let Some(exact) = q.exact() {
        return Some(exact.root.clone());
    }
    let mut factor = wide(&block.left);
    for (row, scale) in factor.chunks_exact_mut(n).zip(&block.scale) {
        row.iter_mut().zip(&block.std).for_each(|(f, s)| *f *= f64::from(*scale) * f64::from(*s));
    }
    Some(factor)
}

impl Form {
    /// None where the blocks are not those of the affine blocks.
    pub fn new(q: &BlockGaussian, affines: &[AffineBlock]) -> Option<Form> {
        let start = affines.first()?.start;
        let n: usize = affines.iter().map(AffineBlock::len).sum();
        let covered: usize = q.blocks().iter().map(GaussianBlock::len).sum();
        if covered != n || q.blocks().first()?.start != start {
            return None;
        }
        if q.blocks().iter().all(GaussianBlock::is_diagonal) {
            return Some(Form::Layers(diagonal(q, affines, start, n)?));
        }
        if let Some(factor) = whole_factor(q, start, n) {
            if affines.iter().any(|l| l.positions > 1) {
                return Some(Form::Whole(factor));
            }
            let of = |pair| packed(&factor, affines, pair, start, n);
            return Some(Form::Pairs(pairs(affines.len()).map(of).collect()));
        }
        let part = |block: &GaussianBlock| {
            let affine = affines.iter().position(|l| (l.start..l.start + l.len()).contains(&block.start))?;
            let l = &affines[affine];
            let first = if block.start == l.start { 0 } else { l.inputs };
            let fits = block.columns == l.units && first + block.rows <= l.rows();
            let turned = if l.transposed && first == 0 { l.inputs } else { 0 };
            (fits && block.turned == turned).then(|| own(block, affine, first))
        };
        Some(Form::Layers(q.blocks().iter().map(part).collect::<Option<_>>()?))
    }

    /// Numbers beside the factors that one row takes.
    pub fn numbers(&self, affines: &[AffineBlock], outputs: usize) -> usize {
        match self {
            Form::Layers(_) => JacobianFactors::numbers(affines, outputs),
            Form::Pairs(_) => {
                pairs(affines.len()).map(|p| pair_sizes(affines, p)).map(|(u, v)| u + v).max().unwrap_or(0)
            }
            Form::Whole(factor) => 2 * outputs * factor.len().isqrt(),
        }
    }

    /// Covariances of the outputs of the factors' `rows` rows, `rows × outputs²`.
    pub fn covariance(
        &self,
        factors: &JacobianFactors,
        affines: &[AffineBlock],
        rows: usize,
        outputs: usize,
        scratch: &mut Scratch,
        out: &mut [f64],
    ) {
        out.fill(0.0);
        match self {
            Form::Layers(parts) => {
                for part in parts {
                    by_layer(part, factors, &affines[part.affine], rows, outputs, scratch, out);
                }
            }
            Form::Pairs(all) => {
                for (pair, matrix) in pairs(affines.len()).zip(all) {
                    by_pair(matrix, factors, affines, pair, rows, outputs, scratch, out);
                }
            }
            Form::Whole(factor) => {
                let n = factor.len().isqrt();
                let [jacobians, turned, ..] = scratch;
                grow(jacobians, rows * outputs * n);
                grow(turned, rows * outputs * n);
                let jacobians = &mut jacobians[..rows * outputs * n];
                write_jacobians(factors, affines, outputs, affines[0].start, n, jacobians);
                let size = (rows * outputs, n, n);
                gemm(size, turned, false, Mat::rows_of(&*jacobians, n), Mat::rows_of(factor, n), Threads::One);
                for (turned, out) in turned.chunks_exact(outputs * n).zip(out.chunks_exact_mut(outputs * outputs)) {
                    gram(turned, outputs, out);
                }
            }
        }
    }
}

pub(super) fn grow<R: Real>(v: &mut Vec<R>, len: usize) {
    if v.len() < len {
        v.resize(len, R::ZERO);
    }
}

/// A block of one affine block.
fn own(block: &GaussianBlock, affine: usize, first: usize) -> Part {
    let scale = wide(&block.scale);
    let square = |v: &[f32]| (!v.is_empty()).then(|| wide(v));
    let left = square(&block.left).map(|mut left| {
        for (row, scale) in left.chunks_exact_mut(block.rows).zip(&scale) {
            row.iter_mut().for_each(|v| *v *= scale);
        }
        left
    });
    let variance = block.std.iter().map(|s| f64::from(*s).powi(2)).collect();
    Part { affine, first, rows: block.rows, left, scale, right: square(&block.right), variance }
}

/// Independent parameters, block by block, whatever blocks they stand in.
fn diagonal(q: &BlockGaussian, affines: &[AffineBlock], start: usize, n: usize) -> Option<Vec<Part>> {
    let mut variance = vec![f64::NAN; n];
    for block in q.blocks() {
        for k in 0..block.len() {
            let (i, j) = (k / block.columns, k % block.columns);
            let std = f64::from(block.scale[i]) * f64::from(block.std[k]);
            *variance.get_mut(block.index(i, j) - start)? = std * std;
        }
    }
    let of = |(affine, l): (usize, &AffineBlock)| {
        let at = |k: usize| variance[l.index(k / l.units, k % l.units) - start];
        let (rows, variance) = (l.rows(), (0..l.len()).map(at).collect());
        Part { affine, first: 0, rows, left: None, scale: vec![1.0; rows], right: None, variance }
    };
    Some(affines.iter().enumerate().map(of).collect())
}

fn by_layer(
    part: &Part,
    factors: &JacobianFactors,
    affine: &AffineBlock,
    rows: usize,
    outputs: usize,
    scratch: &mut [Vec<f64>; 4],
    out: &mut [f64],
) {
    let (na, nb, m, area) = (affine.rows(), affine.units, part.rows, affine.positions);
    let [a, b, weights, taken] = scratch;
    let x = factors.inputs(part.affine);
    let own: &[f64] = if m == na {
        x
    } else {
        taken.clear();
        x.chunks_exact(na).for_each(|x| taken.extend_from_slice(&x[part.first..part.first + m]));
        taken
    };
    grow(a, rows * area * m);
    let a = &mut a[..rows * area * m];
    match &part.left {
        Some(left) => gemm((rows * area, m, m), a, false, Mat::rows_of(own, m), Mat::rows_of(left, m), Threads::One),
        None => {
            for (a, x) in a.chunks_exact_mut(m).zip(own.chunks_exact(m)) {
                (0..m).for_each(|i| a[i] = x[i] * part.scale[i]);
            }
        }
    }
    let g = factors.deltas(part.affine);
    let g: &[f64] = match &part.right {
        Some(right) => {
            grow(b, g.len());
            let b = &mut b[..g.len()];
            gemm((g.len() / nb, nb, nb), b, false, Mat::rows_of(g, nb), Mat::rows_of(right, nb), Threads::One);
            b
        }
        None => g,
    };
    if area == 1 {
        a.iter_mut().for_each(|a| *a *= *a);
        grow(weights, rows * nb);
        let weights = &mut weights[..rows * nb];
        gemm((rows, nb, m), weights, false, Mat::rows_of(&*a, m), Mat::rows_of(&part.variance, nb), Threads::One);
        let rows =
            weights.chunks_exact(nb).zip(g.chunks_exact(outputs * nb)).zip(out.chunks_exact_mut(outputs * outputs));
        rows.for_each(|((weights, g), out)| weighted_gram(weights, g, outputs, out));
        return;
    }
    grow(weights, outputs * m * nb);
    for ((a, g), out) in
        a.chunks_exact(area * m).zip(g.chunks_exact(outputs * area * nb)).zip(out.chunks_exact_mut(outputs * outputs))
    {
        let j = &mut weights[..outputs * m * nb];
        for (g, j) in g.chunks_exact(area * nb).zip(j.chunks_exact_mut(m * nb)) {
            gemm((m, nb, area), j, false, Mat::transposed(a, m), Mat::rows_of(g, nb), Threads::One);
        }
        weighted_gram(&part.variance, j, outputs, out);
    }
}

simd_fn! {
    /// out_kl += Σⱼ wⱼ g_kj g_lj
    fn weighted_gram(weights: &[f64], g: &[f64], outputs: usize, out: &mut [f64]) {
        let n = weights.len();
        for k in 0..outputs {
            let row = &g[k * n..(k + 1) * n];
            for l in 0..=k {
                let other = &g[l * n..(l + 1) * n];
                let mut lanes = [0.0; 4];
                let full = n / 4 * 4;
                for at in (0..full).step_by(4) {
                    for i in 0..4 {
                        lanes[i] += weights[at + i] * row[at + i] * other[at + i];
                    }
                }
                let mut sum = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
                for i in full..n {
                    sum += weights[i] * row[i] * other[i];
                }
                out[k * outputs + l] += sum;
                if l < k {
                    out[l * outputs + k] += sum;
                }
            }
        }
    }
}

/// out += G Gᵀ of `outputs` rows.
fn gram(g: &[f64], outputs: usize, out: &mut [f64]) {
    let n = g.len() / outputs;
    for k in 0..outputs {
        for l in 0..outputs {
            out[k * outputs + l] += crate::math::linalg::dot(&g[k * n..(k + 1) * n], &g[l * n..(l + 1) * n]);
        }
    }
}
