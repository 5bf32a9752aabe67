//! Independent Gaussians: q(w) = Πᵢ N(wᵢ | mᵢ, σᵢ²).

use super::{Draw, Form, Posterior, Tensor, take};
use crate::error::{Error, Result};
use crate::nn::Mode;
use crate::rng::{BLOCK, Key, Normals};
use crate::simd_fn;

/// A diagonal Gaussian over all parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanFieldPosterior {
    mean: Vec<f32>,
    std: Vec<f32>,
    elbo: Option<f64>,
}

impl MeanFieldPosterior {
    /// From means and standard deviations; `elbo` is the lower bound of log p(D) at the end of the fit, if β was 1.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn new(mean: Vec<f32>, std: Vec<f32>, elbo: Option<f64>) -> Self {
        assert_eq!(mean.len(), std.len(), "a standard deviation for every mean");
        MeanFieldPosterior { mean, std, elbo }
    }

    /// m
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// σ
    pub fn std(&self) -> &[f32] {
        &self.std
    }

    pub(super) fn restore(
        dim: usize,
        elbo: Option<f64>,
        tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<Box<dyn Posterior>> {
        let (mean, std) = (take("mean", dim, tensors)?, take("std", dim, tensors)?);
        if std.iter().any(|s| *s < 0.0) {
            return Err(Error::setting("a standard deviation is negative", "the file is damaged: fit the model again"));
        }
        Ok(Box::new(MeanFieldPosterior { mean, std, elbo }))
    }
}

simd_fn! {
    pub(super) fn scale_and_shift(mean: &[f32], std: &[f32], w: &mut [f32]) {
        let n = w.len();
        let (mean, std) = (&mean[..n], &std[..n]);
        for i in 0..n {
            w[i] = crate::math::Real::mul_add::<F>(std[i], w[i], mean[i]);
        }
    }
}

impl Posterior for MeanFieldPosterior {
    fn kind(&self) -> &'static str {
        "mean-field"
    }
    fn dim(&self) -> usize {
        self.mean.len()
    }
    fn form(&self) -> Form<'_> {
        Form::Diagonal { mean: &self.mean, std: &self.std }
    }
    fn draw_into(&self, key: Key, draw: &mut Draw) {
        draw.mode = Mode::Plain;
        let blocks = draw.w.chunks_mut(BLOCK).zip(self.mean.chunks(BLOCK)).zip(self.std.chunks(BLOCK));
        for (b, ((w, mean), std)) in blocks.enumerate() {
            f32::fill_block(key.block(b as u64), w);
            scale_and_shift(mean, std, w);
        }
    }
    /// None where a parameter is fixed: q has no density there.
    fn log_density(&self, w: &[f32]) -> Option<f64> {
        if self.std.contains(&0.0) {
            return None;
        }
        let terms = w.iter().zip(&self.mean).zip(&self.std).map(|((w, m), s)| {
            let (w, m, s) = (f64::from(*w), f64::from(*m), f64::from(*s));
            -0.5 * ((w - m) / s).powi(2) - s.ln() - 0.5 * std::f64::consts::TAU.ln()
        });
        Some(terms.sum())
    }
    fn log_evidence(&self) -> Option<f64> {
        self.elbo
    }
    fn tensors(&self) -> Vec<Tensor> {
        let tensor =
            |name: &str, data: &Vec<f32>| Tensor { name: name.into(), shape: vec![data.len()], data: data.clone() };
        vec![tensor("mean", &self.mean), tensor("std", &self.std)]
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}
