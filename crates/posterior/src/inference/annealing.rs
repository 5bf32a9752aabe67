//! Simulated annealing: Metropolis on p^{1/T} while T falls, for modes and for warm starts.
//!
//! T falls geometrically from `temperature` to 1/100 over the steps; the scale of the proposals follows an acceptance of 0.234 all the way. A chain
//! keeps the highest point it has seen, so that a model holds one point per chain: modes, not draws of the posterior.
//! Reference: Kirkpatrick, Gelatt & Vecchi (1983), Science 220. Cost: one density a step.

use super::chain_options::ChainOptions;
use super::chains::{ChainPlan, Transition};
use super::metropolis::no_start;
use super::observer::Observer;
use super::sample::{GradientPrecision, Sampler, fit_by_sampling};
use super::starts::Start;
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::kernel::{Info, Metropolis, State, Target};
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::snapshot::{self, Stateful};

crate::word_enum! {
    /// Where chains of `annealing` begin.
    pub enum AnnealingStart {
        /// At draws of the prior.
        Prior = "prior",
        /// Near modes of their own, by short MAP fits.
        Modes = "modes",
    }
}

crate::options! {
    /// Simulated annealing.
    pub struct Annealing: "annealing" {
        /// independent chains, run in parallel
        chains: usize = 4 => Int(1, 1000),
        /// transitions of each chain, over which the temperature falls
        steps: usize = 20_000 => Int(1, 1_000_000_000),
        /// at the beginning; 1 is the posterior's own
        temperature: f64 = HOT => Above(0.0, 1e12),
        /// where chains begin
        start: AnnealingStart = AnnealingStart::Prior,
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Annealing::NAME,
    summary: "simulated annealing: a mode per chain, without gradients",
    gives: "one point per chain",
    settings: Annealing::SETTINGS,
    build: |settings| Box::new(Checked::<Annealing>::from(settings)),
};

/// The first temperature, where none is set.
const HOT: f64 = 100.0;
/// The last temperature.
const COLD: f64 = 0.01;
const ACCEPTANCE: f64 = 0.234;

struct AnnealingChain<'a> {
    target: Target<'a>,
    state: State,
    kernel: Metropolis,
    log_scale: f64,
    ones: Vec<f64>,
    best: (f64, Vec<f64>),
    moved: bool,
    temperature: f64,
    steps: usize,
    t: usize,
    key: Key,
}

impl Stateful for AnnealingChain<'_> {
    fn state(&mut self, state: &mut snapshot::State<'_>) -> Result<()> {
        state.part("target", &mut self.target)?;
        state.part("state", &mut self.state)?;
        state.number("log_scale", &mut self.log_scale)?;
        state.number("best_value", &mut self.best.0)?;
        state.array("best", &mut self.best.1)?;
        state.flag("moved", &mut self.moved)?;
        state.count("t", &mut self.t)
    }
}

impl Transition for AnnealingChain<'_> {
    fn next(&mut self) -> Result<Info> {
        let done = self.t as f64 / self.steps.max(1) as f64;
        let temperature = self.temperature * (COLD / self.temperature).powf(done.min(1.0));
        let (scale, key) = (self.log_scale.exp(), self.key.step(self.t as u64));
        let info = self.kernel.step(&mut self.state, &mut self.target, scale, &self.ones, temperature, key)?;
        // Does not settle: the temperature goes on falling.
        self.log_scale += (info.acceptance - ACCEPTANCE) / ((self.t + 1) as f64).powf(0.6).min(20.0);
        self.moved |= info.accepted;
        if self.state.value > self.best.0 {
            self.best.0 = self.state.value;
            self.best.1.copy_from_slice(&self.state.w);
        }
        self.t += 1;
        Ok(Info { log_density: self.best.0, accepted: self.moved, ..info })
    }
    fn write(&self, w: &mut [f32]) {
        w.iter_mut().zip(&self.best.1).for_each(|(to, from)| *to = *from as f32);
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

fn chain<'a>(
    mut target: Target<'a>,
    start: &[f64],
    steps: usize,
    temperature: f64,
    key: Key,
) -> Result<AnnealingChain<'a>> {
    let dim = start.len();
    let state = State::without_force(start, &mut target)?.ok_or_else(no_start)?;
    Ok(AnnealingChain {
        target,
        best: (state.value, start.to_vec()),
        state,
        kernel: Metropolis::new(dim),
        log_scale: (2.38 / (dim as f64).sqrt()).ln(),
        ones: vec![1.0; dim],
        moved: false,
        temperature,
        steps,
        t: 0,
        key,
    })
}

/// The highest point that an annealing of so many steps finds.
pub(super) fn highest(target: Target<'_>, start: &[f64], steps: usize, key: Key) -> Result<Vec<f64>> {
    let mut chain = chain(target, start, steps, HOT, key)?;
    for _ in 0..steps {
        chain.next()?;
    }
    Ok(chain.best.1)
}

impl Sampler for Checked<Annealing> {
    fn chain<'a>(
        &self,
        target: Target<'a>,
        start: &[f64],
        plan: ChainPlan,
        key: Key,
    ) -> Result<Box<dyn Transition + 'a>> {
        Ok(Box::new(chain(target, start, plan.warmup + 1, self.temperature, key)?))
    }
    fn plan(&self, _: usize, _: &mut dyn Observer) -> Result<ChainPlan> {
        Ok(ChainPlan { chains: self.chains, warmup: self.steps - 1, draws: 1, thin: 1 })
    }
}

impl Method for Checked<Annealing> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
    fn settings(&self) -> &Settings {
        self.settings()
    }
    fn bytes(&self, problem: &Problem) -> u128 {
        // One point of each chain is kept, which is no more than its state.
        let chains = ChainOptions { chains: self.chains, draws: 0, ..ChainOptions::default() };
        super::needs::by_chains(problem, &chains, 20)
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let start = match self.start {
            AnnealingStart::Prior => Start::Prior,
            AnnealingStart::Modes => Start::Modes,
        };
        fit_by_sampling(self, start, GradientPrecision::F64, problem, key, observer)
    }
    fn sampler(&self) -> Option<&dyn Sampler> {
        Some(self)
    }
}
