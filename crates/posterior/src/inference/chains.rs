//! Chains in parallel: whoever is least advanced takes the next transitions, draws are kept on a budget of memory, faults are named.
//!
//! A chain depends on its own key alone, so that neither the threads nor the order in which they take turns change a bit. Each turn is a few
//! milliseconds of one chain; all chains come to their end together and every thread is busy until then. Memory: chains × kept draws × P numbers in f32.

use super::chain_options::ChainOptions;
use super::checkpoint::Unit;
use super::observer::{ChainProgress, Flow, Observer, Progress};
use crate::convergence::{Trace, r_hat};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Info;
use crate::posterior::{Chain, Chains};
use crate::snapshot::{State, Stateful};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One turn of a chain.
const TURN: Duration = Duration::from_millis(20);
/// Between two computations of R-hat.
const BETWEEN: Duration = Duration::from_millis(500);
/// Draws stand three times in memory while a model file is made of them.
const COPIES: usize = 3;
/// A step size, relative to the scale of the parameters, with which nothing is reached.
const COLLAPSED: f64 = 1e-7;

/// A chain in the making: it takes transition after transition, the warm-up's first.
pub trait Transition: Send {
    /// The next transition.
    fn next(&mut self) -> Result<Info>;
    /// Where the chain is.
    fn write(&self, w: &mut [f32]);
    /// The step size of the next transition.
    fn step_size(&self) -> f64;
    /// Whether the step size was found in warm-up, so that a tiny one is a fault.
    fn adapts_step_size(&self) -> bool {
        true
    }
    /// Evaluations of the density so far, and how many of them were not finite.
    fn evaluations(&self) -> (u64, u64);
    /// Its state, if that can be kept after the last transition, or if it is `resuming`. A chain without one begins anew after an interruption, with
    /// the same draws.
    fn stateful(&mut self, _resuming: bool) -> Option<&mut dyn Stateful> {
        None
    }
}

/// How many chains, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainPlan {
    /// Chains.
    pub chains: usize,
    /// Transitions that are thrown away.
    pub warmup: usize,
    /// Kept draws of each chain.
    pub draws: usize,
    /// Transitions per kept draw.
    pub thin: usize,
}

impl ChainPlan {
    /// For `dim` parameters; thinned to the budget of memory, which is told.
    pub fn new(options: &ChainOptions, dim: usize, observer: &mut dyn Observer) -> Result<ChainPlan> {
        let ChainOptions { chains, draws, warmup, thin, memory_mib } = *options;
        let (thinned, told) = ChainPlan { chains, warmup, draws, thin }.within(dim, memory_mib)?;
        told.iter().for_each(|t| observer.warn(t));
        Ok(thinned)
    }

    /// Thinned so that the draws stay within the budget, and a sentence about it where that was needed.
    pub fn within(self, dim: usize, memory_mib: usize) -> Result<(ChainPlan, Option<String>)> {
        let each = COPIES * std::mem::size_of::<f32>() * dim.max(1) * self.chains;
        let most = (memory_mib << 20) / each;
        if most >= self.draws {
            return Ok((self, None));
        }
        if most == 0 {
            return Err(Error::setting(
                format!("one draw of {} chains does not fit into memory_mib = {memory_mib}", self.chains),
                format!("set memory_mib to {} or more", each.div_ceil(1 << 20)),
            ));
        }
        let every = self.draws.div_ceil(most);
        let plan = ChainPlan { draws: self.draws / every, thin: self.thin * every, ..self };
        let told = format!(
            "{} draws of {} chains would take {} MiB of memory: one in {every} is kept, {} a chain (memory_mib = {memory_mib})",
            self.draws,
            self.chains,
            (each * self.draws).div_ceil(1 << 20),
            plan.draws
        );
        Ok((plan, Some(told)))
    }

    fn transitions(&self) -> usize {
        self.warmup + self.draws * self.thin
    }
}

