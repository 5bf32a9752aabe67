//! Chains of the crate `nuts-rs`, driven one transition at a time: its view of a density, and the way back.

use super::chains::Transition;
use crate::error::{Error, Result};
use crate::kernel::{Info, Target};
use nuts_rs::{CpuLogpFunc, CpuMath, CpuMathError, HasDims, LogpError};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A density that outlives the chain which uses it: warm-up may make several.
pub(super) type SharedTarget<'a> = Arc<Mutex<Target<'a>>>;

/// A density as `nuts-rs` sees it.
pub(super) struct Logp<'a> {
    target: SharedTarget<'a>,
    dim: usize,
}

/// A point that has no value.
#[derive(Debug)]
pub(super) struct Refused {
    reason: String,
    recoverable: bool,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refused {}

impl LogpError for Refused {
    fn is_recoverable(&self) -> bool {
        self.recoverable
    }
}

impl HasDims for Logp<'_> {
    fn dim_sizes(&self) -> HashMap<String, u64> {
        HashMap::from([("unconstrained_parameter".to_owned(), self.dim as u64)])
    }
}

impl CpuLogpFunc for Logp<'_> {
    type LogpError = Refused;
    type FlowParameters = ();
    type ExpandedVector = ();

    fn dim(&self) -> usize {
        self.dim
    }

    fn logp(&mut self, position: &[f64], gradient: &mut [f64]) -> std::result::Result<f64, Refused> {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        match target.value_and_gradient(position, gradient) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(Refused { reason: target.reason.clone().unwrap_or_default(), recoverable: true }),
            Err(e) => Err(Refused { reason: e.to_string(), recoverable: false }),
        }
    }

    fn expand_vector<R: nuts_rs::rand::Rng + ?Sized>(
        &mut self,
        _: &mut R,
        _: &[f64],
    ) -> std::result::Result<(), CpuMathError> {
        Ok(())
    }
}

/// The arithmetic of a chain over a density.
pub(super) type Math<'a> = CpuMath<Logp<'a>>;

pub(super) fn math<'a>(target: &SharedTarget<'a>, dim: usize) -> Math<'a> {
    CpuMath::new(Logp { target: target.clone(), dim })
}

/// What a transition of `nuts-rs` tells, whatever the kind of chain.
pub(super) struct Told {
    pub w: Box<[f64]>,
    pub info: Info,
    pub step_size: f64,
    /// The energy error of its last step.
    pub energy_error: f64,
}

/// One transition of a chain of `nuts-rs`.
pub(super) type Next<'a> = Box<dyn FnMut() -> Result<Told> + 'a>;

/// Something that `nuts-rs` could not go on with.
pub(super) fn failed(what: impl std::fmt::Display) -> Error {
    Error::numerical(format!("sampling stopped: {what}"), "look for extreme values in the data, or start elsewhere")
}

/// A chain of `nuts-rs`, which may go from thread to thread.
pub(super) struct NutsRsChain<'a> {
    next: Next<'a>,
    target: SharedTarget<'a>,
    w: Vec<f64>,
    step_size: f64,
}

// SAFETY: the one thing in a chain of nuts-rs 0.19 that is not `Send` is its pool of states, `Rc`s that point at one another. Every clone of
// them is owned by the chain, none leaves it through what `expanded_draw` returns, and the chain is owned by the closure `next`, which
// one thread at a time calls: `Transition::next` takes `&mut self`. The density behind it is `Send` by its trait.
unsafe impl Send for NutsRsChain<'_> {}

impl<'a> NutsRsChain<'a> {
    pub(super) fn new(next: Next<'a>, target: SharedTarget<'a>, start: &[f64]) -> Self {
        NutsRsChain { next, target, w: start.to_vec(), step_size: f64::NAN }
    }

    pub(super) fn advance(&mut self) -> Result<Told> {
        let told = (self.next)()?;
        self.w.copy_from_slice(&told.w);
        self.step_size = told.step_size;
        Ok(told)
    }

    pub(super) fn position(&self) -> &[f64] {
        &self.w
    }

    /// Another chain over the same density, from where this one is.
    pub(super) fn replace(&mut self, next: Next<'a>) {
        self.next = next;
    }
}

impl Transition for NutsRsChain<'_> {
    fn next(&mut self) -> Result<Info> {
        Ok(self.advance()?.info)
    }
    fn write(&self, w: &mut [f32]) {
        w.iter_mut().zip(&self.w).for_each(|(to, from)| *to = *from as f32);
    }
    fn step_size(&self) -> f64 {
        self.step_size
    }
    fn evaluations(&self) -> (u64, u64) {
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        (target.evaluations, target.not_finite)
    }
}
