//! Independent Gaussians over blocks of the parameters, each given by its eigenvectors: what Laplace's approximation gives.
//!
//! A block is a matrix of rows × columns parameters, W = M + diag(s) L (σ ⊙ Z) Rᵀ with L, R orthogonal (identities where they are left out), s a
//! scale of every row (the prior's), Z standard normal: the covariance is (diag(s)L ⊗ R) diag(σ²) (diag(s)L ⊗ R)ᵀ. With one column and L alone
//! that is any covariance; with neither it is diagonal; with both it is a Kronecker-factored one. Parameters in no block are fixed. Eigenvectors
//! rather than a triangular root: rounded to f32, directions that the data pin down keep their small variance. What is exact, a linear model, also keeps its mean
//! and a root of its covariance in double precision ([`ExactGaussian`]): closed forms are then right to the last digits.
//!
//! Cost of a draw: rows² · columns + rows · columns² per block.

use super::{DAMAGED, Draw, Form, Posterior, Tensor, take};
use crate::error::{Error, Result};
use crate::math::special::HALF_LN_TAU;
use crate::math::{Mat, Threads, gemm};
use crate::nn::Mode;
use crate::rng::{Key, fill_normals};

/// One block.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianBlock {
    /// Where it begins in w.
    pub start: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// So many of the first rows stand in w column after column (a convolution's weights); the others row after row, behind them.
    pub turned: usize,
    /// s, one per row.
    pub scale: Vec<f32>,
    /// L, rows², or empty for the identity.
    pub left: Vec<f32>,
    /// R, columns², or empty for the identity.
    pub right: Vec<f32>,
    /// σ, rows × columns.
    pub std: Vec<f32>,
}

impl GaussianBlock {
    /// How many parameters.
    pub fn len(&self) -> usize {
        self.rows * self.columns
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where in w row i, column j stands.
    pub fn index(&self, i: usize, j: usize) -> usize {
        self.start + if i < self.turned { j * self.turned + i } else { i * self.columns + j }
    }

    /// Whether the parameters are independent.
    pub fn is_diagonal(&self) -> bool {
        self.left.is_empty() && self.right.is_empty()
    }

    /// out ← L x Rᵀ, or Lᵀ x R; `x` is overwritten.
    fn rotate(&self, x: &mut Vec<f32>, back: bool) {
        let (m, n) = (self.rows, self.columns);
        let turn = |v, size: usize, transposed: bool| {
            if transposed { Mat::transposed(v, size) } else { Mat::rows_of(v, size) }
        };
        let mut out = vec![0.0; x.len()];
        if !self.left.is_empty() {
            gemm((m, n, m), &mut out, false, turn(&self.left, m, back), Mat::rows_of(x, n), Threads::One);
            std::mem::swap(x, &mut out);
        }
        if !self.right.is_empty() {
            gemm((m, n, n), &mut out, false, Mat::rows_of(x, n), turn(&self.right, n, !back), Threads::One);
            std::mem::swap(x, &mut out);
        }
    }
}

/// Mean and covariance of the parameters of one block in double precision.
#[derive(Debug, Clone, PartialEq)]
pub struct ExactGaussian {
    /// Of the block's parameters, in the order of w.
    pub mean: Vec<f64>,
    /// F of Σ = F Fᵀ, n × n.
    pub root: Vec<f64>,
}

/// Independent Gaussians over blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockGaussian {
    mean: Vec<f32>,
    blocks: Vec<GaussianBlock>,
    log_evidence: Option<f64>,
    exact: Option<ExactGaussian>,
}

const KIND: &str = "block-gaussian";
/// A model file holds f32, which count exactly up to 2²⁴ only: starts are written in two digits of this base.
const DIGIT: usize = 1 << 16;

