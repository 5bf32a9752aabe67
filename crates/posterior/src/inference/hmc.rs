//! Hamiltonian Monte Carlo: dual averaging of the step size, a diagonal mass from windows of the warm-up, and a path length that is
//! measured there and drawn anew for every transition.
//!
//! The time τ after which a path first turns back towards its start, (w − w₀)·p < 0, is measured in warm-up (Wu, Stoehr & Robert 2018); a transition then goes
//! u·`path`·τ far, u ~ U(0, 1): a fixed length could be a period of the motion, after which a chain is back where it was (Neal 2011). NUTS finds the
//! turning point of every single path, at about twice the gradients. With `precision` f32 the paths are computed in f32 and
//! accepted in f64: the draws are as exact, at half the time. Cost: about `path`·τ/2ε gradients a transition.
//!
//! A network's posterior has modes of little weight that a chain falls into when the data come upon it at once, and leaves after hundreds of
//! transitions. With `start` tempered the chain moves on p(w) p(D|w)^β instead, β = (t/T)² over the first part of the warm-up: nearer to equilibrium on
//! the way, it ends in such a mode less often (Kirkpatrick, Gelatt & Vecchi 1983; Neal 2001), and these transitions are the cheaper ones.

use super::chain_options::{chain_fields, has_chains, memory_field};
use super::chains::{ChainPlan, Transition};
use super::metropolis::no_start;
use super::observer::Observer;
use super::sample::{GradientPrecision, Sampler, fit_by_sampling, precision_field};
use super::starts::Start;
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::kernel::adapt::{DualAveraging, Scales, Windows};
use crate::kernel::{Hmc as Kernel, Info, Move, State, Target};
use crate::problem::Problem;
use crate::rng::{Key, Stream};
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::snapshot::{self, Stateful};

crate::word_enum! {
    /// Where chains of `hmc` begin.
    pub enum TemperedStart {
        /// At draws of the prior, the data being brought in over three fifths of the warm-up.
        Tempered = "tempered",
        /// At draws of the prior.
        Prior = "prior",
        /// Near modes of their own, by short MAP fits.
        Modes = "modes",
        /// After annealing.
        Annealing = "annealing",
    }
}

impl From<TemperedStart> for Start {
    fn from(start: TemperedStart) -> Start {
        match start {
            TemperedStart::Tempered | TemperedStart::Prior => Start::Prior,
            TemperedStart::Modes => Start::Modes,
            TemperedStart::Annealing => Start::Annealing,
        }
    }
}

/// What a step size is adapted to.
macro_rules! accept_field {
    ({ $($head:tt)* } $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// the mean acceptance that the step size is adapted to; higher means smaller steps
            target_accept: f64 = 0.8 => Float(0.1, 0.999),
            $($rest)*
        }
    };
}
#[cfg(feature = "nuts")]
pub(super) use accept_field;

crate::options! {
    /// Hamiltonian Monte Carlo.
    pub struct Hmc: "hmc" {
        ..chain_fields!(1000, 1000, 1),
        // Not less than 0.8: at 0.7 a chain was seen to stay at a narrow place for good, accepting one move in a thousand.
        ..accept_field!,
        /// the longest path, in units of the time after which paths turn back
        path: f64 = 1.0 => Above(0.0, 100.0),
        /// leapfrog steps of a path on average; 0 means as far as paths go before they turn back
        steps: usize = 0 => Int(0, 100_000),
        /// leapfrog steps of a path at the most
        max_steps: usize = 1000 => Int(1, 100_000),
        ..precision_field!(GradientPrecision::F32),
        /// where chains begin: at draws of the prior, the data being brought in over three fifths of the warm-up (tempered) or at once (prior); near modes of their own (short MAP fits); or after annealing
        start: TemperedStart = TemperedStart::Tempered,
        ..memory_field!,
    }
}
has_chains!(Hmc);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Hmc::NAME,
    summary: "Hamiltonian Monte Carlo: the exact posterior, given time; the sampler to take for small networks",
    gives: "draws of Markov chains",
    settings: Hmc::SETTINGS,
    build: |settings| Box::new(Checked::<Hmc>::from(settings)),
};

