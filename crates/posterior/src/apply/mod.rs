//! What a posterior is good for beyond predictions.

pub mod compress;
pub mod select;
