//! Gaussian processes: kernel expressions; exact, sparse and nearest-neighbour regression; other likelihoods by Laplace's method; functions drawn from the posterior.
//!
//! y = f(x) + ε with f ~ GP(0, k): `parse` reads k, `kernel` binds it to columns, `covariance` and `rows` compute it with its gradients, `factor` factors matrices of it, `exact` is
//! the closed form, `laplace` with `curve` is for noise that is not normal, `sparse` and `nearest` are approximations for many rows, `hyper` integrates parameters out, `objective` is the search for parameters, `features` draws from the prior, `wide` and `wide_fit` are wide networks, `fit` and `fitted` join the table of models.

mod covariance;
mod curve;
mod exact;
mod factor;
mod features;
mod fit;
mod fitted;
mod hyper;
mod kernel;
mod laplace;
#[cfg(test)]
mod laplace_tests;
mod nearest;
mod objective;
mod parse;
mod restore;
mod rows;
mod sparse;
#[cfg(test)]
mod tests;
mod wide;
mod wide_fit;
#[cfg(test)]
mod wide_tests;

pub use exact::log_marginal;
pub(crate) use fit::ENTRY;
pub use fit::GpEstimator;
pub use fitted::GpFit;
pub use kernel::{Kernel, Parameter};
pub use laplace::laplace_evidence;
pub use parse::{Expr, Given, KERNELS, Kind, KindEntry, LeafSpec};
pub use sparse::bound;
pub use wide::WideActivation;
pub(crate) use wide_fit::{NNGP, NTK};

/// What a user writes for this model.
pub(crate) const NAME: &str = "gp";