/// Measurements of the turning time that are kept.
const MEASURED: usize = 16;
/// So many of them, and only every third path is measured.
const ENOUGH: usize = 4;
/// Steps a measurement may take before the density and its scales are worth measuring.
const EARLY_STEPS: u32 = 200;

/// A chain and what it adapts.
struct HmcChain<'a> {
    target: Target<'a>,
    state: State,
    kernel: Kernel,
    variance: Vec<f64>,
    scales: Scales,
    windows: Windows,
    dual: DualAveraging,
    target_accept: f64,
    step_size: f64,
    /// The last turning times.
    turning: Vec<f64>,
    path: f64,
    steps: u32,
    max_steps: u32,
    warmup: usize,
    /// Transitions over which the data are brought in.
    tempered: usize,
    t: usize,
    key: Key,
}

/// β of transition t of `tempered`; 1 after them.
fn share_of_data(t: usize, tempered: usize) -> f64 {
    ((t + 1).min(tempered + 1) as f64 / (tempered + 1) as f64).powi(2)
}

impl HmcChain<'_> {
    /// Brings in some more of the data, which changes the value and the force of where the chain is.
    fn temper(&mut self) -> Result<()> {
        self.target.temper(share_of_data(self.t, self.tempered));
        self.state = State::new(&self.state.w, &mut self.target)?.ok_or_else(no_start)?;
        Ok(())
    }

    /// Doubles or halves the step size until one step is accepted with a chance of about 0.8.
    fn find_step_size(&mut self, key: Key) -> Result<()> {
        let mut epsilon = self.step_size.clamp(1e-6, 10.0);
        let mut last = None;
        for i in 0..40 {
            let how = Move { epsilon, steps: 1, variance: &self.variance, look: 0 };
            let up = self.kernel.probe(&self.state, &mut self.target, how, key.step(i))? > 0.8;
            if last.is_some_and(|l| l != up) {
                break;
            }
            last = Some(up);
            epsilon *= if up { 2.0 } else { 0.5 };
        }
        self.step_size = epsilon;
        self.dual = DualAveraging::new(epsilon, self.target_accept);
        Ok(())
    }

    /// The time after which paths turn back: the middle of what was measured.
    fn turning_time(&self) -> Option<f64> {
        let mut times = self.turning.clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    }

    /// Leapfrog steps of the next path.
    fn path_steps(&self, u: f64) -> u32 {
        let mean = match (self.steps, self.turning_time()) {
            (0, Some(time)) => 0.5 * self.path * time / self.step_size,
            (0, None) => 10.0,
            (steps, _) => f64::from(steps),
        };
        ((2.0 * u * mean).ceil() as u32).clamp(1, self.max_steps)
    }

    /// How far to follow a path to see it turn.
    fn look(&self) -> u32 {
        let known = self.turning.len() >= ENOUGH && !self.t.is_multiple_of(3);
        if self.t >= self.warmup || self.steps > 0 || known {
            0
        } else if self.t < self.tempered.max(self.warmup / 5) {
            self.max_steps.min(EARLY_STEPS)
        } else {
            self.max_steps
        }
    }

    fn adapt(&mut self, info: &Info, turned: Option<u32>) -> Result<()> {
        if let Some(steps) = turned {
            if self.turning.len() == MEASURED {
                self.turning.remove(0);
            }
            self.turning.push(f64::from(steps) * self.step_size);
        }
        self.dual.update(info.acceptance);
        self.step_size = self.dual.step_size();
        let (counts, ends) = self.windows.at(self.t);
        if counts {
            self.scales.add(&self.state.w, &self.state.force);
        }
        // What follows is of the posterior itself.
        if ends || self.t + 1 == self.tempered {
            self.scales.close(&mut self.variance);
            // Times are in units of the scales: those measured with the old ones say nothing any more.
            self.turning.clear();
            self.step_size = self.dual.averaged();
            self.find_step_size(self.key.step(self.t as u64).derive(3))?;
        }
        if self.t + 1 == self.warmup {
            self.step_size = self.dual.averaged();
        }
        Ok(())
    }
}