/// A chain with what it has kept so far.
struct Job<'a> {
    number: usize,
    done: usize,
    sampler: Option<Box<dyn Transition + 'a>>,
    kept: Chain,
    accepted: u64,
    acceptance: f64,
    adapts: bool,
    /// Evaluations at the last kept draw.
    counted: u64,
    unit: Option<Unit>,
}

/// What the threads share.
struct Shared<'a, 'o> {
    waiting: Vec<Job<'a>>,
    finished: Vec<Job<'a>>,
    observer: &'o mut dyn Observer,
    done: u64,
    error: Option<Error>,
    stop: bool,
    /// The log densities of the kept draws by chain, R-hat of them, and when it was computed.
    seen: Vec<Vec<f64>>,
    r_hat: (f64, Instant),
}

/// Makes chain c. It is called on the thread that takes the chain's first turn.
pub type MakeChain<'m, 'a> = &'m (dyn Fn(usize) -> Result<Box<dyn Transition + 'a>> + Sync);

/// Runs the chains, each from where the checkpoint has it. Where the observer stops them, what was drawn is returned and marked incomplete.
pub fn run_chains<'a>(
    plan: ChainPlan,
    dim: usize,
    make: MakeChain<'_, 'a>,
    observer: &mut dyn Observer,
) -> Result<Chains> {
    let checkpoint = observer.checkpoint();
    let job = |number| Job {
        number,
        unit: checkpoint.as_ref().map(|c| c.unit(format!("chain-{number}"))),
        done: 0,
        sampler: None,
        kept: Chain { w: Vec::with_capacity(plan.draws * dim), thin: plan.thin, ..Chain::default() },
        accepted: 0,
        acceptance: 0.0,
        adapts: true,
        counted: 0,
    };
    let shared = Mutex::new(Shared {
        waiting: (0..plan.chains).map(job).collect(),
        finished: Vec::new(),
        observer,
        done: 0,
        error: None,
        stop: false,
        seen: vec![Vec::new(); plan.chains],
        r_hat: (f64::NAN, Instant::now()),
    });
    let workers = rayon::current_num_threads().clamp(1, plan.chains);
    rayon::scope(|scope| (0..workers).for_each(|_| scope.spawn(|_| work(plan, dim, make, &shared))));
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = shared.error {
        return Err(error);
    }
    let mut jobs: Vec<Job> = shared.finished.into_iter().chain(shared.waiting).collect();
    jobs.sort_by_key(|j| j.number);
    for job in jobs.iter_mut().filter(|j| j.done < plan.transitions()) {
        job.keep(plan, dim, true)?;
    }
    let incomplete = jobs.iter().any(|j| j.done < plan.transitions());
    if jobs.iter().all(|j| j.kept.draws() == 0) {
        return Err(ErrorKind::Interrupted.into());
    }
    let fault = fault(plan, &jobs);
    Ok(Chains { chains: jobs.into_iter().map(|j| j.kept).collect(), incomplete, fault })
}

fn lock<'s, 'a, 'o>(shared: &'s Mutex<Shared<'a, 'o>>) -> MutexGuard<'s, Shared<'a, 'o>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes turns until no chain waits.
fn work<'a>(plan: ChainPlan, dim: usize, make: MakeChain<'_, 'a>, shared: &Mutex<Shared<'a, '_>>) {
    loop {
        let mut job = {
            let mut shared = lock(shared);
            let least = shared.waiting.iter().enumerate().min_by_key(|(_, j)| (j.done, j.number)).map(|(i, _)| i);
            match least {
                Some(i) if !shared.stop => shared.waiting.swap_remove(i),
                _ => return,
            }
        };
        let before = job.done;
        let turn = job.turn(plan, dim, make).and_then(|()| job.keep(plan, dim, false));
        let mut shared = lock(shared);
        shared.done += (job.done - before) as u64;
        if let Err(error) = turn {
            shared.stop = true;
            shared.error.get_or_insert(error);
        } else {
            shared.tell(plan, &job);
        }
        if job.done < plan.transitions() {
            shared.waiting.push(job);
        } else {
            job.sampler = None; // its buffers
            shared.finished.push(job);
        }
    }
}

