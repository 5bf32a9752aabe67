//! Variational families: their parameters, reparameterised draws, and fused updates.

mod ivon;
mod mean_field;
mod score_function;

pub use ivon::Ivon;
pub use mean_field::MeanField;
pub(crate) use mean_field::inverse_softplus;
pub use score_function::ScoreFunction;
