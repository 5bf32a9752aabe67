//! The extension module of the Python package `posterior`: arrays in, arrays out. What users see is `python/posterior`.

mod error;
mod frame;
mod model;
mod outcomes;
mod recipe;
mod run;
mod sample;
mod tools;

use pyo3::prelude::*;
use std::ffi::OsString;

#[global_allocator]
static ALLOCATOR: posterior_cli::Counting = posterior_cli::Counting;

/// The program, with its arguments; returns the exit code.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| posterior_cli::main_with(args))
}

/// Methods, likelihoods and priors with their settings, as JSON.
#[pyfunction]
fn tables() -> String {
    recipe::tables()
}

#[pymodule]
fn _posterior(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // What went wrong is said by the exception; the hook is this library's own.
    std::panic::set_hook(Box::new(|_| {}));
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<model::Model>()?;
    module.add_function(wrap_pyfunction!(model::fit, module)?)?;
    module.add_function(wrap_pyfunction!(sample::sample, module)?)?;
    module.add_function(wrap_pyfunction!(tools::detect, module)?)?;
    module.add_function(wrap_pyfunction!(tools::select, module)?)?;
    module.add_function(wrap_pyfunction!(tools::import_weights, module)?)?;
    module.add_function(wrap_pyfunction!(tables, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    Ok(())
}