impl BlockGaussian {
    /// From the means of all parameters and blocks in the order of w; `log_evidence` is an estimate of log p(D).
    ///
    /// # Panics
    /// If blocks overlap, do not fit, or a length is wrong.
    pub fn new(mean: Vec<f32>, blocks: Vec<GaussianBlock>, log_evidence: Option<f64>) -> Self {
        match check(mean.len(), &blocks) {
            Ok(()) => BlockGaussian { mean, blocks, log_evidence, exact: None },
            Err(what) => panic!("{what}"),
        }
    }

    /// With the one block's mean and covariance in double precision too.
    ///
    /// # Panics
    /// If there are several blocks, or a length is wrong.
    #[must_use]
    pub fn with_exact(mut self, exact: ExactGaussian) -> Self {
        assert!(fits(&exact, &self.blocks), "mean and root of one block");
        self.exact = Some(exact);
        self
    }

    /// The one block in double precision, where it is kept so.
    pub fn exact(&self) -> Option<&ExactGaussian> {
        self.exact.as_ref()
    }

    /// m, and the fixed parameters.
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// The blocks, in the order of w.
    pub fn blocks(&self) -> &[GaussianBlock] {
        &self.blocks
    }

    pub(super) fn restore(
        dim: usize,
        log_evidence: Option<f64>,
        tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<Box<dyn Posterior>> {
        let damaged = |what: String| Error::setting(what, DAMAGED);
        let mean = take("mean", dim, tensors)?;
        let mut blocks = Vec::new();
        while let Some(shape) = tensors(&format!("{}.shape", blocks.len())) {
            let b = blocks.len();
            let whole = |v: &f32| *v >= 0.0 && v.fract() == 0.0 && *v < 16_777_216.0;
            if shape.len() != 5 || !shape.iter().all(whole) {
                return Err(damaged(format!("the shape of block {b} is not five whole numbers")));
            }
            let [high, low, rows, columns, turned] = [0, 1, 2, 3, 4].map(|i| shape[i] as usize);
            let part = |name: &str| {
                let name = format!("{b}.{name}");
                tensors(&name).ok_or_else(|| damaged(format!("the tensor '{name}' is missing")))
            };
            let (scale, left, right, std) = (part("scale")?, part("left")?, part("right")?, part("std")?);
            blocks.push(GaussianBlock { start: high * DIGIT + low, rows, columns, turned, scale, left, right, std });
        }
        check(dim, &blocks).map_err(damaged)?;
        let exact = match (tensors(EXACT_MEAN), tensors(EXACT_ROOT)) {
            (Some(mean), Some(root)) => {
                let part = ExactGaussian { mean: numbers(&mean), root: numbers(&root) };
                let finite = part.mean.iter().chain(&part.root).all(|v| v.is_finite());
                if !(finite && fits(&part, &blocks)) {
                    return Err(damaged("the exact mean or covariance does not fit its block".to_owned()));
                }
                Some(part)
            }
            _ => None,
        };
        Ok(Box::new(BlockGaussian { mean, blocks, log_evidence, exact }))
    }
}

/// Names under which double precision is kept, as bytes.
const EXACT_MEAN: &str = "exact.mean";
const EXACT_ROOT: &str = "exact.root";

fn fits(exact: &ExactGaussian, blocks: &[GaussianBlock]) -> bool {
    matches!(blocks, [one] if exact.mean.len() == one.len() && one.len().checked_mul(one.len()) == Some(exact.root.len()))
}

/// Numbers in double precision from bytes that come as numbers from 0 to 255.
fn numbers(bytes: &[f32]) -> Vec<f64> {
    bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(b.map(|v| v as u8))).collect()
}

