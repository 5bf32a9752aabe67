//! Chains of the stochastic-gradient samplers: mini-batches, the step size's course, what is explored and what is kept.
//!
//! Courses: `constant`; `polynomial`, η(1 + t/warmup)^−0.55 after warm-up (Welling & Teh 2011); `cyclical` (Zhang et al. 2020, ICLR): every cycle begins with as many
//! steps of exploring as the warm-up, with a rate that falls from 10η to η along a cosine, and its draws follow at η.
//! Warm-up itself explores in the same way, and the preconditioner learns while chains explore and at no other time.

use super::Fit;
use super::chains::{ChainPlan, Transition, run_chains};
use super::feed::Feed;
use super::observer::Observer;
use super::sample::fit_of_chains;
use super::sgld::Sgld;
use super::starts::Starts;
use crate::error::{Error, Result};
use crate::kernel::{Info, NoisyStep, Preconditioner, sghmc_step, sgld_step};
use crate::nn::Mode;
use crate::optim::GaussianPenalty;
use crate::prior::Prior;
use crate::problem::{Density, Problem, Rows};
use crate::rng::{Key, Purpose};
use crate::snapshot::{self, Stateful};
use std::time::Instant;

crate::word_enum! {
    /// How the step size of `sgld` and `sghmc` goes on after warm-up.
    pub enum ChainSchedule {
        /// As it is.
        Constant = "constant",
        /// Falling as a power of the steps.
        Polynomial = "polynomial",
        /// Constant, with times of exploring anew.
        Cyclical = "cyclical",
    }
}

crate::word_enum! {
    /// How steps of `sgld` and `sghmc` are scaled.
    pub enum Preconditioning {
        /// By the root mean square of every parameter's gradients in warm-up.
        Rms = "rms",
        /// Not at all.
        None = "none",
    }
}

/// Length of the chains and size of their steps.
macro_rules! stochastic_fields {
    ({ $($head:tt)* } $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// independent chains, run in parallel
            chains: usize = 4 => Int(1, 1000),
            /// draws that each chain keeps after its warm-up
            draws: usize = 100 => Int(1, 100_000_000),
            /// steps of each chain that explore and are thrown away, in which the preconditioner learns
            warmup: usize = 5000 => Int(0, 100_000_000),
            /// transitions from one kept draw to the next
            thin: usize = 100 => Int(1, 100_000_000),
            /// rows per step
            batch_size: usize = 128 => Int(1, i64::MAX),
            /// step size: with rms about the distance of a step, as Adam's; without, of the mean gradient of a row
            learning_rate: f64 = 0.001 => Above(0.0, 10.0),
            $($rest)*
        }
    };
}
pub(super) use stochastic_fields;

/// What follows the size of steps.
macro_rules! stochastic_course_fields {
    ({ $($head:tt)* } $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// how the step size goes on after warm-up
            schedule: ChainSchedule = ChainSchedule::Constant,
            /// with the cyclical schedule: how often a chain explores anew, each time as long as the warm-up
            cycles: usize = 4 => Int(1, 10_000),
            /// scale every parameter's step by the root mean square of its gradients in warm-up, or not
            preconditioner: Preconditioning = Preconditioning::Rms,
            ..start_field!,
            ..memory_field!,
            $($rest)*
        }
    };
}
pub(super) use stochastic_course_fields;

/// The rate at the beginning of exploring, as a multiple.
const EXPLORING: f64 = 10.0;
const POLYNOMIAL: f64 = 0.55;
/// What stands for the root of a precision where the prior is not normal: a standard deviation of 1.
const DAMPING: f64 = 1.0;

/// A step of SGLD or SGHMC on a problem: density, buffers, preconditioner.
pub struct StochasticTrainer<'p> {
    density: Density<'p, f32>,
    w: Vec<f32>,
    gradient: Vec<f32>,
    momentum: Vec<f32>,
    preconditioner: Preconditioner,
    penalties: Vec<GaussianPenalty>,
    other_prior: Option<Prior>,
    /// α of SGHMC; none for SGLD.
    friction: Option<f64>,
    /// What turns a learning rate into η.
    per_row: f64,
    alone: bool,
    key: Key,
}

