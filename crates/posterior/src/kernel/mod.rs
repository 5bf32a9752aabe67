//! One Markov transition each: a kernel takes a state to the next and tells how it went. Adaptation is apart, in [`adapt`].
//!
//! A kernel leaves exp(log density) invariant as long as its settings (step size, mass, path length) do not change, so they
//! are adapted in warm-up alone.

pub mod adapt;
mod hmc;
mod metropolis;
mod sghmc;
mod sgld;
mod target;

pub use hmc::{Hmc, Move, Trajectory, leapfrog};
pub use metropolis::Metropolis;
pub use sghmc::sghmc_step;
pub use sgld::{NoisyStep, Preconditioner, sgld_step};
pub use target::Target;

use crate::error::Result;
use crate::rng::Key;
use crate::snapshot::{self, Stateful};

/// Where a chain is: all that the next transition needs to know.
#[derive(Debug, Clone)]
pub struct State {
    /// The parameters.
    pub w: Vec<f64>,
    /// log p(w)
    pub value: f64,
    /// The force at w, for kernels that use one.
    pub force: Vec<f64>,
}

impl State {
    /// At w, where the density has to be finite.
    pub fn new(w: &[f64], target: &mut Target<'_>) -> Result<Option<State>> {
        let mut force = vec![0.0; w.len()];
        if !w.iter().all(|v| v.is_finite()) {
            return Ok(None);
        }
        let Some(value) = target.force(w, &mut force)? else { return Ok(None) };
        let value = match value {
            Some(value) => Some(value),
            None => target.value(w)?,
        };
        Ok(value.map(|value| State { w: w.to_vec(), value, force }))
    }

    /// At w, for kernels without a force.
    pub fn without_force(w: &[f64], target: &mut Target<'_>) -> Result<Option<State>> {
        let value = if w.iter().all(|v| v.is_finite()) { target.value(w)? } else { None };
        Ok(value.map(|value| State { w: w.to_vec(), value, force: Vec::new() }))
    }
}

impl Stateful for State {
    fn state(&mut self, state: &mut snapshot::State<'_>) -> Result<()> {
        state.array("w", &mut self.w)?;
        state.number("value", &mut self.value)?;
        state.array("force", &mut self.force)
    }
}

/// How a transition went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Info {
    /// Whether the state changed.
    pub accepted: bool,
    /// The probability with which it was to change; 1 where every move is taken.
    pub acceptance: f64,
    /// Whether the energy was lost along the way.
    pub divergent: bool,
    /// Potential and kinetic energy of the state, at the momentum it began with; not-a-number without momentum.
    pub energy: f64,
    /// log p(w) after the transition.
    pub log_density: f64,
}

/// Keys of the two kinds of numbers a transition needs.
pub(crate) fn normals_and_uniforms(key: Key) -> (Key, Key) {
    (key.derive(0), key.derive(1))
}
