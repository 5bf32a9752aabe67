//! What a method, likelihood, prior, layer, metric or fitted model has to satisfy, wherever it is implemented.
//!
//! | function | checks |
//! |---|---|
//! | [`expect_likelihood`] | sums, gradients, curvature, normalisation, distribution function, samples, both precisions |
//! | [`expect_prior`] | gradients, normalisation, standard deviation, samples, divergence, both precisions |
//! | [`expect_layer`], [`expect_network`] | gradients in weights, noise and inputs, Jacobian factors, equal bits, both precisions, the way through a file |
//! | [`expect_metric`] | rows that do not count do not matter, and counting twice is being there twice |
//! | [`expect_method`] | equal bits on 1, 2 and 4 threads, well-formed draws, the model file |
//! | [`expect_model`], [`expect_fitted`] | rows are independent, functions and their gradients, the model file |
//! | [`expect_settings`] | wrong names and values are errors, values at the ends of their range no panics |
//!
//! All panic with what is wrong; a statistical test fails right code with a chance below 1e-5.

mod data;
mod fitted;
mod layer;
mod likelihood;
mod method;
mod metric;
mod prior;
mod settings;

pub use data::{Task, table};
pub use fitted::{expect_fitted, expect_model};
pub use layer::{expect_layer, expect_network, network_value};
pub use likelihood::{LikelihoodCase, expect_likelihood};
pub use method::expect_method;
pub use metric::expect_metric;
pub use prior::{expect_block_prior, expect_prior};
pub use settings::expect_settings;

/// Runs on pools of 1, 2 and 4 threads.
///
/// # Panics
/// If a result differs from that on one thread.
#[track_caller]
pub fn expect_same_on_threads<T: PartialEq + Send>(what: &str, run: impl Fn() -> T + Sync) -> T {
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap_or_else(|e| panic!("{e}")).install(&run)
    };
    let one = on(1);
    for threads in [2, 4] {
        assert!(on(threads) == one, "{what}: other bits on {threads} threads than on one");
    }
    one
}

#[track_caller]
fn near(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got - want).abs() <= tolerance, "{what}: {got} and not {want} (within {tolerance:.1e})");
}
