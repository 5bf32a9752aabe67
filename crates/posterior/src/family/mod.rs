//! Variational families: their parameters, reparameterised draws, and fused updates.

mod mean_field;

pub use mean_field::MeanField;
