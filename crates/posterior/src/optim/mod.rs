//! Optimisers and learning-rate schedules. Everything ascends: objectives are log-densities and ELBOs.

mod adam;
mod bfgs;
mod lbfgs;
mod schedule;

pub use adam::{Adam, AdamStep, GaussianPenalty, Law};
pub(crate) use adam::{BLOCKS_PER_TASK, ascend, overlapping};
pub use bfgs::maximise;
pub use lbfgs::climb;
pub use schedule::{Decay, Schedule};
