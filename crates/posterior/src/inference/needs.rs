//! How much memory a fit needs, about: what methods state in [`Method::bytes`](super::Method::bytes).
//!
//! State: numbers per parameter × P. Passes: activations of a mini-batch's rows. Data: a copy in the precision of the arithmetic. The test
//! `tests/memory.rs` holds every method's statement against the most that its fit was seen to hold.

use super::chain_options::ChainOptions;
use crate::memory::product;
use crate::problem::Problem;

const SINGLE: usize = size_of::<f32>();
const DOUBLE: usize = size_of::<f64>();

fn threads() -> usize {
    rayon::current_num_threads().max(1)
}

/// So many numbers in single precision for every parameter, and passes over mini-batches.
pub(super) fn by_gradient(problem: &Problem, batch: usize, numbers: usize) -> u128 {
    product(&[numbers, problem.dim(), SINGLE]).saturating_add(problem.density_bytes(SINGLE, batch))
}

/// The same where weights are drawn for every row: passes have second products, and gradients two parts.
pub(super) fn by_row_noise(problem: &Problem, batch: usize, numbers: usize) -> u128 {
    let density = problem.density_bytes(SINGLE, batch).saturating_mul(2);
    product(&[numbers, problem.dim(), SINGLE]).saturating_add(density)
}

/// Members that need `one` each, as many at a time as there are threads; of the others, `kept` numbers for every parameter.
pub(super) fn by_members(problem: &Problem, members: usize, one: u128, kept: usize) -> u128 {
    let at_work = one.saturating_mul(members.min(threads()) as u128);
    at_work.saturating_add(product(&[members, kept, problem.dim(), SINGLE]))
}

/// Chains with so many numbers in double precision for every parameter, a density each over all rows, and their draws.
pub(super) fn by_chains(problem: &Problem, chains: &ChainOptions, numbers: usize) -> u128 {
    let density = problem.density_bytes(DOUBLE, problem.data().rows);
    let one = product(&[numbers, problem.dim(), DOUBLE]).saturating_add(density);
    one.saturating_mul(chains.chains as u128).saturating_add(draws(problem, chains))
}

/// Chains of mini-batch steps.
pub(super) fn by_stochastic_chains(problem: &Problem, chains: &ChainOptions, batch: usize, numbers: usize) -> u128 {
    let one = by_gradient(problem, batch, numbers);
    one.saturating_mul(chains.chains as u128).saturating_add(draws(problem, chains))
}

/// Kept draws, which are thinned to a memory of their own.
fn draws(problem: &Problem, chains: &ChainOptions) -> u128 {
    let all = product(&[chains.chains, chains.draws, problem.dim(), SINGLE]);
    all.min((chains.memory_mib as u128) << 20)
}
