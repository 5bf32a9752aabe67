//! The loop that all stochastic-gradient methods share: epochs, mini-batches, learning rate, β, early stopping, records.

use super::checkpoint::Unit;
use super::course::{Course, Training};
use super::feed::{Feed, gather};
use super::observer::{Flow, Observer, Progress};
use crate::data::Batch;
use crate::error::{Error, ErrorKind, Result};
use crate::optim::{Decay, Schedule};
use crate::problem::{Problem, Rows};
use crate::rng::{Key, Purpose};
use crate::snapshot::Stateful;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The fields of [`TrainingOptions`].
macro_rules! training_fields {
    ({ $($head:tt)* } $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// passes over the data; 0 means as many as give about 10000 steps, but at least 10
            epochs: usize = 0 => Int(0, 1_000_000),
            /// rows per step
            batch_size: usize = 128 => Int(1, i64::MAX),
            /// step size of Adam at its highest
            learning_rate: f64 = 0.005 => Above(0.0, 10.0),
            /// how the learning rate falls: to 1 % along a cosine, to 1 % exponentially, or not at all
            schedule: Decay = Decay::Cosine,
            /// fraction of the steps over which the learning rate first rises from 0
            warmup: f64 = 0.0 => Float(0.0, 0.9),
            /// stop when the objective (mean of 5 epochs) has not risen for so many epochs; the best is returned; 0 means never
            patience: usize = 0 => Int(0, 1_000_000),
            $($rest)*
        }
    };
}
pub(super) use training_fields;

/// Options that have a part [`TrainingOptions`].
macro_rules! has_training {
    ($options:ty) => {
        impl From<&$options> for $crate::inference::train::TrainingOptions {
            fn from(o: &$options) -> Self {
                $crate::inference::train::TrainingOptions {
                    epochs: o.epochs,
                    batch_size: o.batch_size,
                    learning_rate: o.learning_rate,
                    schedule: o.schedule,
                    warmup: o.warmup,
                    patience: o.patience,
                }
            }
        }
    };
}
pub(super) use has_training;

crate::options! {
    /// Training by gradient steps on mini-batches: options that many methods share.
    pub struct TrainingOptions {
        ..training_fields!,
    }
}

/// Steps an automatic number of epochs aims at.
const STEPS: usize = 10_000;
/// Epochs whose mean decides whether the objective has risen: single ones are too noisy.
const SMOOTHED: usize = 5;

/// Epochs of a long fit that are kept, about.
const KEPT: usize = 200;

/// One epoch of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// From 1.
    pub epoch: usize,
    /// Log-likelihood of all rows minus β times the penalty. Like the parts it is made of, it is about targets as the
    /// network sees them: for real ones that is in standard deviations, N·ln(std) away from the user's units.
    pub objective: f64,
    /// −log p(D | w), expected under q where there is one; mean over the epoch's steps.
    pub nll: f64,
    /// KL[q ‖ p], mean over the epoch's steps; or −log p(w) at the epoch's end for MAP; or 0 for maximum likelihood.
    pub penalty: f64,
    /// What the penalty was multiplied by.
    pub beta: f64,
}

/// How a fit went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FitSummary {
    /// Steps taken.
    pub steps: u64,
    /// Seconds by the clock.
    pub seconds: f64,
    /// Whether it stopped before the last epoch.
    pub stopped_early: bool,
    /// What `penalty` is in the records: `KL`, `-log prior`, or empty.
    pub penalty_name: String,
    /// Epochs run.
    pub epochs: usize,
    /// Epoch by epoch; of a long fit, some two hundred of them, evenly, and the last.
    pub trace: Vec<EpochRecord>,
}

/// Where a step is in the fit.
#[derive(Debug, Clone, Copy)]
pub struct StepPlan {
    /// Number of the step, from 0.
    pub step: u64,
    /// Learning rate.
    pub rate: f64,
    /// Weight of the penalty.
    pub beta: f64,
}

/// The state of a fit by steps: it can be driven by hand, stopped after any step and resumed with the same bits.
///
/// A step allocates nothing. [`Stateful::snapshot`] and [`Stateful::resume`] keep the state and come back to it; the step number of the plan is
/// the state of the random numbers.
pub trait Stepper: Stateful {
    /// A word for what is fitted; of two trainings of one fit with the same key, it differs.
    fn kind(&self) -> &'static str;
    /// Takes a step on some rows; returns the estimate of log p(D | w) there.
    fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64;
    /// The penalty where the state is now.
    fn penalty(&mut self) -> f64;
    /// What the penalty is called.
    fn penalty_name(&self) -> &'static str;
    /// Remembers where the state is now.
    fn keep(&mut self);
    /// Goes back to what was kept.
    fn restore(&mut self);
    /// Whether every parameter is a finite number.
    fn is_finite(&self) -> bool;
    /// The rows of a step, where it does not take those of the loop: asked for before the step where rows are not in memory.
    fn own_rows(&mut self, _step: u64) -> Option<Vec<u32>> {
        None
    }
    /// Whether all parameters may move: before that, patience does not run out.
    fn is_free(&self) -> bool {
        true
    }
}

