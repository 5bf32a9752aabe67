//! What all variational methods share: their settings, where q starts, β, and the bound they report.

use super::map;
use super::observer::Observer;
use super::train::{FitSummary, TrainingOptions};
use crate::error::Result;
use crate::nn::{Layout, Role};
use crate::problem::Problem;
use crate::rng::{Key, Purpose};
use crate::snapshot::{State, Stateful};

crate::word_enum! {
    /// Where the means of q start.
    pub enum InitialMean {
        /// As a fresh network's weights.
        Random = "random",
        /// At 0.
        Zero = "zero",
        /// At a MAP fit with the same options.
        Map = "map",
    }
}

crate::word_enum! {
    /// Whether the first σ of a layer shrinks with its number of inputs.
    pub enum InitialScaling {
        /// Divided by √fan-in.
        FanIn = "fan-in",
        /// The same for all layers.
        None = "none",
    }
}

/// β, and where q starts.
macro_rules! variational_fields {
    ({ $($head:tt)* } $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// weight of the KL; 1 is Bayes, less is a tempered (cold) posterior
            beta: f64 = 1.0 => Float(0.0, 1e6),
            /// fraction of the steps over which β first rises from 0
            kl_warmup: f64 = 0.1 => Float(0.0, 1.0),
            /// means start as a fresh network's weights, at 0, or at a MAP fit with the same settings
            initial_mean: InitialMean = InitialMean::Random,
            /// σ starts at this, divided by √fan-in where initial_scaling says so
            initial_std: f64 = 0.1 => Float(1e-6, 100.0),
            /// whether the first σ of a layer shrinks with its number of inputs
            initial_scaling: InitialScaling = InitialScaling::FanIn,
            $($rest)*
        }
    };
}
pub(super) use variational_fields;

/// The first mean.
pub(super) fn initial_mean(
    problem: &Problem,
    start: InitialMean,
    training: &TrainingOptions,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Vec<f32>> {
    Ok(match start {
        InitialMean::Map => map::fit(problem, training, true, key, observer)?.posterior.draw(key).w,
        InitialMean::Zero => problem.initial_zero(),
        InitialMean::Random => problem.initial(key.purpose(Purpose::Init)),
    })
}

/// The first σ of every parameter.
pub(super) fn initial_std(layout: &Layout, std: f64, scaling: InitialScaling) -> Vec<f32> {
    let by_fan_in = scaling == InitialScaling::FanIn;
    let mut out = Vec::with_capacity(layout.len());
    for block in layout.blocks() {
        let scale = if by_fan_in && block.role != Role::Noise { (block.fan_in.max(1) as f64).sqrt() } else { 1.0 };
        out.resize(block.range.end, (std / scale) as f32);
    }
    out
}

/// The lower bound of log p(D) at the end of a fit, where the objective is one.
pub(super) fn elbo(problem: &Problem, summary: &FitSummary) -> Option<f64> {
    // With dropout layers the bound is of a network with masks, which is not the one that predicts.
    let masked = problem.network().is_random();
    summary.trace.last().filter(|e| e.beta == 1.0 && !masked).map(|e| e.objective)
}

/// KL[q ‖ p] of the last step, and its mean since the last record.
#[derive(Debug, Default)]
pub(super) struct RecordedKl {
    last: f64,
    sum: f64,
    steps: u64,
}

impl Stateful for RecordedKl {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.number("last", &mut self.last)?;
        state.number("sum", &mut self.sum)?;
        state.count("steps", &mut self.steps)
    }
}

impl RecordedKl {
    pub fn record(&mut self, kl: f64) {
        self.last = kl;
        self.sum += kl;
        self.steps += 1;
    }

    pub fn last(&self) -> f64 {
        self.last
    }

    /// The mean of what was recorded since this was last asked.
    pub fn take_mean(&mut self) -> f64 {
        let mean = self.sum / self.steps.max(1) as f64;
        (self.sum, self.steps) = (0.0, 0);
        mean
    }
}
