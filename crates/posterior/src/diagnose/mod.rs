//! Whether to believe draws and approximations: R-hat, effective sample sizes, Monte Carlo errors, energy, Pareto-k — and a verdict.
//!
//! The statistics are those of [`convergence`](crate::convergence).
//!
//! The weights of a network are not identified: units can change places, signs can flip. Its predictions are. So both are judged,
//! and a [`Verdict`] may trust the one and not the other.

mod approximation;
mod chains;
mod diagnosis;
mod selftest;
mod verdict;

pub use crate::convergence::*;
pub use crate::fitted::Mixing;
pub use approximation::PredictiveCheck;
pub use chains::ChainReport;
pub use diagnosis::{Diagnosis, LeftOut};
pub use selftest::{Agreement, SELFTESTED, selftest};
pub use verdict::{Finding, Trust, Verdict};
