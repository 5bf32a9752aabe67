//! Gaussian processes: kernel expressions, exact, sparse and nearest-neighbour regression, functions drawn from the posterior.
//!
//! y = f(x) + ε with f ~ GP(0, k): `parse` reads k, `kernel` binds it to columns, `covariance` and `rows` compute it with its gradients, `factor` factors matrices of it, `exact` is
//! the closed form, `sparse` and `nearest` are approximations for many rows, `hyper` integrates parameters out, `objective` is the search for parameters, `features` draws from the prior, `fit` and `fitted` join the table of models.

mod covariance;
mod exact;
mod factor;
mod features;
mod fit;
mod fitted;
mod hyper;
mod kernel;
mod nearest;
mod objective;
mod parse;
mod restore;
mod rows;
mod sparse;
#[cfg(test)]
mod tests;

pub use exact::log_marginal;
pub(crate) use fit::ENTRY;
pub use fit::GpEstimator;
pub use fitted::GpFit;
pub use kernel::{Kernel, Parameter};
pub use parse::{Expr, Given, KERNELS, Kind, KindEntry, LeafSpec};
pub use sparse::bound;

/// What a user writes for this model.
pub(crate) const NAME: &str = "gp";
