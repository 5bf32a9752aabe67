//! The loop that all stochastic-gradient methods share: epochs, mini-batches, learning rate, β, early stopping, records.

use super::observer::{Flow, Observer, Progress};
use crate::data::Batches;
use crate::error::{Error, ErrorKind, Result};
use crate::optim::Schedule;
use crate::problem::{Problem, Rows};
use crate::rng::{Key, Purpose};
use crate::settings::{Allowed, Default, Setting, Settings};
use serde::{Deserialize, Serialize};
use std::time::Instant;

pub(super) const EPOCHS: Setting = Setting {
    name: "epochs",
    help: "passes over the data; 0 means as many as give about 10000 steps, but at least 10",
    default: Default::Int(0),
    allowed: Allowed::Int(0, 1_000_000),
};
pub(super) const BATCH_SIZE: Setting = Setting {
    name: "batch_size",
    help: "rows per step",
    default: Default::Int(128),
    allowed: Allowed::Int(1, i64::MAX),
};
pub(super) const PATIENCE: Setting = Setting {
    name: "patience",
    help: "stop when the objective has not risen for so many epochs, and return the best; 0 means never",
    default: Default::Int(0),
    allowed: Allowed::Int(0, 1_000_000),
};

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
    /// Log-likelihood of all rows minus β times the penalty.
    pub objective: f64,
    /// −log p(D | w), expected under q where there is one; mean over the epoch's steps.
    pub nll: f64,
    /// KL[q ‖ p], or −log p(w) for MAP, or 0 for maximum likelihood.
    pub penalty: f64,
    /// What the penalty was multiplied by.
    pub beta: f64,
}

/// How a fit went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// A method's state that can take a step.
pub(super) trait Stepper {
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

/// Runs the epochs.
pub(super) fn train(
    stepper: &mut dyn Stepper,
    problem: &Problem,
    settings: &Settings,
    tempering: &Tempering,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<FitSummary> {
    let started = Instant::now();
    let rows = problem.data().rows;
    let mut batches = Batches::new(rows, settings.count("batch_size"), key.purpose(Purpose::Batches));
    let per_epoch = batches.per_epoch();
    let epochs = match settings.count("epochs") {
        0 => STEPS.div_ceil(per_epoch).max(10),
        n => n,
    };
    let patience = settings.count("patience");
    let steps = (epochs * per_epoch) as u64;
    let schedule = Schedule::new(settings, steps);
    let mut summary = FitSummary {
        steps: 0,
        seconds: 0.0,
        stopped_early: false,
        penalty_name: stepper.penalty_name().to_owned(),
        epochs: 0,
        trace: Vec::with_capacity(epochs),
    };
    let (mut best, mut best_epoch) = (f64::NEG_INFINITY, 0);
    for epoch in 0..epochs {
        let mut sum = 0.0;
        for i in 0..per_epoch {
            let step = summary.steps;
            let beta = tempering.at(step, steps);
            let plan = StepPlan { step, rate: schedule.rate(step), beta };
            let batch = batches.next();
            let batch = if batch.len() == rows { Rows::All } else { Rows::Batch(batch) };
            let value = stepper.step(batch, plan);
            if !value.is_finite() {
                return Err(Error::numerical(
                    format!("the log-likelihood became {value} at step {}", step + 1),
                    "lower the learning rate (--set learning_rate=0.0005) or look for extreme values in the data",
                ));
            }
            sum += value;
            summary.steps += 1;
            if step.is_multiple_of(16) || i + 1 == per_epoch {
                let objective = summary.trace.last().map_or(f64::NAN, |e| e.objective);
                let progress = Progress { step: summary.steps, steps, epoch: epoch + 1, epochs, objective };
                if observer.progress(&progress) == Flow::Stop {
                    return Err(ErrorKind::Interrupted.into());
                }
            }
        }
        let beta = tempering.at(summary.steps.saturating_sub(1), steps);
        let (nll, penalty) = (-sum / per_epoch as f64, stepper.penalty());
        summary.trace.push(EpochRecord { epoch: epoch + 1, objective: -nll - beta * penalty, nll, penalty, beta });
        // While β still rises, the objective is not the same from epoch to epoch.
        if patience > 0 && beta == tempering.beta {
            let last = &summary.trace[summary.trace.len().saturating_sub(SMOOTHED)..];
            let smooth = last.iter().map(|e| e.objective).sum::<f64>() / last.len() as f64;
            if smooth > best {
                (best, best_epoch) = (smooth, epoch);
                stepper.keep();
            } else if epoch - best_epoch >= patience {
                stepper.restore();
                summary.stopped_early = true;
                break;
            }
        }
    }
    summary.epochs = summary.trace.len();
    let every = summary.epochs.div_ceil(KEPT).max(1);
    summary.trace.retain(|e| e.epoch.is_multiple_of(every) || e.epoch == summary.epochs);
    summary.seconds = started.elapsed().as_secs_f64();
    Ok(summary)
}
