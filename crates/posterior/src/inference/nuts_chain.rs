//! Chains of the crate `nuts-rs`, driven one transition at a time: its view of a density, and the way back.
//!
//! What such a chain has adapted cannot be taken out of it whole, nor can its random numbers. After warm-up the kernel is fixed, though, by its step size and the
//! scale of every parameter: a chain then goes on in segments of [`SEGMENT`] transitions, each a chain of its own with these and with a key of its own, and is
//! kept where a segment begins. The price is one gradient a segment. A chain that is interrupted in warm-up, or whose mass is not
//! diagonal, begins anew.

use crate::error::{Error, Result};
use crate::kernel::{Info, Target};
use crate::snapshot::{State, Stateful};
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
    /// The scales of a segment, until its chain has asked for them.
    scales: Option<Vec<f64>>,
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
        // A chain takes its first scales from the first gradient g that it sees, as 1/√|g|, and nothing else from that evaluation.
        if let Some(scales) = self.scales.take() {
            gradient.iter_mut().zip(scales).for_each(|(g, scale)| *g = 1.0 / (scale * scale));
            return Ok(0.0);
        }
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

/// With scales, a chain begins with these instead of its own.
pub(super) fn math<'a>(target: &SharedTarget<'a>, dim: usize, scales: Option<&[f64]>) -> Math<'a> {
    CpuMath::new(Logp { target: target.clone(), dim, scales: scales.map(<[f64]>::to_vec) })
}

/// What a transition of `nuts-rs` tells, whatever the kind of chain.
pub(super) struct Told {
    pub w: Box<[f64]>,
    pub info: Info,
    pub step_size: f64,
    /// The energy error of its last step.
    pub energy_error: f64,
    /// The scale of every parameter, where the transition changed it and the mass is diagonal.
    pub scales: Option<Vec<f64>>,
}

/// Transitions of a segment.
pub(super) const SEGMENT: usize = 50;
/// Scales of which `nuts-rs` keeps all digits on the way through a gradient, which it clips at 1e10.
const SCALES: std::ops::Range<f64> = 1e-4..1e4;

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
    /// The last that the chain told.
    scales: Vec<f64>,
}

// SAFETY: the one thing in a chain of nuts-rs 0.19 that is not `Send` is its pool of states, `Rc`s that point at one another. Every clone of
// them is owned by the chain, none leaves it through what `expanded_draw` returns, and the chain is owned by the closure `next`, which
// one thread at a time calls: `NutsRsChain::advance` takes `&mut self`. The density behind it is `Send` by its trait.
unsafe impl Send for NutsRsChain<'_> {}

impl<'a> NutsRsChain<'a> {
    pub(super) fn new(next: Next<'a>, target: SharedTarget<'a>, start: &[f64]) -> Self {
        NutsRsChain { next, target, w: start.to_vec(), step_size: f64::NAN, scales: Vec::new() }
    }

    pub(super) fn advance(&mut self) -> Result<Told> {
        let told = (self.next)()?;
        self.w.copy_from_slice(&told.w);
        self.step_size = told.step_size;
        if let Some(scales) = &told.scales {
            self.scales.clone_from(scales);
        }
        Ok(told)
    }

    pub(super) fn position(&self) -> &[f64] {
        &self.w
    }

    /// The scales of the next segment, if transition t after a warm-up begins one.
    pub(super) fn segment(&self, t: usize, warmup: usize) -> Option<&[f64]> {
        let begins = warmup > 0 && t >= warmup && (t - warmup).is_multiple_of(SEGMENT);
        let known = self.scales.len() == self.w.len() && self.scales.iter().all(|s| SCALES.contains(s));
        (begins && known).then_some(&self.scales)
    }

    /// The step size that the chain last told.
    pub(super) fn told_step_size(&self) -> f64 {
        self.step_size
    }

    /// Another chain over the same density, from where this one is.
    pub(super) fn replace(&mut self, next: Next<'a>) {
        self.next = next;
    }
}

/// Where a segment begins, this is all.
impl Stateful for NutsRsChain<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.part("target", &mut *self.target.lock().unwrap_or_else(PoisonError::into_inner))?;
        state.array("w", &mut self.w)?;
        state.number("step_size", &mut self.step_size)?;
        state.array_or_none("scales", &mut self.scales, self.w.len())
    }
}

impl NutsRsChain<'_> {
    pub(super) fn write(&self, w: &mut [f32]) {
        w.iter_mut().zip(&self.w).for_each(|(to, from)| *to = *from as f32);
    }
    pub(super) fn evaluations(&self) -> (u64, u64) {
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        (target.evaluations, target.not_finite)
    }
}
