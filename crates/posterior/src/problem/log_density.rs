//! Any log-density with its gradient: what samplers see of a problem, and what a user can hand them instead.

use super::{Density, Rows};
use crate::nn::Mode;

/// Why a point has no usable value.
#[derive(Debug, Clone, PartialEq)]
pub enum Rejection {
    /// Not finite here; a sampler rejects the move and goes on.
    Recoverable(String),
    /// No point in going on.
    Fatal(String),
}

/// log p(w) up to a constant, and its gradient.
pub trait LogDensity: Send {
    /// How many parameters.
    fn dim(&self) -> usize;

    /// The value; the gradient is written to `gradient`.
    fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<f64, Rejection>;
}

impl LogDensity for Density<'_, f64> {
    fn dim(&self) -> usize {
        self.problem().dim()
    }

    fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<f64, Rejection> {
        let value = self.log_joint(w, Rows::All, Mode::Plain, Some(gradient));
        if value.is_finite() && gradient.iter().all(|g| g.is_finite()) {
            Ok(value)
        } else {
            Err(Rejection::Recoverable(format!("the log joint is {value}")))
        }
    }
}
