//! A Gaussian whose covariance is diagonal plus low rank: q(w) = N(w | m, diag(σ²) + U Uᵀ), U of P × r.
//!
//! A draw is m + σ ⊙ ε + U z. The density is Woodbury's (`math/linalg/woodbury.rs`). Cost: (2 + r)P per draw, r²P for the first
//! density and rP for the others.

use super::mean_field::scale_and_shift;
use super::{DAMAGED, Draw, Form, Posterior, Tensor, take};
use crate::error::{Error, Result};
use crate::math::elementwise::axpy;
use crate::math::linalg;
use crate::math::special::HALF_LN_TAU;
use crate::nn::Mode;
use crate::rng::{BLOCK, Key, Normals};
use std::sync::OnceLock;

/// A diagonal plus low-rank Gaussian over all parameters.
#[derive(Debug, Clone)]
pub struct LowRankPosterior {
    mean: Vec<f32>,
    std: Vec<f32>,
    /// U, column after column.
    factor: Vec<f32>,
    elbo: Option<f64>,
    /// The covariance in f64, made when a density is first asked for; none if it is not positive definite.
    covariance: OnceLock<Option<linalg::LowRank>>,
}

impl LowRankPosterior {
    /// From m, σ, and the columns of U one after another; `elbo` is the lower bound of log p(D) at the end of the fit, if β was
    /// 1.
    ///
    /// # Panics
    /// If the lengths do not agree.
    pub fn new(mean: Vec<f32>, std: Vec<f32>, factor: Vec<f32>, elbo: Option<f64>) -> Self {
        assert_eq!(mean.len(), std.len(), "a standard deviation for every mean");
        assert!(factor.len().is_multiple_of(mean.len().max(1)), "columns of as many numbers as means");
        LowRankPosterior { mean, std, factor, elbo, covariance: OnceLock::new() }
    }

    /// m
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// σ
    pub fn std(&self) -> &[f32] {
        &self.std
    }

    /// U, column after column.
    pub fn factor(&self) -> &[f32] {
        &self.factor
    }

    /// r
    pub fn rank(&self) -> usize {
        self.factor.len() / self.mean.len().max(1)
    }

    pub(super) fn restore(
        dim: usize,
        elbo: Option<f64>,
        tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<Box<dyn Posterior>> {
        let (mean, std) = (take("mean", dim, tensors)?, take("std", dim, tensors)?);
        if std.iter().any(|s| *s <= 0.0) {
            return Err(Error::setting("a standard deviation is not positive", DAMAGED));
        }
        let missing = || Error::setting("the tensor 'factor' is missing", DAMAGED);
        let factor = tensors("factor").ok_or_else(missing)?;
        if !factor.len().is_multiple_of(dim.max(1)) {
            let what = format!("the tensor 'factor' has {} numbers, not columns of {dim}", factor.len());
            return Err(Error::setting(what, DAMAGED));
        }
        Ok(Box::new(LowRankPosterior::new(mean, std, factor, elbo)))
    }

    fn covariance(&self) -> Option<&linalg::LowRank> {
        let made = self.covariance.get_or_init(|| {
            let (dim, rank) = (self.mean.len(), self.rank());
            let diagonal = self.std.iter().map(|s| f64::from(*s).powi(2)).collect();
            let rows = (0..dim * rank).map(|k| f64::from(self.factor[k % rank * dim + k / rank])).collect();
            linalg::LowRank::new(diagonal, rows, rank).ok()
        });
        made.as_ref()
    }
}

impl Posterior for LowRankPosterior {
    fn kind(&self) -> &'static str {
        "low-rank"
    }
    fn dim(&self) -> usize {
        self.mean.len()
    }
    fn form(&self) -> Form<'_> {
        Form::LowRank(self)
    }
    fn draw_into(&self, key: Key, draw: &mut Draw) {
        draw.mode = Mode::Plain;
        let dim = self.mean.len();
        // Blocks are keyed by their numbers, so the last of all numbers is free for z, whose own blocks come under it.
        let key_z = key.derive(u64::MAX);
        for (b, w) in draw.w.chunks_mut(BLOCK).enumerate() {
            let from = b * BLOCK;
            f32::fill_block(key.block(b as u64), w);
            scale_and_shift(&self.mean[from..], &self.std[from..], w);
        }
        let mut z = [0.0; BLOCK];
        for (block, columns) in self.factor.chunks((dim * BLOCK).max(1)).enumerate() {
            let z = &mut z[..columns.len() / dim];
            f32::fill_block(key_z.block(block as u64), z);
            for (z, column) in z.iter().zip(columns.chunks(dim)) {
                axpy(*z, column, &mut draw.w);
            }
        }
    }
    fn log_density(&self, w: &[f32]) -> Option<f64> {
        let covariance = self.covariance()?;
        let d: Vec<f64> = w.iter().zip(&self.mean).map(|(w, m)| f64::from(*w) - f64::from(*m)).collect();
        Some(-0.5 * (covariance.inverse_quadratic(&d) + covariance.log_det()) - d.len() as f64 * HALF_LN_TAU)
    }
    fn log_evidence(&self) -> Option<f64> {
        self.elbo
    }
    fn tensors(&self) -> Vec<Tensor> {
        let tensor = |name: &str, shape, data: &[f32]| Tensor { name: name.into(), shape, data: data.to_vec() };
        let dim = self.mean.len();
        vec![
            tensor("mean", vec![dim], &self.mean),
            tensor("std", vec![dim], &self.std),
            tensor("factor", vec![self.rank(), dim], &self.factor),
        ]
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}
