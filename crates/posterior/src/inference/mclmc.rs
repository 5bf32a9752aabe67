//! Microcanonical Langevin Monte Carlo, by the crate `nuts-rs`, with a step size that is tuned here to a small bias.
//!
//! Motion at constant speed whose direction follows ∇ log p and is turned a little at random, over a length L; no accept step. The bias is governed by the
//! variance of the energy error of a step per parameter: the step size is scaled by (wanted/measured)^{1/6} in stages of the warm-up until it is
//! what `energy_error` says. The first stage is short paths of NUTS, which find the place and its scale from afar. References: Robnik, De Luca, Silverstein & Seljak (2023), JMLR 24; Robnik & Seljak (2024). Cost: L/ε gradients a transition.

use super::chain_options::{chain_fields, has_chains, memory_field};
use super::chains::{ChainPlan, Transition};
use super::nuts::nuts_from;
use super::nuts_chain::{Next, NutsRsChain, SEGMENT, SharedTarget, Told, failed, math};
use super::observer::Observer;
use super::sample::{GradientPrecision, Sampler, fit_by_sampling, precision_field};
use super::starts::{Start, start_field};
use super::{Fit, Method, MethodEntry};
use crate::error::{Error, Result};
use crate::kernel::{Info, Target};
use crate::problem::Problem;
use crate::rng::{Key, Stream};
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::snapshot::{State, Stateful};
use nuts_rs::{Chain, DiagMclmcSettings, MclmcTrajectoryKind, Settings as _};
use std::sync::{Arc, Mutex};

crate::options! {
    /// Microcanonical Langevin Monte Carlo.
    pub struct Mclmc: "mclmc" {
        ..chain_fields!(500, 500, 1),
        /// variance of a step's energy error per parameter, which the step size is tuned to; smaller means less bias
        energy_error: f64 = 1e-4 => Above(0.0, 1.0),
        /// how far a chain goes before it forgets its direction, and from one transition to the next, in units of the spread of the draws
        length: f64 = 1.5 => Above(0.0, 1000.0),
        ..precision_field!(GradientPrecision::F64),
        ..start_field!,
        ..memory_field!,
    }
}
has_chains!(Mclmc);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Mclmc::NAME,
    summary: "microcanonical Langevin Monte Carlo: fast, with a small bias",
    gives: "draws of Markov chains",
    settings: Mclmc::SETTINGS,
    build: |settings| Box::new(Checked::<Mclmc>::from(settings)),
};

/// Stages of the warm-up, the first by NUTS, the others each with a step size of their own; the last takes as long as all before it.
const STAGES: usize = 5;
/// Doublings of a path of the first stage.
const FIRST_DEPTH: usize = 7;
/// The first step size, relative to the spread.
const FIRST: f64 = 0.1;

/// A chain of `nuts-rs`, and another one after every stage and segment.
struct MclmcChain<'a> {
    chain: NutsRsChain<'a>,
    target: SharedTarget<'a>,
    step_size: f64,
    length: f64,
    wanted: f64,
    /// Where stages end, in transitions.
    ends: Vec<usize>,
    /// Energy errors of this stage.
    errors: Vec<f64>,
    diverged: usize,
    warmup: usize,
    t: usize,
    key: Key,
}

/// A chain with this step size that adapts its scales for so many transitions.
fn next_of<'a>(
    target: &SharedTarget<'a>,
    start: &[f64],
    step_size: f64,
    length: f64,
    tune: usize,
    scales: Option<&[f64]>,
    key: Key,
) -> Result<Next<'a>> {
    let mut settings = DiagMclmcSettings {
        step_size,
        momentum_decoherence_length: length,
        num_tune: tune as u64,
        // A step that loses the energy altogether is halved and retried: the first scales of a stage come from one gradient.
        dynamic_step_size: true,
        trajectory_kind: MclmcTrajectoryKind::Microcanonical,
        ..DiagMclmcSettings::default()
    };
    settings.adapt_options.mass_matrix_options.store_mass_matrix = true;
    let mut chain = settings.new_chain(0, math(target, start.len(), scales), &mut Stream::new(key)).map_err(failed)?;
    chain.set_position(start).map_err(failed)?;
    Ok(Box::new(move || {
        let (w, _, stats, progress) = chain.expanded_draw().map_err(failed)?;
        let info = Info {
            accepted: !progress.diverging,
            acceptance: if progress.diverging { 0.0 } else { 1.0 },
            divergent: progress.diverging,
            energy: f64::NAN,
            log_density: stats.point.logp,
        };
        let scales = stats.hamiltonian.transformation.mass_matrix_inv;
        Ok(Told { w, info, step_size: progress.step_size, energy_error: stats.energy_change, scales })
    }))
}

