//! Where chains begin: at draws of the prior, at dispersed modes (short MAP fits, each from initial values of its own), after annealing, or at
//! draws of a model that was fitted before.

use super::annealing;
use super::checkpoint::{Unit, once};
use super::feed::Feed;
use super::observer::{Flow, Observer, Progress};
use super::point::PointTrainer;
use super::train::StepPlan;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Target;
use crate::nn::Mode;
use crate::posterior::{Draw, Posterior};
use crate::problem::{Problem, not_streamed};
use crate::rng::{Key, Purpose};

crate::word_enum! {
    /// Where chains begin.
    pub enum Start {
        /// Near modes of their own, by short MAP fits.
        Modes = "modes",
        /// At draws of the prior.
        Prior = "prior",
        /// After annealing.
        Annealing = "annealing",
    }
}

/// Where chains begin.
macro_rules! start_field {
    ({ $($head:tt)* } $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// where chains begin: near modes of their own (short MAP fits), at draws of the prior, or after annealing
            start: Start = Start::Modes,
            $($rest)*
        }
    };
}
pub(super) use start_field;

/// Steps of a MAP fit to start from: near the typical set, short of the mode, where the noise is too small.
const MAP_STEPS: u64 = 300;
const MAP_RATE: f64 = 0.01;
/// Rows of its mini-batches.
const MAP_BATCH: usize = 1024;
/// Transitions of an annealing to start from.
const ANNEALING_STEPS: usize = 5000;

/// Where each chain begins.
pub(super) struct Starts<'p> {
    problem: &'p Problem,
    key: Key,
    /// By chain; empty where they are draws of the prior.
    found: Vec<Vec<f64>>,
}

impl<'p> Starts<'p> {
    pub(super) fn new(
        start: Start,
        problem: &'p Problem,
        chains: usize,
        key: Key,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let key = key.purpose(Purpose::Init);
        let mut starts = Starts { problem, key, found: Vec::new() };
        if let Some(fitted) = problem.start() {
            starts.found = of_model(fitted, chains, key);
            return Ok(starts);
        }
        for c in 0..chains {
            let unit = Unit::of(observer.checkpoint(), "start", key.derive(c as u64));
            match start {
                Start::Modes => starts.found.push(once(unit, || near_mode(problem, key.derive(c as u64), observer))?),
                Start::Annealing if problem.source().is_some() => return Err(not_streamed("annealing")),
                Start::Annealing => starts.found.push(once(unit, || starts.annealed(c))?),
                Start::Prior => {}
            }
        }
        if starts.found.iter().any(|w| w.len() != problem.dim()) {
            return Err(Error::setting("the starts of the chains are of another model", "begin the fit anew"));
        }
        Ok(starts)
    }

    /// Where chain c begins; later attempts are draws of the prior.
    pub(super) fn at(&self, chain: usize, attempt: usize) -> Vec<f64> {
        match self.found.get(chain) {
            Some(w) if attempt == 0 => w.clone(),
            _ => {
                let mut w = vec![0.0f32; self.problem.dim()];
                self.problem.prior().sample(self.key.derive(chain as u64).derive(1 + attempt as u64), &mut w);
                w.into_iter().map(f64::from).collect()
            }
        }
    }

    fn annealed(&self, chain: usize) -> Result<Vec<f64>> {
        let target = Target::new(Box::new(self.problem.density::<f64>(usize::MAX)));
        let key = self.key.derive(chain as u64).derive(0);
        annealing::highest(target, &self.at(chain, 0), ANNEALING_STEPS, key)
    }
}

/// Draws of a model that was fitted before, spread over all of it.
fn of_model(start: &dyn Posterior, chains: usize, key: Key) -> Vec<Vec<f64>> {
    let mut draw = Draw { w: vec![0.0; start.dim()], mode: Mode::Plain };
    let mut at = |c: usize| {
        start.draw_of_into(c, chains, key.derive(c as u64), &mut draw);
        draw.w.iter().map(|w| f64::from(*w)).collect()
    };
    (0..chains).map(&mut at).collect()
}

/// A short MAP fit.
fn near_mode(problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Vec<f64>> {
    let rows = problem.data().rows;
    let mut trainer = PointTrainer::new(problem, true, MAP_BATCH.min(rows), key);
    let mut batches = Feed::new(problem, MAP_BATCH, key.purpose(Purpose::Batches));
    for step in 0..MAP_STEPS {
        // Falls to 0, so that it does not end in the noise of the last mini-batch.
        let rate = MAP_RATE * (1.0 - step as f64 / MAP_STEPS as f64);
        trainer.step(batches.next()?, StepPlan { step, rate, beta: 1.0 });
        let progress = Progress { step: 0, steps: 1, epoch: 0, epochs: 1, objective: f64::NAN };
        if step.is_multiple_of(16) && observer.progress(&progress) == Flow::Stop {
            return Err(ErrorKind::Interrupted.into());
        }
    }
    Ok(trainer.point().iter().map(|w| f64::from(*w)).collect())
}