impl<'p> StochasticTrainer<'p> {
    /// At w. `friction` makes it SGHMC, `rms` preconditions, `alone` keeps to the calling thread.
    pub fn new(
        problem: &'p Problem,
        w: Vec<f32>,
        batch_size: usize,
        friction: Option<f64>,
        rms: bool,
        alone: bool,
        key: Key,
    ) -> Self {
        let dim = problem.dim();
        StochasticTrainer {
            density: problem.density(batch_size).alone(alone),
            gradient: vec![0.0; dim],
            momentum: vec![0.0; if friction.is_some() { dim } else { 0 }],
            preconditioner: if rms { Preconditioner::rms(dim, DAMPING) } else { Preconditioner::none() },
            penalties: problem.penalties(),
            other_prior: problem.prior().without_normal(),
            friction,
            per_row: if rms { 1.0 } else { 1.0 / problem.data().rows as f64 },
            alone,
            key,
            w,
        }
    }

    /// Step number t at a learning rate; `noise` is the square root of the temperature. Returns the estimate of log p(D | w) before it. Allocates nothing.
    pub fn step(&mut self, rows: Rows<'_>, t: u64, learning_rate: f64, noise: f64) -> f64 {
        let value = self.density.log_likelihood(&self.w, rows, Mode::Plain, Some(&mut self.gradient));
        if let Some(prior) = &self.other_prior {
            prior.log_density(&self.w, 1.0, Some(&mut self.gradient));
        }
        let step = NoisyStep {
            gradient: &self.gradient,
            penalties: &self.penalties,
            rate: learning_rate * self.per_row,
            noise,
            key: self.key.step(t),
            alone: self.alone,
        };
        match self.friction {
            None => sgld_step(&mut self.w, &mut self.preconditioner, step),
            Some(friction) => {
                // A momentum carries a push on for 1/α steps: the rate of a step is that much less.
                let step = NoisyStep { rate: friction * step.rate, ..step };
                sghmc_step(&mut self.w, &mut self.momentum, &mut self.preconditioner, friction, step);
            }
        }
        value
    }

    /// Whether the preconditioner follows the gradients.
    pub fn learn(&mut self, learning: bool) {
        self.preconditioner.learn(learning);
    }

    /// Where it is now.
    pub fn point(&self) -> &[f32] {
        &self.w
    }
}

impl Stateful for StochasticTrainer<'_> {
    fn state(&mut self, state: &mut snapshot::State<'_>) -> Result<()> {
        state.array("w", &mut self.w)?;
        state.array("momentum", &mut self.momentum)?;
        state.part("preconditioner", &mut self.preconditioner)
    }
}

/// How the step size goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Course {
    Constant,
    Polynomial,
    /// Transitions of a cycle.
    Cyclical(usize),
}

struct StochasticChain<'p> {
    trainer: StochasticTrainer<'p>,
    batches: Feed<'p>,
    plan: ChainPlan,
    rate: f64,
    course: Course,
    /// Transitions, and steps: a cycle's exploring is part of its first transition.
    t: usize,
    steps: u64,
}

impl StochasticChain<'_> {
    fn step(&mut self, rate: f64) -> Result<f64> {
        let value = self.trainer.step(self.batches.next()?, self.steps, rate, 1.0);
        self.steps += 1;
        if value.is_finite() {
            return Ok(value);
        }
        Err(Error::numerical(
            format!("the log-likelihood became {value} at step {}", self.steps),
            "lower the learning rate (⟨set learning_rate=0.0001⟩) or look for extreme values in the data",
        ))
    }

    /// The rate of exploring when the part `done` of it is done.
    fn exploring(&self, done: f64) -> f64 {
        self.rate * (1.0 + (EXPLORING - 1.0) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos()))
    }

    fn explore(&mut self) -> Result<()> {
        self.trainer.learn(true);
        for i in 0..self.plan.warmup {
            let rate = self.exploring(i as f64 / self.plan.warmup as f64);
            self.step(rate)?;
        }
        self.trainer.learn(false);
        Ok(())
    }
}

