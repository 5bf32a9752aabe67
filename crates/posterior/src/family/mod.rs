//! Variational families: their parameters, reparameterised draws, and fused updates.

mod full_covariance;
mod ivon;
mod low_rank;
mod low_rank_kernels;
mod mean_field;
mod mean_field_kernels;
mod score_function;
#[cfg(test)]
mod tests;

pub use full_covariance::FullCovariance;
pub(crate) use full_covariance::packed_len;
pub use ivon::Ivon;
pub use low_rank::LowRank;
pub(crate) use mean_field::inverse_softplus;
pub use mean_field::{ByRow, MeanField};
pub use score_function::ScoreFunction;

use crate::error::{Error, Result};
use crate::optim::GaussianPenalty;
use crate::rng::Key;
use crate::snapshot::Stateful;

/// A family q(w) with its optimiser: what a trainer needs of it. A step is one draw or several, each followed by the gradient
/// g = ∇_w log p(D | w) there (with that of log p(w) where the prior is not normal).
pub trait Family: Clone + Stateful {
    /// Draws w; returns the part of KL[q ‖ p] that is closed: all of it for normal priors, the entropy part for others.
    fn draw(&mut self, key: Key, penalties: &[GaussianPenalty], w: &mut [f32]) -> f64;

    /// Remembers `share` times the gradient of a draw that is not the last of its step.
    fn accumulate(&mut self, gradient: &[f32], share: f32);

    /// Ascends the ELBO with `share` times the gradient of the step's last draw and what was remembered of the others.
    fn update(&mut self, gradient: &[f32], share: f32, penalties: &[GaussianPenalty], beta: f64, rate: f64);

    /// Whether every variational parameter is a finite number.
    fn is_finite(&self) -> bool;
}

/// Refuses a fit of `method` whose state would take more than `most` bytes.
pub(crate) fn check_memory(method: &str, parameters: usize, bytes: u128, most: u128, fix: &str) -> Result<()> {
    const GIB: f64 = (1u64 << 30) as f64;
    if bytes <= most {
        return crate::memory::request(bytes, format!("{method} on {parameters} parameters"), fix);
    }
    Err(Error::setting(
        format!(
            "{method} on {parameters} parameters needs {bytes} bytes ({:.1} GiB), more than the {:.0} GiB it may take",
            bytes as f64 / GIB,
            most as f64 / GIB
        ),
        fix,
    ))
}
