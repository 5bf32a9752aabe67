//! How much memory a fit needs, about: what methods state in [`Method::bytes`](super::Method::bytes).
//!
//! State: numbers per parameter × P. Passes: activations of a mini-batch's rows. Data: a copy in the precision of the arithmetic. The test
//! `tests/memory.rs` holds every method's statement against the most it was seen to hold.

use crate::memory::product;
use crate::problem::Problem;
use crate::settings::{Settings, Value};

fn count(settings: &Settings, name: &str) -> Option<usize> {
    settings.iter().find(|(n, _)| *n == name).and_then(|(_, v)| match v {
        Value::Int(n) => usize::try_from(*n).ok(),
        _ => None,
    })
}

/// So many numbers in f32 for every parameter, and passes over mini-batches.
pub(super) fn by_gradient(problem: &Problem, settings: &Settings, numbers: usize) -> u128 {
    let batch = count(settings, "batch_size").unwrap_or(problem.data().rows);
    let state = product(&[numbers, problem.dim(), size_of::<f32>()]);
    state.saturating_add(problem.density_bytes(size_of::<f32>(), batch))
}
