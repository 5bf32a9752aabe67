//! Draws from the prior: what the model believes before any data (prior predictive).

use super::{Draw, Form, Posterior, Tensor};
use crate::nn::Mode;
use crate::prior::Prior;
use crate::rng::Key;

/// The prior, drawn from like a posterior, so that prior predictives take the same path as any other.
#[derive(Debug, Clone)]
pub struct PriorDraws {
    prior: Prior,
}

impl PriorDraws {
    /// Of a prior.
    pub fn new(prior: Prior) -> Self {
        PriorDraws { prior }
    }
}

impl Posterior for PriorDraws {
    fn kind(&self) -> &'static str {
        "prior"
    }
    fn dim(&self) -> usize {
        self.prior.len()
    }
    fn form(&self) -> Form<'_> {
        Form::Prior
    }
    fn draw_into(&self, key: Key, draw: &mut Draw) {
        self.prior.sample(key, &mut draw.w);
        draw.mode = Mode::Plain;
    }
    fn log_density(&self, w: &[f32]) -> Option<f64> {
        Some(self.prior.log_density(w, 1.0, None))
    }
    fn tensors(&self) -> Vec<Tensor> {
        Vec::new()
    }
    fn log_evidence(&self) -> Option<f64> {
        None
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}
