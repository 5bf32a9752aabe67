//! One of each thing that another crate can add to `posterior`, a file each: a method, a likelihood, a prior, two layers, a metric, a fitted model.
//!
//! After [`register`] they are found by name: in a configuration, in `Model::fit`, in model files. `tests/by_name.rs` uses them so, and runs the conformance
//! suite of `posterior-testing` over them.

pub mod layer;
pub mod likelihood;
pub mod method;
pub mod metric;
pub mod model;
pub mod prior;

use posterior::Result;

/// Makes everything here known by its name. Call it once, before the first fit or load; a second call is an error, since the names are taken.
pub fn register() -> Result<()> {
    posterior::inference::register_method(method::ENTRY)?;
    posterior::likelihood::register_likelihood(likelihood::ENTRY)?;
    posterior::prior::register_prior(prior::ENTRY)?;
    posterior::nn::register_layer(layer::GLU)?;
    posterior::nn::register_layer(layer::GATED)?;
    posterior::score::register_metric(metric::METRIC)?;
    posterior::model::register_model(model::ENTRY)
}
