//! What a posterior is good for beyond predictions.

pub mod attack;
pub mod calibrate;
pub mod compress;
pub mod detect;
pub mod select;