impl Shared<'_, '_> {
    fn tell(&mut self, plan: ChainPlan, job: &Job<'_>) {
        let steps = (plan.chains * plan.transitions()) as u64;
        let objective = job.kept.log_density.last().copied().unwrap_or(f64::NAN);
        let (epoch, epochs) = (job.done, plan.transitions());
        let seen = &mut self.seen[job.number];
        seen.extend_from_slice(&job.kept.log_density[seen.len()..]);
        // The last one is over all draws: it is the one a diagnosis finds.
        if self.r_hat.1.elapsed() > BETWEEN || self.done == steps {
            self.r_hat = (r_hat_so_far(&self.seen), Instant::now());
        }
        self.stop |= self.observer.chain(&ChainProgress {
            chain: job.number,
            chains: plan.chains,
            transitions: job.done,
            of: plan.transitions(),
            warmup: plan.warmup,
            draws: job.kept.draws(),
            step_size: job.sampler.as_ref().map_or(job.kept.step_size, |s| s.step_size()),
            divergences: job.kept.divergences,
            r_hat: self.r_hat.0,
        }) == Flow::Stop;
        let progress = Progress { step: self.done, steps, epoch, epochs, objective };
        self.stop |= self.observer.progress(&progress) == Flow::Stop;
    }
}

/// Over the draws that all chains have.
fn r_hat_so_far(seen: &[Vec<f64>]) -> f64 {
    let draws = seen.iter().map(Vec::len).min().unwrap_or(0);
    let trace = Trace::new(seen.iter().flat_map(|s| s[..draws].iter().copied()).collect(), seen.len());
    if trace.is_usable() { r_hat(&trace) } else { f64::NAN }
}

/// A chain and what it has kept, as one state: the chain's own is left out when it has come to its end.
struct Kept<'j, 'a> {
    job: &'j mut Job<'a>,
    plan: ChainPlan,
    dim: usize,
}

impl Stateful for Kept<'_, '_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        let (job, plan) = (&mut *self.job, self.plan);
        state.count("done", &mut job.done)?;
        state.count("accepted", &mut job.accepted)?;
        state.number("acceptance", &mut job.acceptance)?;
        state.count("counted", &mut job.counted)?;
        state.flag("adapts", &mut job.adapts)?;
        let kept = &mut job.kept;
        state.vector("log_density", &mut kept.log_density, plan.draws)?;
        let draws = kept.log_density.len();
        kept.w.resize(draws * self.dim, 0.0);
        state.array("w", &mut kept.w)?;
        state.vector("energy", &mut kept.energy, draws)?;
        let mut gradients: Vec<u64> = kept.gradients.iter().map(|g| u64::from(*g)).collect();
        gradients.resize(draws, 0);
        state.array("gradients", &mut gradients)?;
        kept.gradients = gradients.iter().map(|g| u32::try_from(*g).unwrap_or(u32::MAX)).collect();
        state.count("warmup_gradients", &mut kept.warmup_gradients)?;
        state.number("step_size", &mut kept.step_size)?;
        state.number("mean_acceptance", &mut kept.acceptance)?;
        state.count("divergences", &mut kept.divergences)?;
        state.count("not_finite", &mut kept.not_finite)?;
        if job.done > plan.transitions() || draws != job.done.saturating_sub(plan.warmup) / plan.thin {
            let what = format!("{draws} draws do not follow from {} transitions", job.done);
            return Err(Error::setting(what, "begin the fit anew"));
        }
        let resuming = state.resumes();
        match job.sampler.as_mut().and_then(|s| s.stateful(resuming)) {
            Some(sampler) if job.done < plan.transitions() => state.part("chain", sampler),
            _ => Ok(()),
        }
    }
}

impl<'a> Job<'a> {
    /// Makes the chain, where the checkpoint has it or at its start.
    fn begin(&mut self, plan: ChainPlan, dim: usize, make: MakeChain<'_, 'a>) -> Result<()> {
        self.sampler = Some(make(self.number)?);
        if let Some(unit) = self.unit.take() {
            unit.resume(&mut Kept { job: self, plan, dim })?;
            self.unit = Some(unit);
        }
        Ok(())
    }

