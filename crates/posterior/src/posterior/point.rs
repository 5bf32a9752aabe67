//! All mass at one point: what maximum likelihood and MAP give.

use super::{Draw, Form, Posterior, Tensor, take};
use crate::error::Result;
use crate::nn::Mode;
use crate::rng::Key;

/// One parameter vector.
#[derive(Debug, Clone, PartialEq)]
pub struct PointPosterior {
    w: Vec<f32>,
}

impl PointPosterior {
    /// At w.
    pub fn new(w: Vec<f32>) -> Self {
        PointPosterior { w }
    }

    /// The point.
    pub fn point(&self) -> &[f32] {
        &self.w
    }

    pub(super) fn restore(
        dim: usize,
        _: Option<f64>,
        tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(PointPosterior { w: take("w", dim, tensors)? }))
    }
}

impl Posterior for PointPosterior {
    fn kind(&self) -> &'static str {
        "point"
    }
    fn dim(&self) -> usize {
        self.w.len()
    }
    fn form(&self) -> Form<'_> {
        Form::Point(&self.w)
    }
    fn draw_into(&self, _key: Key, draw: &mut Draw) {
        draw.w.copy_from_slice(&self.w);
        draw.mode = Mode::Plain;
    }
    fn log_density(&self, _w: &[f32]) -> Option<f64> {
        None
    }
    fn tensors(&self) -> Vec<Tensor> {
        vec![Tensor { name: "w".into(), shape: vec![self.w.len()], data: self.w.clone() }]
    }
    fn log_evidence(&self) -> Option<f64> {
        None
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}