/// β at a step: rises linearly from 0 over the first `warmup` part of the steps.
pub(super) struct Tempering {
    pub beta: f64,
    pub warmup: f64,
}

impl Tempering {
    fn at(&self, step: u64, steps: u64) -> f64 {
        let rising = self.warmup * steps as f64;
        self.beta * if rising > 0.0 { ((step + 1) as f64 / rising).min(1.0) } else { 1.0 }
    }
}

fn diverged(what: &str, value: f64, step: u64) -> Error {
    Error::numerical(
        format!("the {what} became {value} at step {step}"),
        "lower the learning rate (⟨set learning_rate=0.0005⟩) or look for extreme values in the data",
    )
}

/// How many epochs the options ask for.
pub(super) fn epochs(problem: &Problem, training: &TrainingOptions) -> usize {
    let per_epoch = problem.data().rows.div_ceil(training.batch_size.max(1)).max(1);
    match training.epochs {
        0 => STEPS.div_ceil(per_epoch).max(10),
        n => n,
    }
}

/// Runs the epochs. What the checkpoint has of this training is not done again.
pub(super) fn train(
    stepper: &mut dyn Stepper,
    problem: &Problem,
    training: &TrainingOptions,
    tempering: &Tempering,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<FitSummary> {
    let started = Instant::now();
    let mut read = Batch::default();
    let mut batches = Feed::new(problem, training.batch_size, key.purpose(Purpose::Batches));
    let per_epoch = batches.per_epoch();
    let epochs = epochs(problem, training);
    let patience = training.patience;
    let steps = (epochs * per_epoch) as u64;
    let schedule = Schedule::new(training.learning_rate, training.schedule, training.warmup, steps);
    let mut at = Course::new(stepper.penalty_name(), epochs);
    let mut unit = Unit::of(observer.checkpoint(), stepper.kind(), key);
    if let Some(unit) = &unit
        && unit.resume(&mut Training { course: &mut at, stepper: &mut *stepper })?
    {
        at.check(per_epoch, epochs)?;
        batches.seek(at.summary.steps);
    }
    let before = at.summary.seconds;
    let mut keep = |at: &mut Course, stepper: &mut dyn Stepper, always: bool| match &mut unit {
        Some(unit) if always || unit.due() => {
            at.summary.seconds = before + started.elapsed().as_secs_f64();
            unit.keep(&mut Training { course: at, stepper })
        }
        _ => Ok(()),
    };
    while !at.finished && !at.summary.stopped_early && at.summary.trace.len() < epochs {
        let epoch = at.summary.trace.len();
        while at.in_epoch < per_epoch {
            let step = at.summary.steps;
            let beta = tempering.at(step, steps);
            let plan = StepPlan { step, rate: schedule.rate(step), beta };
            let own = problem.source().and_then(|_| stepper.own_rows(step));
            let value = match own {
                Some(own) => stepper.step(gather(problem, &own, &mut read)?, plan),
                None => stepper.step(batches.next()?, plan),
            };
            if !value.is_finite() {
                return Err(diverged("log-likelihood", value, step + 1));
            }
            at.sum += value;
            at.summary.steps += 1;
            at.in_epoch += 1;
            keep(&mut at, stepper, false)?;
            if step.is_multiple_of(16) || at.in_epoch == per_epoch {
                let objective = at.summary.trace.last().map_or(f64::NAN, |e| e.objective);
                let progress = Progress { step: at.summary.steps, steps, epoch: epoch + 1, epochs, objective };
                if observer.progress(&progress) == Flow::Stop {
                    keep(&mut at, stepper, true)?;
                    return Err(ErrorKind::Interrupted.into());
                }
            }
        }
        let beta = tempering.at(at.summary.steps.saturating_sub(1), steps);
        let (nll, penalty) = (-at.sum / per_epoch as f64, stepper.penalty());
        (at.in_epoch, at.sum) = (0, 0.0);
        if !penalty.is_finite() {
            return Err(diverged(stepper.penalty_name(), penalty, at.summary.steps));
        }
        at.summary.trace.push(EpochRecord { epoch: epoch + 1, objective: -nll - beta * penalty, nll, penalty, beta });
        // While β still rises, the objective is not the same from epoch to epoch.
        if patience > 0 && beta == tempering.beta && stepper.is_free() {
            let full = at.summary.trace.iter().rev().take(SMOOTHED).take_while(|e| e.beta == tempering.beta);
            let (count, total) = full.fold((0, 0.0), |(n, sum), e| (n + 1, sum + e.objective));
            let smooth = total / f64::from(count);
            if count == SMOOTHED as u32 && smooth > at.best {
                (at.best, at.best_epoch) = (smooth, Some(epoch));
                stepper.keep();
            } else if at.best_epoch.is_some_and(|b| epoch - b >= patience) {
                at.summary.stopped_early = true;
            }
        }
    }
    if at.finished {
        return Ok(at.summary);
    }
    let summary = &mut at.summary;
    summary.epochs = summary.trace.len();
    if let Some(best) = at.best_epoch {
        stepper.restore();
        // What is returned is where the fit was then, and so is the last record.
        summary.trace.truncate(best + 1);
    }
    if !stepper.is_finite() {
        return Err(diverged("parameters", f64::NAN, summary.steps));
    }
    let last = summary.trace.len();
    let every = summary.epochs.div_ceil(KEPT).max(1);
    summary.trace.retain(|e| e.epoch.is_multiple_of(every) || e.epoch == last);
    summary.seconds = before + started.elapsed().as_secs_f64();
    at.finished = true;
    keep(&mut at, stepper, true)?;
    Ok(at.summary)
}

#[cfg(test)]
mod tests {
    use super::super::Silent;
    use super::*;
    use crate::data::{Dataset, Values};
    use crate::likelihood::Outcome;
    use crate::model::Recipe;
    use crate::nn::Shape;
    use crate::snapshot::State;

    /// Follows a script: log-likelihoods by step, a constant penalty.
    struct Scripted {
        script: fn(u64) -> f64,
        penalty: f64,
        at: u64,
        kept: u64,
    }

    impl Stateful for Scripted {
        fn state(&mut self, state: &mut State<'_>) -> Result<()> {
            state.count("at", &mut self.at)?;
            state.count("kept", &mut self.kept)
        }
    }

    impl Stepper for Scripted {
        fn kind(&self) -> &'static str {
            "scripted"
        }
        fn step(&mut self, _: Rows<'_>, plan: StepPlan) -> f64 {
            self.at = plan.step;
            (self.script)(plan.step)
        }
        fn penalty(&mut self) -> f64 {
            self.penalty
        }
        fn penalty_name(&self) -> &'static str {
            "KL"
        }
        fn keep(&mut self) {
            self.kept = self.at;
        }
        fn restore(&mut self) {
            self.at = self.kept;
        }
        fn is_finite(&self) -> bool {
            true
        }
    }

    /// One step an epoch, so that steps and epochs count alike.
    fn run(script: fn(u64) -> f64, penalty: f64, patience: usize, warmup: f64) -> (Scripted, FitSummary) {
        let shape = Shape::Flat(1);
        let data = Dataset::new(Values::F64(vec![0.0, 1.0].into()), shape, vec![0.0, 1.0], 1);
        let problem = Recipe::default().resolve_for(shape, Outcome::Real, 1).unwrap().problem(data).unwrap();
        let training = TrainingOptions { epochs: 1000, patience, ..TrainingOptions::default() };
        let mut stepper = Scripted { script, penalty, at: 0, kept: 0 };
        let tempering = Tempering { beta: 1.0, warmup };
        let summary = train(&mut stepper, &problem, &training, &tempering, Key::new(1), &mut Silent).unwrap();
        (stepper, summary)
    }

    #[test]
    fn beta_rises_to_its_end() {
        let t = Tempering { beta: 0.5, warmup: 0.1 };
        assert_eq!((t.at(0, 1000), t.at(49, 1000), t.at(99, 1000), t.at(999, 1000)), (0.005, 0.25, 0.5, 0.5));
        assert_eq!(Tempering { beta: 2.0, warmup: 0.0 }.at(0, 10), 2.0);
    }

    #[test]
    fn the_warm_up_does_not_stop_a_fit_that_still_rises() {
        // While β rises, a penalty of 1000 falls upon the objective; after that it rises by 1 a step.
        let (stepper, summary) = run(|t| t as f64, 1000.0, 20, 0.5);
        assert!(!summary.stopped_early);
        assert_eq!((stepper.at, summary.epochs, summary.trace.last().unwrap().epoch), (999, 1000, 1000));
    }

    #[test]
    fn the_best_is_returned_and_is_the_last_record() {
        let peak = |t: u64| -((t as f64) - 300.0).abs();
        let (stepper, summary) = run(peak, 0.0, 50, 0.0);
        assert!(summary.stopped_early);
        // The mean of five epochs is highest when the peak is in their middle.
        assert_eq!((stepper.at, summary.trace.last().unwrap().epoch), (302, 303));
        assert_eq!(summary.epochs, 353);
        // Without a stop in time, too.
        let (stepper, summary) = run(peak, 0.0, 900, 0.0);
        assert!(!summary.stopped_early && stepper.at == 302 && summary.epochs == 1000);
    }

    #[test]
    fn no_patience_means_no_stop() {
        let (stepper, summary) = run(|t| -(t as f64), 0.0, 0, 0.0);
        assert!(!summary.stopped_early && stepper.at == 999);
        assert!(summary.trace.len() <= KEPT + 1);
    }
}
