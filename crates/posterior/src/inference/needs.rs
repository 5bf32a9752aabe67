//! How much memory a fit needs, about: what methods state in [`Method::bytes`](super::Method::bytes).
//!
//! State: numbers per parameter × P. Passes: activations of a mini-batch's rows. Data: a copy in the precision of the arithmetic. The test
//! `tests/memory.rs` holds every method's statement against the most that its fit was seen to hold.

use crate::memory::product;
use crate::problem::Problem;
use crate::settings::{Settings, Value};

const SINGLE: usize = size_of::<f32>();
const DOUBLE: usize = size_of::<f64>();

fn count(settings: &Settings, name: &str) -> Option<usize> {
    settings.iter().find(|(n, _)| *n == name).and_then(|(_, v)| match v {
        Value::Int(n) => usize::try_from(*n).ok(),
        _ => None,
    })
}

fn threads() -> usize {
    rayon::current_num_threads().max(1)
}

/// So many numbers in single precision for every parameter, and passes over mini-batches.
pub(super) fn by_gradient(problem: &Problem, settings: &Settings, numbers: usize) -> u128 {
    let batch = count(settings, "batch_size").unwrap_or(problem.data().rows);
    product(&[numbers, problem.dim(), SINGLE]).saturating_add(problem.density_bytes(SINGLE, batch))
}

/// The same where weights are drawn for every row: passes have second products, and gradients two parts.
pub(super) fn by_row_noise(problem: &Problem, settings: &Settings, numbers: usize) -> u128 {
    let batch = count(settings, "batch_size").unwrap_or(problem.data().rows);
    let density = problem.density_bytes(SINGLE, batch).saturating_mul(2);
    product(&[numbers, problem.dim(), SINGLE]).saturating_add(density)
}

/// Members that need `one` each, as many at a time as there are threads; of the others, `kept` numbers for every parameter.
pub(super) fn by_members(problem: &Problem, settings: &Settings, one: u128, kept: usize) -> u128 {
    let members = count(settings, "members").unwrap_or(1);
    let at_work = one.saturating_mul(members.min(threads()) as u128);
    at_work.saturating_add(product(&[members, kept, problem.dim(), SINGLE]))
}

/// Chains with so many numbers in double precision for every parameter, a density each over all rows, and their draws.
pub(super) fn by_chains(problem: &Problem, settings: &Settings, numbers: usize) -> u128 {
    let chains = count(settings, "chains").unwrap_or(1);
    let density = problem.density_bytes(DOUBLE, problem.data().rows);
    let one = product(&[numbers, problem.dim(), DOUBLE]).saturating_add(density);
    one.saturating_mul(chains as u128).saturating_add(draws(problem, settings, chains))
}

/// Chains of mini-batch steps.
pub(super) fn by_stochastic_chains(problem: &Problem, settings: &Settings, numbers: usize) -> u128 {
    let chains = count(settings, "chains").unwrap_or(1);
    let one = by_gradient(problem, settings, numbers);
    one.saturating_mul(chains as u128).saturating_add(draws(problem, settings, chains))
}

/// Kept draws, which are thinned to a memory of their own.
fn draws(problem: &Problem, settings: &Settings, chains: usize) -> u128 {
    let all = product(&[chains, count(settings, "draws").unwrap_or(0), problem.dim(), SINGLE]);
    count(settings, "memory_mib").map_or(all, |mib| all.min((mib as u128) << 20))
}
