//! Variational families: their parameters, reparameterised draws, and fused updates.

mod mean_field;
mod mean_field_kernels;

pub use mean_field::{ByRow, MeanField};