impl Stateful for HmcChain<'_> {
    fn state(&mut self, state: &mut snapshot::State<'_>) -> Result<()> {
        state.part("target", &mut self.target)?;
        state.part("state", &mut self.state)?;
        state.array("variance", &mut self.variance)?;
        state.part("scales", &mut self.scales)?;
        state.part("dual", &mut self.dual)?;
        state.number("step_size", &mut self.step_size)?;
        state.vector("turning", &mut self.turning, MEASURED)?;
        state.count("t", &mut self.t)?;
        if state.resumes() && self.tempered > 0 {
            self.target.temper(share_of_data(self.t, self.tempered));
        }
        Ok(())
    }
}

impl Transition for HmcChain<'_> {
    fn next(&mut self) -> Result<Info> {
        if self.tempered > 0 && self.t <= self.tempered {
            self.temper()?;
        }
        let key = self.key.step(self.t as u64);
        let steps = self.path_steps(Stream::new(key.derive(2)).uniform());
        let how = Move { epsilon: self.step_size, steps, variance: &self.variance, look: self.look() };
        let (info, turned) = self.kernel.step(&mut self.state, &mut self.target, how, key)?;
        if self.t < self.warmup {
            self.adapt(&info, turned)?;
        }
        self.t += 1;
        Ok(info)
    }
    fn write(&self, w: &mut [f32]) {
        w.iter_mut().zip(&self.state.w).for_each(|(to, from)| *to = *from as f32);
    }
    fn step_size(&self) -> f64 {
        self.step_size
    }
    fn evaluations(&self) -> (u64, u64) {
        (self.target.evaluations, self.target.not_finite)
    }
    fn stateful(&mut self, _: bool) -> Option<&mut dyn Stateful> {
        Some(self)
    }
}

impl Sampler for Checked<Hmc> {
    fn chain<'a>(
        &self,
        mut target: Target<'a>,
        start: &[f64],
        plan: ChainPlan,
        key: Key,
    ) -> Result<Box<dyn Transition + 'a>> {
        let dim = start.len();
        let wanted = if self.start == TemperedStart::Tempered { plan.warmup * 3 / 5 } else { 0 };
        let tempered = if wanted > 0 && target.temper(share_of_data(0, wanted)) { wanted } else { 0 };
        let state = State::new(start, &mut target)?.ok_or_else(no_start)?;
        let target_accept = self.target_accept;
        let mut chain = HmcChain {
            target,
            state,
            kernel: Kernel::new(dim),
            variance: vec![1.0; dim],
            scales: Scales::new(dim),
            windows: Windows::new(plan.warmup),
            dual: DualAveraging::new(0.1, target_accept),
            target_accept,
            step_size: 0.1,
            turning: Vec::with_capacity(MEASURED),
            path: self.path,
            steps: self.steps as u32,
            max_steps: self.max_steps as u32,
            warmup: plan.warmup,
            tempered,
            t: 0,
            key,
        };
        chain.find_step_size(key.derive(u64::MAX))?;
        Ok(Box::new(chain))
    }
    fn accepts_by_value(&self) -> bool {
        true
    }
    fn plan(&self, dim: usize, observer: &mut dyn Observer) -> Result<ChainPlan> {
        ChainPlan::new(&(&**self).into(), dim, observer)
    }
}

impl Method for Checked<Hmc> {
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
        fit_by_sampling(self, self.start.into(), self.precision, problem, key, observer)
    }
    fn sampler(&self) -> Option<&dyn Sampler> {
        Some(self)
    }
}
