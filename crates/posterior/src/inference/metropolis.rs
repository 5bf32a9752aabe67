//! Random-walk Metropolis, its scale adapted in warm-up to an acceptance of 0.234, the spread of each parameter from windows of draws.
//!
//! ln s ← ln s + (a − 0.234)/(t + 1)^0.6. 0.234 is the best acceptance in many dimensions (Roberts, Gelman & Gilks 1997), where it needs
//! O(P) transitions per independent draw: for a handful of parameters. Cost: one density a transition.

use super::chain_options::{chain_fields, has_chains, memory_field};
use super::chains::{ChainPlan, Transition};
use super::observer::Observer;
use super::sample::{GradientPrecision, Sampler, fit_by_sampling};
use super::starts::{Start, start_field};
use super::{Fit, Method, MethodEntry};
use crate::error::{Error, Result};
use crate::kernel::adapt::{RunningMoments, Windows};
use crate::kernel::{Info, Metropolis, State, Target};
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::snapshot::{self, Stateful};

crate::options! {
    /// Random-walk Metropolis.
    pub struct RandomWalk: "metropolis" {
        ..chain_fields!(500, 5000, 20),
        ..start_field!,
        ..memory_field!,
    }
}
has_chains!(RandomWalk);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: RandomWalk::NAME,
    summary: "random-walk Metropolis: for a handful of parameters",
    gives: "draws of Markov chains",
    settings: RandomWalk::SETTINGS,
    build: |settings| Box::new(Checked::<RandomWalk>::from(settings)),
};

/// The acceptance the scale is adapted to.
const ACCEPTANCE: f64 = 0.234;

/// A chain and what it adapts.
struct MetropolisChain<'a> {
    target: Target<'a>,
    state: State,
    kernel: Metropolis,
    log_scale: f64,
    std: Vec<f64>,
    moments: RunningMoments,
    windows: Windows,
    warmup: usize,
    t: usize,
    key: Key,
}

impl Stateful for MetropolisChain<'_> {
    fn state(&mut self, state: &mut snapshot::State<'_>) -> Result<()> {
        state.part("target", &mut self.target)?;
        state.part("state", &mut self.state)?;
        state.number("log_scale", &mut self.log_scale)?;
        state.array("std", &mut self.std)?;
        state.part("moments", &mut self.moments)?;
        state.count("t", &mut self.t)
    }
}

impl Transition for MetropolisChain<'_> {
    fn next(&mut self) -> Result<Info> {
        let scale = self.log_scale.exp();
        let key = self.key.step(self.t as u64);
        let info = self.kernel.step(&mut self.state, &mut self.target, scale, &self.std, 1.0, key)?;
        if self.t < self.warmup {
            self.log_scale += (info.acceptance - ACCEPTANCE) / ((self.t + 1) as f64).powf(0.6);
            let (counts, ends) = self.windows.at(self.t);
            if counts {
                self.moments.add(&self.state.w);
            }
            if ends {
                self.rescale();
            }
        }
        self.t += 1;
        Ok(info)
    }
    fn write(&self, w: &mut [f32]) {
        w.iter_mut().zip(&self.state.w).for_each(|(to, from)| *to = *from as f32);
    }
    fn step_size(&self) -> f64 {
        self.log_scale.exp()
    }
    fn evaluations(&self) -> (u64, u64) {
        (self.target.evaluations, self.target.not_finite)
    }
    fn stateful(&mut self, _: bool) -> Option<&mut dyn Stateful> {
        Some(self)
    }
}

impl MetropolisChain<'_> {
    /// New spreads, and the scale that leaves a proposal as long as before.
    fn rescale(&mut self) {
        let log_mean = |std: &[f64]| std.iter().map(|s| s.ln()).sum::<f64>() / std.len() as f64;
        let before = log_mean(&self.std);
        for (i, std) in self.std.iter_mut().enumerate() {
            let new = self.moments.variance(i).sqrt();
            if new > 1e-20 && new < 1e20 {
                *std = new;
            }
        }
        self.log_scale += before - log_mean(&self.std);
        self.moments.clear();
    }
}

impl Sampler for Checked<RandomWalk> {
    fn chain<'a>(
        &self,
        mut target: Target<'a>,
        start: &[f64],
        plan: ChainPlan,
        key: Key,
    ) -> Result<Box<dyn Transition + 'a>> {
        let dim = start.len();
        let state = State::without_force(start, &mut target)?.ok_or_else(no_start)?;
        Ok(Box::new(MetropolisChain {
            target,
            state,
            kernel: Metropolis::new(dim),
            // The best scale on a standard normal.
            log_scale: (2.38 / (dim as f64).sqrt()).ln(),
            std: vec![1.0; dim],
            moments: RunningMoments::new(dim),
            windows: Windows::new(plan.warmup),
            warmup: plan.warmup,
            t: 0,
            key,
        }))
    }
    fn plan(&self, dim: usize, observer: &mut dyn Observer) -> Result<ChainPlan> {
        ChainPlan::new(&(&**self).into(), dim, observer)
    }
}

/// The density was finite when the start was chosen.
pub(super) fn no_start() -> Error {
    Error::numerical("the density is not finite at the start of a chain", "make it a function of the parameters alone")
}

impl Method for Checked<RandomWalk> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
    fn settings(&self) -> &Settings {
        self.settings()
    }
    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_chains(problem, &(&**self).into(), 20)
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        fit_by_sampling(self, self.start, GradientPrecision::F64, problem, key, observer)
    }
    fn sampler(&self) -> Option<&dyn Sampler> {
        Some(self)
    }
}