impl MclmcChain<'_> {
    /// The next stage: another step size, from here on.
    fn end_stage(&mut self, stage: usize) -> Result<()> {
        let dim = self.chain.position().len();
        // The first half of a stage still finds its scales.
        let errors = &self.errors[self.errors.len() / 2..];
        let count = errors.len().max(1) as f64;
        let mean = errors.iter().sum::<f64>() / count;
        let variance = errors.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / count / dim as f64;
        let factor = if stage == 0 {
            1.0
        } else if 2 * self.diverged > self.errors.len() {
            0.25
        } else if variance > 0.0 {
            (self.wanted / variance).powf(1.0 / 6.0).clamp(0.25, 4.0)
        } else {
            2.0
        };
        self.step_size = (self.step_size * factor).min(self.length);
        self.errors.clear();
        self.diverged = 0;
        let tune = self.ends.get(stage + 1).copied().unwrap_or(self.warmup) - self.t;
        let key = self.key.derive(stage as u64 + 1);
        let next = next_of(&self.target, self.chain.position(), self.step_size, self.length, tune, None, key)?;
        self.chain.replace(next);
        Ok(())
    }
}

impl Transition for MclmcChain<'_> {
    fn next(&mut self) -> Result<Info> {
        if let Some(stage) = self.ends.iter().position(|end| *end == self.t).filter(|_| self.t > 0) {
            self.end_stage(stage)?;
        }
        if let Some(scales) = self.chain.segment(self.t, self.warmup) {
            let key = self.key.derive((STAGES + 1 + (self.t - self.warmup) / SEGMENT) as u64);
            let next = next_of(&self.target, self.chain.position(), self.step_size, self.length, 0, Some(scales), key)?;
            self.chain.replace(next);
        }
        let told = self.chain.advance()?;
        if self.t < self.warmup {
            self.diverged += usize::from(told.info.divergent);
            if told.energy_error.is_finite() && !told.info.divergent {
                self.errors.push(told.energy_error);
            }
        }
        self.t += 1;
        Ok(told.info)
    }
    fn write(&self, w: &mut [f32]) {
        self.chain.write(w);
    }
    fn step_size(&self) -> f64 {
        self.step_size
    }
    fn evaluations(&self) -> (u64, u64) {
        self.chain.evaluations()
    }
    fn stateful(&mut self, resuming: bool) -> Option<&mut dyn Stateful> {
        (resuming || self.chain.segment(self.t, self.warmup).is_some()).then_some(self)
    }
}

/// After warm-up, energy errors are not looked at any more.
impl Stateful for MclmcChain<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.part("chain", &mut self.chain)?;
        state.number("step_size", &mut self.step_size)?;
        state.count("t", &mut self.t)
    }
}

impl Sampler for Checked<Mclmc> {
    fn chain<'a>(
        &self,
        target: Target<'a>,
        start: &[f64],
        plan: ChainPlan,
        key: Key,
    ) -> Result<Box<dyn Transition + 'a>> {
        if start.len() < 2 {
            return Err(Error::setting("mclmc needs two parameters or more", "take nuts or hmc for one"));
        }
        let target = Arc::new(Mutex::new(target));
        let length = self.length;
        let each = plan.warmup / (2 * (STAGES - 1));
        let ends: Vec<usize> = if each == 0 { Vec::new() } else { (1..STAGES).map(|s| s * each).collect() };
        let (step_size, tune) = (FIRST.min(length), ends.first().copied().unwrap_or(plan.warmup));
        let next = match ends.is_empty() {
            true => next_of(&target, start, step_size, length, tune, None, key.derive(0))?,
            false => nuts_from(&target, start, tune, FIRST_DEPTH, 0.8, false, key.derive(0))?,
        };
        Ok(Box::new(MclmcChain {
            chain: NutsRsChain::new(next, target.clone(), start),
            target,
            step_size,
            length,
            wanted: self.energy_error,
            ends,
            errors: Vec::with_capacity(each),
            diverged: 0,
            warmup: plan.warmup,
            t: 0,
            key,
        }))
    }
    fn plan(&self, dim: usize, observer: &mut dyn Observer) -> Result<ChainPlan> {
        ChainPlan::new(&(&**self).into(), dim, observer)
    }
}

impl Method for Checked<Mclmc> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
    fn settings(&self) -> &Settings {
        self.settings()
    }
    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_chains(problem, &(&**self).into(), 48)
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        fit_by_sampling(self, self.start, self.precision, problem, key, observer)
    }
    fn sampler(&self) -> Option<&dyn Sampler> {
        Some(self)
    }
}
