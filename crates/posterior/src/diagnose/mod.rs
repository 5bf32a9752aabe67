//! Whether to believe draws and approximations: R-hat, effective sample sizes, Monte Carlo errors, energy, Pareto-k — and a verdict.
//!
//! | what | asks | believed |
//! |---|---|---|
//! | [`r_hat`] | do chains agree? | up to 1.01 |
//! | [`ess_bulk`], [`ess_tail`] | how many independent draws are they worth? | from 100 for each chain |
//! | [`mcse_mean`], [`mcse_std`], [`mcse_quantile`] | how far may an estimate be off by chance? | |
//! | [`e_bfmi`] | did momentum carry the chain through the tails? | from 0.3 |
//! | [`Weights::k`] | is q near enough to p to be corrected by weights? | below 0.7 |
//!
//! The weights of a network are not identified: units can change places, signs can flip. Its predictions are. So both are judged,
//! and a [`Verdict`] may trust the one and not the other.

mod approximation;
mod chains;
mod diagnosis;
mod energy;
mod ess;
mod mcse;
mod pareto;
mod r_hat;
mod selftest;
mod trace;
mod verdict;

pub use approximation::{PredictiveCheck, importance_weights};
pub use chains::{ChainReport, GroupReport, Mixing, Quality};
pub use diagnosis::{Diagnosis, LeftOut};
pub use energy::e_bfmi;
pub use ess::{ess, ess_bulk, ess_mean, ess_quantile, ess_std, ess_tail};
pub use mcse::{mcse_mean, mcse_quantile, mcse_std};
pub use pareto::{GeneralisedPareto, Weights};
pub use r_hat::r_hat;
pub use selftest::{Agreement, SELFTESTED, selftest};
pub use trace::{Trace, quantiles};
pub use verdict::{Finding, Trust, Verdict};