/// Whether blocks are as long as they say, follow on each other, and fit.
fn check(dim: usize, blocks: &[GaussianBlock]) -> std::result::Result<(), String> {
    let mut end = 0;
    for (i, b) in blocks.iter().enumerate() {
        let len = b.rows.checked_mul(b.columns).filter(|n| *n > 0).ok_or_else(|| format!("block {i} has no size"))?;
        let square = |v: &[f32], n: usize| v.is_empty() || n.checked_mul(n) == Some(v.len());
        let fits = b.start >= end && b.start.checked_add(len).is_some_and(|e| e <= dim) && b.turned <= b.rows;
        let lengths = b.scale.len() == b.rows && b.std.len() == len;
        if !(fits && lengths && square(&b.left, b.rows) && square(&b.right, b.columns)) {
            return Err(format!("block {i} does not fit into {dim} parameters, or a part of it has another length"));
        }
        if b.scale.iter().chain(&b.std).any(|v| *v <= 0.0) {
            return Err(format!("a standard deviation of block {i} is not positive"));
        }
        end = b.start + len;
    }
    if blocks.is_empty() { Err("there is no block".to_owned()) } else { Ok(()) }
}

impl BlockGaussian {
    /// log q of the parameters that are not fixed.
    pub fn free_log_density(&self, w: &[f32]) -> Option<f64> {
        let mut value = 0.0;
        for block in &self.blocks {
            let of = |i: usize, j: usize| (w[block.index(i, j)] - self.mean[block.index(i, j)]) / block.scale[i];
            let mut z: Vec<f32> = (0..block.len()).map(|k| of(k / block.columns, k % block.columns)).collect();
            block.rotate(&mut z, true);
            let scales: f64 = block.scale.iter().map(|s| f64::from(*s).ln()).sum();
            value -= block.columns as f64 * scales + block.len() as f64 * HALF_LN_TAU;
            for (z, std) in z.iter().zip(&block.std) {
                let std = f64::from(*std);
                value -= 0.5 * (f64::from(*z) / std).powi(2) + std.ln();
            }
        }
        Some(value)
    }
}

impl Posterior for BlockGaussian {
    fn kind(&self) -> &'static str {
        KIND
    }
    fn dim(&self) -> usize {
        self.mean.len()
    }
    fn form(&self) -> Form<'_> {
        Form::Blocks(self)
    }
    fn draw_into(&self, key: Key, draw: &mut Draw) {
        draw.mode = Mode::Plain;
        draw.w.copy_from_slice(&self.mean);
        for (b, block) in self.blocks.iter().enumerate() {
            let mut z = vec![0.0; block.len()];
            fill_normals(key.derive(b as u64), &mut z);
            z.iter_mut().zip(&block.std).for_each(|(z, s)| *z *= s);
            block.rotate(&mut z, false);
            for (i, (row, scale)) in z.chunks_exact(block.columns).zip(&block.scale).enumerate() {
                row.iter().enumerate().for_each(|(j, z)| draw.w[block.index(i, j)] += scale * z);
            }
        }
    }
    fn log_density(&self, w: &[f32]) -> Option<f64> {
        let whole = self.blocks.iter().map(GaussianBlock::len).sum::<usize>() == self.mean.len();
        if whole { self.free_log_density(w) } else { None }
    }
    fn log_evidence(&self) -> Option<f64> {
        self.log_evidence
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        let bytes = |v: &[f64]| v.iter().flat_map(|v| v.to_le_bytes()).collect();
        match &self.exact {
            Some(exact) => {
                vec![(EXACT_MEAN.to_owned(), bytes(&exact.mean)), (EXACT_ROOT.to_owned(), bytes(&exact.root))]
            }
            None => Vec::new(),
        }
    }
    fn tensors(&self) -> Vec<Tensor> {
        let tensor = |name: String, data: Vec<f32>| Tensor { name, shape: vec![data.len()], data };
        let mut all = vec![tensor("mean".into(), self.mean.clone())];
        for (i, b) in self.blocks.iter().enumerate() {
            let shape = [b.start / DIGIT, b.start % DIGIT, b.rows, b.columns, b.turned].map(|v| v as f32).to_vec();
            all.push(tensor(format!("{i}.shape"), shape));
            let parts = [("scale", &b.scale), ("left", &b.left), ("right", &b.right), ("std", &b.std)];
            all.extend(parts.map(|(name, data)| tensor(format!("{i}.{name}"), data.clone())));
        }
        all
    }
}
