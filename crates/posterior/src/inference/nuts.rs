//! The no-U-turn sampler, by the crate `nuts-rs`: step size by dual averaging, mass diagonal or diagonal plus low rank, from
//! draws and gradients of the warm-up.
//!
//! References: Hoffman & Gelman (2014), JMLR 15; Betancourt (2017); Seyboldt, Carlson & Carpenter (2026) on the mass. Cost: up to 2^`max_depth` − 1 gradients a
//! transition.

use super::chain_options::{chain_fields, has_chains, memory_field};
use super::chains::{ChainPlan, Transition};
use super::hmc::accept_field;
use super::nuts_chain::{Next, NutsRsChain, SEGMENT, SharedTarget, Told, failed, math};
use super::observer::Observer;
use super::sample::{GradientPrecision, Sampler, fit_by_sampling, precision_field};
use super::starts::{Start, start_field};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::kernel::{Info, Target};
use crate::problem::Problem;
use crate::rng::{Key, Stream};
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::snapshot::{State, Stateful};
use nuts_rs::{Chain, DiagNutsSettings, LowRankNutsSettings, Settings as _, StepSizeAdaptMethod};
use std::sync::{Arc, Mutex};

crate::word_enum! {
    /// What NUTS learns of the posterior's scales.
    pub enum MassMatrix {
        /// A scale for every parameter.
        Diagonal = "diagonal",
        /// The strongest correlations of the warm-up beside.
        LowRank = "low-rank",
    }
}

crate::options! {
    /// The no-U-turn sampler.
    pub struct Nuts: "nuts" {
        ..chain_fields!(500, 500, 1),
        ..accept_field!,
        /// doublings of a path at the most
        max_depth: usize = 10 => Int(1, 20),
        /// diagonal, or with the strongest correlations of the warm-up beside
        mass: MassMatrix = MassMatrix::Diagonal,
        ..precision_field!(GradientPrecision::F64),
        ..start_field!,
        ..memory_field!,
    }
}
has_chains!(Nuts);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Nuts::NAME,
    summary: "no-U-turn sampler: the exact posterior, given time",
    gives: "draws of Markov chains",
    settings: Nuts::SETTINGS,
    build: |settings| Box::new(Checked::<Nuts>::from(settings)),
};

macro_rules! chain_of {
    ($settings:expr, $target:expr, $start:expr, $given:expr, $key:expr, |$stats:ident| $scales:expr) => {{
        let settings = $settings;
        let mut rng = Stream::new($key);
        let mut chain = settings.new_chain(0, math($target, $start.len(), $given), &mut rng).map_err(failed)?;
        chain.set_position($start).map_err(failed)?;
        Box::new(move || {
            let (w, _, $stats, progress) = chain.expanded_draw().map_err(failed)?;
            let info = Info {
                accepted: $stats.point.index_in_trajectory != 0,
                acceptance: $stats.adapt.step_size.mean_tree_accept,
                divergent: progress.diverging,
                energy: $stats.point.energy,
                log_density: $stats.point.logp,
            };
            let energy_error = $stats.point.energy_error;
            Ok(Told { w, info, step_size: progress.step_size, energy_error, scales: $scales })
        })
    }};
}

/// Transitions of NUTS from a start, the first `tune` of which adapt.
pub(super) fn nuts_from<'a>(
    target: &SharedTarget<'a>,
    start: &[f64],
    tune: usize,
    max_depth: usize,
    target_accept: f64,
    low_rank: bool,
    key: Key,
) -> Result<Next<'a>> {
    macro_rules! settings {
        ($kind:ty) => {{
            let mut settings = <$kind>::default();
            (settings.num_tune, settings.maxdepth) = (tune as u64, max_depth as u64);
            settings.adapt_options.step_size_settings.target_accept = target_accept;
            settings
        }};
    }
    Ok(if low_rank {
        chain_of!(settings!(LowRankNutsSettings), target, start, None, key, |stats| None)
    } else {
        let mut settings = settings!(DiagNutsSettings);
        settings.adapt_options.mass_matrix_options.store_mass_matrix = true;
        chain_of!(settings, target, start, None, key, |stats| stats.hamiltonian.transformation.mass_matrix_inv)
    })
}

/// Transitions of NUTS from a start with this step size and these scales.
fn segment_from<'a>(
    target: &SharedTarget<'a>,
    start: &[f64],
    max_depth: usize,
    step_size: f64,
    scales: &[f64],
    key: Key,
) -> Result<Next<'a>> {
    let mut settings = DiagNutsSettings { num_tune: 0, maxdepth: max_depth as u64, ..DiagNutsSettings::default() };
    settings.adapt_options.step_size_settings.adapt_options.method = StepSizeAdaptMethod::Fixed(step_size);
    Ok(chain_of!(settings, target, start, Some(scales), key, |stats| None))
}

/// A chain of `nuts-rs`, and after warm-up another one for every segment.
struct NutsChain<'a> {
    chain: NutsRsChain<'a>,
    target: SharedTarget<'a>,
    max_depth: usize,
    warmup: usize,
    t: usize,
    key: Key,
}

impl Transition for NutsChain<'_> {
    fn next(&mut self) -> Result<Info> {
        if let Some(scales) = self.chain.segment(self.t, self.warmup) {
            let key = self.key.derive((1 + (self.t - self.warmup) / SEGMENT) as u64);
            let (start, step_size) = (self.chain.position(), self.chain.told_step_size());
            let next = segment_from(&self.target, start, self.max_depth, step_size, scales, key)?;
            self.chain.replace(next);
        }
        let told = self.chain.advance()?;
        self.t += 1;
        Ok(told.info)
    }
    fn write(&self, w: &mut [f32]) {
        self.chain.write(w);
    }
    fn step_size(&self) -> f64 {
        self.chain.told_step_size()
    }
    fn evaluations(&self) -> (u64, u64) {
        self.chain.evaluations()
    }
    fn stateful(&mut self, resuming: bool) -> Option<&mut dyn Stateful> {
        (resuming || self.chain.segment(self.t, self.warmup).is_some()).then_some(self)
    }
}

impl Stateful for NutsChain<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.part("chain", &mut self.chain)?;
        state.count("t", &mut self.t)
    }
}

impl Sampler for Checked<Nuts> {
    fn chain<'a>(
        &self,
        target: Target<'a>,
        start: &[f64],
        plan: ChainPlan,
        key: Key,
    ) -> Result<Box<dyn Transition + 'a>> {
        let (depth, accept) = (self.max_depth, self.target_accept);
        let low_rank = self.mass == MassMatrix::LowRank;
        let target = Arc::new(Mutex::new(target));
        let next = nuts_from(&target, start, plan.warmup, depth, accept, low_rank, key)?;
        let chain = NutsRsChain::new(next, target.clone(), start);
        Ok(Box::new(NutsChain { chain, target, max_depth: depth, warmup: plan.warmup, t: 0, key }))
    }
    fn plan(&self, dim: usize, observer: &mut dyn Observer) -> Result<ChainPlan> {
        ChainPlan::new(&(&**self).into(), dim, observer)
    }
}

impl Method for Checked<Nuts> {
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