    /// Hands in the state, if it is asked for, or if this is the end.
    fn keep(&mut self, plan: ChainPlan, dim: usize, always: bool) -> Result<()> {
        let finished = self.done == plan.transitions();
        let Some(mut unit) = self.unit.take() else { return Ok(()) };
        let can = finished || self.sampler.as_mut().is_some_and(|s| s.stateful(false).is_some());
        if can && (always || finished || unit.due()) {
            unit.keep(&mut Kept { job: self, plan, dim })?;
        }
        // A chain at its end is not asked again.
        self.unit = Some(unit).filter(|_| !finished);
        Ok(())
    }

    /// Transitions for the length of a turn.
    fn turn(&mut self, plan: ChainPlan, dim: usize, make: MakeChain<'_, 'a>) -> Result<()> {
        let started = Instant::now();
        if self.sampler.is_none() {
            self.begin(plan, dim, make)?;
        }
        let Some(sampler) = &mut self.sampler else { return Ok(()) };
        self.adapts = sampler.adapts_step_size();
        // A turn ends where the state is asked for and can be kept: some chains can be kept here and not later.
        let due = |unit: &Option<Unit>| unit.as_ref().is_some_and(Unit::due);
        let before = self.done;
        while self.done < plan.transitions()
            && started.elapsed() < TURN
            && (self.done == before || !due(&self.unit) || sampler.stateful(false).is_none())
        {
            let info = sampler.next()?;
            self.done += 1;
            let (evaluations, not_finite) = sampler.evaluations();
            self.kept.not_finite = not_finite;
            if self.done <= plan.warmup {
                (self.kept.warmup_gradients, self.counted) = (evaluations, evaluations);
                continue;
            }
            self.kept.divergences += u64::from(info.divergent);
            self.accepted += u64::from(info.accepted);
            self.acceptance += info.acceptance;
            let after = self.done - plan.warmup;
            self.kept.acceptance = self.acceptance / after as f64;
            self.kept.step_size = sampler.step_size();
            if after.is_multiple_of(plan.thin) {
                let from = self.kept.w.len();
                self.kept.w.resize(from + dim, 0.0);
                sampler.write(&mut self.kept.w[from..]);
                self.kept.log_density.push(info.log_density);
                if !info.energy.is_nan() {
                    self.kept.energy.push(info.energy);
                }
                self.kept.gradients.push(u32::try_from(evaluations - self.counted).unwrap_or(u32::MAX));
                self.counted = evaluations;
            }
        }
        Ok(())
    }
}

/// What makes the draws worthless, in one sentence.
fn fault(plan: ChainPlan, jobs: &[Job<'_>]) -> Option<String> {
    let after = |j: &Job<'_>| j.done.saturating_sub(plan.warmup) as u64;
    let of = |what: &dyn Fn(&&Job<'_>) -> bool| -> Vec<usize> {
        jobs.iter().filter(|j| after(j) > 0).filter(what).map(|j| j.number + 1).collect()
    };
    let named = |chains: &[usize]| {
        let list: Vec<String> = chains.iter().map(usize::to_string).collect();
        format!("{} {}", if list.len() == 1 { "chain" } else { "chains" }, list.join(", "))
    };
    let diverged = of(&|j| j.kept.divergences == after(j));
    if !diverged.is_empty() {
        return Some(format!(
            "every transition of {} diverged; raise target_accept, lengthen warmup, or rescale the data",
            named(&diverged)
        ));
    }
    let collapsed = of(&|j| j.adapts && j.kept.step_size < COLLAPSED);
    if !collapsed.is_empty() {
        return Some(format!(
            "the step size of {} collapsed to {:.1e}; look for extreme values in the data, or lengthen warmup",
            named(&collapsed),
            jobs[collapsed[0] - 1].kept.step_size
        ));
    }
    let stuck = of(&|j| j.accepted == 0);
    (!stuck.is_empty()).then(|| {
        format!("no move of {} was accepted, so that its draws are all the same; lengthen warmup", named(&stuck))
    })
}
