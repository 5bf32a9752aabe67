//! Neural networks that know what they do not know.
//!
//! Everything is p(w|D) ∝ p(D|w) p(w), an approximation of it that can be drawn from, and an average over the draws.
//!
//! | symbol | in the code | meaning |
//! |---|---|---|
//! | D = {(xₙ, yₙ)}, N | `Dataset`, `rows` | the data |
//! | w ∈ ℝᴾ | `w: &[R]` | all parameters, flat; named blocks in a `Layout` |
//! | f_w(x) | `Network` | the network's outputs |
//! | p(y \| f) | `Likelihood` | how outcomes scatter |
//! | p(w) | `Prior` | belief before data |
//! | log p(w, D) | `Problem`, `Density` | log joint: a **sum** over all rows; a mini-batch is scaled by N/\|B\| |
//! | q(w) | `Posterior` | an approximation of p(w \| D) that can be drawn from |

pub mod artifact;
pub mod data;
pub mod distribution;
pub mod error;
pub mod family;
pub mod inference;
pub mod likelihood;
pub mod math;
pub mod model;
pub mod nn;
pub mod optim;
pub mod posterior;
mod precision;
pub mod predict;
pub mod prior;
pub mod problem;
pub mod rng;
pub mod score;
pub mod settings;

pub use error::{Error, ErrorKind, Result};
pub use precision::Precision;
