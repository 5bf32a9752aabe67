//! Variational families: their parameters, reparameterised draws, and fused updates.

mod ivon;
mod mean_field;
mod mean_field_kernels;
mod score_function;

pub use ivon::Ivon;
pub(crate) use mean_field::inverse_softplus;
pub use mean_field::{ByRow, MeanField};
pub use score_function::ScoreFunction;
