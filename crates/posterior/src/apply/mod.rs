//! What a posterior is good for beyond predictions.

pub mod attack;
pub use crate::predict::calibration as calibrate;
pub mod compress;
pub mod detect;
pub mod limit;
pub mod select;