impl Stateful for StochasticChain<'_> {
    fn state(&mut self, state: &mut snapshot::State<'_>) -> Result<()> {
        state.part("trainer", &mut self.trainer)?;
        state.count("t", &mut self.t)?;
        state.count("steps", &mut self.steps)?;
        if state.resumes() {
            self.batches.seek(self.steps);
        }
        Ok(())
    }
}

impl Transition for StochasticChain<'_> {
    fn next(&mut self) -> Result<Info> {
        let value = if self.t < self.plan.warmup {
            self.trainer.learn(true);
            let done = self.t as f64 / self.plan.warmup as f64;
            self.step(self.exploring(done))?
        } else {
            self.trainer.learn(false);
            let after = self.t - self.plan.warmup;
            if let Course::Cyclical(length) = self.course
                && after > 0
                && after.is_multiple_of(length)
            {
                self.explore()?;
            }
            let rate = match self.course {
                Course::Polynomial => {
                    self.rate * (1.0 + after as f64 / self.plan.warmup.max(1) as f64).powf(-POLYNOMIAL)
                }
                _ => self.rate,
            };
            self.step(rate)?
        };
        self.t += 1;
        let kept = self.t > self.plan.warmup && (self.t - self.plan.warmup).is_multiple_of(self.plan.thin);
        let prior = || self.trainer.density.problem().prior().log_density(&self.trainer.w, 1.0, None);
        let log_density = if kept { value + prior() } else { value };
        Ok(Info { accepted: true, acceptance: 1.0, divergent: false, energy: f64::NAN, log_density })
    }
    fn write(&self, w: &mut [f32]) {
        w.copy_from_slice(self.trainer.point());
    }
    fn step_size(&self) -> f64 {
        self.rate
    }
    fn adapts_step_size(&self) -> bool {
        false
    }
    fn evaluations(&self) -> (u64, u64) {
        (self.steps, 0)
    }
    fn stateful(&mut self, _: bool) -> Option<&mut dyn Stateful> {
        Some(self)
    }
}

/// Samples the posterior of a problem by noisy gradient steps.
pub(super) fn fit_stochastic(
    options: &Sgld,
    friction: Option<f64>,
    problem: &Problem,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Fit> {
    let started = Instant::now();
    let plan = ChainPlan::new(&options.into(), problem.dim(), observer)?;
    let starts = Starts::new(options.start, problem, plan.chains, key, observer)?;
    let alone = plan.chains >= rayon::current_num_threads();
    let batch_size = options.batch_size;
    let course = match options.schedule {
        ChainSchedule::Polynomial => Course::Polynomial,
        ChainSchedule::Cyclical => Course::Cyclical((plan.draws * plan.thin).div_ceil(options.cycles)),
        ChainSchedule::Constant => Course::Constant,
    };
    let key = key.purpose(Purpose::Chain);
    let make = |c: usize| -> Result<Box<dyn Transition + '_>> {
        let key = key.derive(c as u64);
        let w: Vec<f32> = starts.at(c, 0).into_iter().map(|w| w as f32).collect();
        let rms = options.preconditioner == Preconditioning::Rms;
        Ok(Box::new(StochasticChain {
            trainer: StochasticTrainer::new(
                problem,
                w,
                batch_size,
                friction,
                rms,
                alone,
                key.purpose(Purpose::Weights),
            ),
            batches: Feed::new(problem, batch_size, key.purpose(Purpose::Batches)),
            plan,
            rate: options.learning_rate,
            course,
            t: 0,
            steps: 0,
        }))
    };
    let chains = run_chains(plan, problem.dim(), &make, observer)?;
    Ok(fit_of_chains(chains, plan, problem.dim(), started))
}
