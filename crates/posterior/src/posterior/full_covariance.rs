//! A Gaussian with a full covariance over a range of the parameters, all others fixed: q(w) = N(w_range | m, L Lᵀ).
//!
//! A draw is m + L ε. L is lower triangular and kept row after row, each up to its diagonal. Cost: n²/2 per draw or density,
//! with n the length of the range.

use super::{DAMAGED, Draw, Form, Posterior, Tensor, take};
use crate::error::{Error, Result};
use crate::family::packed_len;
use crate::math::elementwise::dot;
use crate::math::special::HALF_LN_TAU;
use crate::nn::Mode;
use crate::rng::{Key, fill_normals};
use std::ops::Range;

/// A full-covariance Gaussian over a range of the parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct FullCovariancePosterior {
    /// Of all parameters; outside of the range, where they are fixed.
    mean: Vec<f32>,
    range: Range<usize>,
    lower: Vec<f32>,
    log_evidence: Option<f64>,
}

/// A model file holds f32, which count exactly up to 2²⁴ only: the start of the range is written in two digits of this base.
const DIGIT: usize = 1 << 16;

/// n of a packed lower triangle with so many numbers.
fn order(len: usize) -> Option<usize> {
    let root = ((8.0 * len as f64 + 1.0).sqrt() - 1.0) / 2.0;
    let near = root.round() as usize;
    (near.saturating_sub(1)..=near + 1).find(|n| packed_len(*n) == Some(len))
}

impl FullCovariancePosterior {
    /// From the means of all parameters, and L of the range that begins at `start`, row after row, each up to its
    /// diagonal. `log_evidence` is log p(D) or a lower bound of it, if the method has one.
    ///
    /// # Panics
    /// If L is not a triangle or does not fit behind `start`.
    pub fn new(mean: Vec<f32>, start: usize, lower: Vec<f32>, log_evidence: Option<f64>) -> Self {
        let order = order(lower.len()).expect("a packed lower triangle");
        assert!(start + order <= mean.len(), "a range of the parameters");
        FullCovariancePosterior { mean, range: start..start + order, lower, log_evidence }
    }

    /// m, and the fixed parameters.
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// Which parameters are not fixed.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// L, row after row, each up to its diagonal.
    pub fn lower(&self) -> &[f32] {
        &self.lower
    }

    /// L Lᵀ of the range, row-major.
    pub fn covariance(&self) -> Vec<f64> {
        let n = self.range.len();
        let row = |i: usize| &self.lower[i * (i + 1) / 2..][..i + 1];
        let product = |i: usize, j: usize| row(i).iter().zip(row(j)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        (0..n * n).map(|k| product(k / n, k % n)).collect()
    }

    pub(super) fn restore(
        dim: usize,
        log_evidence: Option<f64>,
        tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<Box<dyn Posterior>> {
        let damaged = |what: String| Error::setting(what, DAMAGED);
        let mean = take("mean", dim, tensors)?;
        let lower = tensors("lower").ok_or_else(|| damaged("the tensor 'lower' is missing".into()))?;
        let order = order(lower.len())
            .ok_or_else(|| damaged(format!("the tensor 'lower' has {} numbers, which is no triangle", lower.len())))?;
        let digits = take("start", 2, tensors)?;
        if digits.iter().any(|d| *d < 0.0 || *d >= DIGIT as f32 || d.fract() != 0.0) {
            return Err(damaged("the tensor 'start' holds something that is not a digit".into()));
        }
        let start = digits[0] as usize * DIGIT + digits[1] as usize;
        if start.checked_add(order).is_none_or(|end| end > dim) {
            return Err(damaged(format!("a range of {order} parameters from {start} on does not fit into {dim}")));
        }
        if (0..order).any(|i| lower[i * (i + 3) / 2] <= 0.0) {
            return Err(damaged("a number on the diagonal of 'lower' is not positive".into()));
        }
        Ok(Box::new(FullCovariancePosterior::new(mean, start, lower, log_evidence)))
    }
}

impl FullCovariancePosterior {
    /// log q of the parameters that are not fixed.
    pub fn free_log_density(&self, w: &[f32]) -> Option<f64> {
        let (w, mean) = (&w[self.range.clone()], &self.mean[self.range.clone()]);
        // L y = w − m, row by row.
        let mut y: Vec<f64> = Vec::with_capacity(w.len());
        let (mut rows, mut value) = (&self.lower[..], 0.0);
        for (i, (w, m)) in w.iter().zip(mean).enumerate() {
            let (row, rest) = rows.split_at(i + 1);
            rows = rest;
            let sum: f64 = row.iter().zip(&y).map(|(l, y)| f64::from(*l) * y).sum();
            let diagonal = f64::from(row[i]);
            let z = (f64::from(*w) - f64::from(*m) - sum) / diagonal;
            value -= 0.5 * z * z + diagonal.ln() + HALF_LN_TAU;
            y.push(z);
        }
        Some(value)
    }
}

impl Posterior for FullCovariancePosterior {
    fn kind(&self) -> &'static str {
        "full-covariance"
    }
    fn dim(&self) -> usize {
        self.mean.len()
    }
    fn form(&self) -> Form<'_> {
        Form::Full(self)
    }
    fn draw_into(&self, key: Key, draw: &mut Draw) {
        draw.mode = Mode::Plain;
        draw.w.copy_from_slice(&self.mean);
        let w = &mut draw.w[self.range.clone()];
        fill_normals(key, w);
        let mean = &self.mean[self.range.clone()];
        // From the last row on, so that each row finds the noise before it untouched.
        let mut end = self.lower.len();
        for i in (0..w.len()).rev() {
            let row = &self.lower[end - (i + 1)..end];
            end -= i + 1;
            w[i] = mean[i] + dot(row, &w[..=i]) as f32;
        }
    }
    fn log_density(&self, w: &[f32]) -> Option<f64> {
        if self.range.len() != self.mean.len() { None } else { self.free_log_density(w) }
    }
    fn log_evidence(&self) -> Option<f64> {
        self.log_evidence
    }
    fn tensors(&self) -> Vec<Tensor> {
        let tensor = |name: &str, data: Vec<f32>| Tensor { name: name.into(), shape: vec![data.len()], data };
        let start = [self.range.start / DIGIT, self.range.start % DIGIT].map(|d| d as f32);
        vec![tensor("mean", self.mean.clone()), tensor("lower", self.lower.clone()), tensor("start", start.to_vec())]
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}
