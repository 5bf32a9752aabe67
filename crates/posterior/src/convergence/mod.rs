//! Statistics of draws: R-hat, effective sample sizes, Monte Carlo errors, energy, importance weights.
//!
//! | what | asks | believed |
//! |---|---|---|
//! | [`r_hat`] | do chains agree? | up to 1.01 |
//! | [`ess_bulk`], [`ess_tail`] | how many independent draws are they worth? | from 100 for each chain |
//! | [`mcse_mean`], [`mcse_std`], [`mcse_quantile`] | how far may an estimate be off by chance? | |
//! | [`e_bfmi`] | did momentum carry the chain through the tails? | from 0.3 |
//! | [`Weights::k`] | is q near enough to p to be corrected by weights? | below 0.7 |

mod energy;
mod ess;
mod importance;
mod mcse;
mod pareto;
mod quality;
mod r_hat;
mod trace;

pub use energy::e_bfmi;
pub use ess::{ess, ess_bulk, ess_mean, ess_quantile, ess_std, ess_tail};
pub use importance::importance_weights;
pub use mcse::{mcse_mean, mcse_quantile, mcse_std};
pub use pareto::{GeneralisedPareto, Weights};
pub(crate) use quality::R_HAT_WORST;
pub use quality::{GroupReport, Quality};
pub use r_hat::r_hat;
pub use trace::{Trace, quantiles};
