//! What all variational methods share: their settings, where q starts, β, and the bound they report.

use super::Method;
use super::map::Map;
use super::observer::Observer;
use super::train::{FitSummary, Tempering};
use crate::error::Result;
use crate::nn::{Layout, Role};
use crate::problem::Problem;
use crate::rng::{Key, Purpose};
use crate::settings::{Allowed, Default, Setting, Settings};
use crate::snapshot::{State, Stateful};

pub(super) const SAMPLES: Setting = Setting {
    name: "samples",
    help: "K: weights drawn per step",
    default: Default::Int(1),
    allowed: Allowed::Int(1, 10_000),
};
pub(super) const BETA: Setting = Setting {
    name: "beta",
    help: "weight of the KL; 1 is Bayes, less is a tempered (cold) posterior",
    default: Default::Float(1.0),
    allowed: Allowed::Float(0.0, 1e6),
};
pub(super) const KL_WARMUP: Setting = Setting {
    name: "kl_warmup",
    help: "part of the steps over which β first rises from 0",
    default: Default::Float(0.1),
    allowed: Allowed::Float(0.0, 1.0),
};
pub(super) const INITIAL_MEAN: Setting = Setting {
    name: "initial_mean",
    help: "means start as a fresh network's weights, at 0, or at a MAP fit with the same settings",
    default: Default::Text("random"),
    allowed: Allowed::OneOf(&["random", "zero", "map"]),
};
pub(super) const INITIAL_STD: Setting = Setting {
    name: "initial_std",
    help: "σ starts at this, divided by √fan-in where initial_scaling says so",
    default: Default::Float(0.1),
    allowed: Allowed::Float(1e-6, 100.0),
};
pub(super) const INITIAL_SCALING: Setting = Setting {
    name: "initial_scaling",
    help: "whether the first σ of a layer shrinks with its number of inputs",
    default: Default::Text("fan-in"),
    allowed: Allowed::OneOf(&["fan-in", "none"]),
};

/// The first mean, by [`INITIAL_MEAN`].
pub(super) fn initial_mean(
    problem: &Problem,
    settings: &Settings,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Vec<f32>> {
    Ok(match settings.text("initial_mean") {
        "map" => Map::with_settings_of(settings).fit(problem, key, observer)?.posterior.draw(key).w,
        "zero" => problem.initial_zero(),
        _ => problem.initial(key.purpose(Purpose::Init)),
    })
}

/// The first σ of every parameter, by [`INITIAL_STD`] and [`INITIAL_SCALING`].
pub(super) fn initial_std(layout: &Layout, settings: &Settings) -> Vec<f32> {
    let (std, by_fan_in) = (settings.float("initial_std"), settings.text("initial_scaling") == "fan-in");
    let mut out = Vec::with_capacity(layout.len());
    for block in layout.blocks() {
        let scale = if by_fan_in && block.role != Role::Noise { (block.fan_in.max(1) as f64).sqrt() } else { 1.0 };
        out.resize(block.range.end, (std / scale) as f32);
    }
    out
}

/// β step by step, by [`BETA`] and [`KL_WARMUP`].
pub(super) fn tempering(settings: &Settings) -> Tempering {
    Tempering { beta: settings.float("beta"), warmup: settings.float("kl_warmup") }
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
