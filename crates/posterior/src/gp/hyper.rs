//! Parameters integrated out: p(y* | y) = ∫ p(y* | y, θ) p(θ | y) dθ, with θ drawn by Hamiltonian Monte Carlo over the logarithms.
//!
//! A chain starts at the mode, adapts step size and scales in its warm-up, and leaves draws that are evenly apart: each is an exact Gaussian process, and the predictive their
//! mixture. A single θ takes no account of how little some parameters are known, and is overconfident with few rows.
//! Reference: Neal (1997), Monte Carlo implementation of Gaussian process models; Lalchand & Rasmussen (2020). Cost: some thousand values with gradients.

use super::objective::Search;
use crate::error::{ErrorKind, Result};
use crate::kernel::adapt::{DualAveraging, Scales};
use crate::kernel::{Hmc, Move, State, Target};
use crate::problem::{LogDensity, Rejection};
use crate::rng::{Key, Purpose, Stream};

/// Transitions in which scales and step size are found.
const WARMUP: usize = 120;
/// After so many transitions a window of scales ends.
const WINDOWS: [usize; 3] = [20, 50, 90];
/// Transitions for every draw that is kept.
const THIN: usize = 5;
/// Leapfrog steps of a path, from … to.
const PATH: (u64, u64) = (6, 14);
/// Acceptance that the step size is chosen for.
const ACCEPTANCE: f64 = 0.8;

/// log p(y | θ) + log p(θ) of the free parameters.
struct Joint<'a, E> {
    search: &'a Search,
    evidence: E,
}

impl<E: FnMut(&[f64], &mut [f64]) -> Option<f64> + Send> LogDensity for Joint<'_, E> {
    fn dim(&self) -> usize {
        self.search.free.len()
    }

    fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> std::result::Result<f64, Rejection> {
        let value = self.search.log_joint(w, gradient, &mut self.evidence);
        if value.is_finite() { Ok(value) } else { Err(Rejection::Recoverable("the covariance is singular".to_owned())) }
    }
}

/// Draws of all parameters given the data; `go` is asked before every transition. Empty where the chain cannot start.
pub(super) fn sample(
    search: &Search,
    mode: &[f64],
    draws: usize,
    key: Key,
    evidence: impl FnMut(&[f64], &mut [f64]) -> Option<f64> + Send,
    go: &mut dyn FnMut(usize, f64) -> bool,
) -> Result<Vec<Vec<f64>>> {
    let key = key.purpose(Purpose::Chain);
    let dim = search.free.len();
    let mut target = Target::new(Box::new(Joint { search, evidence }));
    let Some(mut state) = State::new(&search.free_of(mode), &mut target)? else { return Ok(Vec::new()) };
    let (mut hmc, mut variance, mut scales) = (Hmc::new(dim), vec![0.1; dim], Scales::new(dim));
    let mut step = DualAveraging::new(0.1, ACCEPTANCE);
    let mut kept = Vec::with_capacity(draws);
    for t in 0..WARMUP + draws * THIN {
        if !go(t, state.value) {
            return Err(ErrorKind::Interrupted.into());
        }
        let own = key.step(t as u64);
        let warm = t < WARMUP;
        let epsilon = if warm { step.step_size() } else { step.averaged() };
        let steps = PATH.0 + Stream::new(own.block(1)).below(PATH.1 - PATH.0 + 1);
        let how = Move { epsilon, steps: steps as u32, variance: &variance, look: 0 };
        let (info, _) = hmc.step(&mut state, &mut target, how, own)?;
        if warm {
            step.update(info.acceptance);
            scales.add(&state.w, &state.force);
            if WINDOWS.contains(&(t + 1)) {
                scales.close(&mut variance);
                step = DualAveraging::new(step.averaged().clamp(1e-3, 1.0), ACCEPTANCE);
            }
        } else if (t - WARMUP) % THIN == THIN - 1 {
            kept.push(search.whole(&state.w));
        }
    }
    Ok(kept)
}

/// Transitions of a chain.
pub(super) fn transitions(draws: usize) -> usize {
    WARMUP + draws * THIN
}
