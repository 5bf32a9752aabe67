//! Where a training by steps is, as a state that can be kept beside its stepper's.

use super::train::{EpochRecord, FitSummary, Stepper};
use crate::error::{Error, Result};
use crate::snapshot::{State, Stateful};

/// Where a training is.
pub(super) struct Course {
    /// Steps of this epoch, and the sum of their values.
    pub in_epoch: usize,
    pub sum: f64,
    /// The highest objective, and the epoch it was in.
    pub best: f64,
    pub best_epoch: Option<usize>,
    pub finished: bool,
    pub summary: FitSummary,
}

impl Stateful for Course {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.count("in_epoch", &mut self.in_epoch)?;
        state.number("sum", &mut self.sum)?;
        state.number("best", &mut self.best)?;
        let mut has_best = self.best_epoch.is_some();
        let mut best_epoch = self.best_epoch.unwrap_or(0);
        state.flag("has_best", &mut has_best)?;
        state.count("best_epoch", &mut best_epoch)?;
        self.best_epoch = has_best.then_some(best_epoch);
        state.flag("finished", &mut self.finished)?;
        let s = &mut self.summary;
        state.count("steps", &mut s.steps)?;
        state.number("seconds", &mut s.seconds)?;
        state.flag("stopped_early", &mut s.stopped_early)?;
        state.count("epochs", &mut s.epochs)?;
        let mut epochs: Vec<u64> = s.trace.iter().map(|e| e.epoch as u64).collect();
        let numbers = |e: &EpochRecord| [e.objective, e.nll, e.penalty, e.beta];
        let mut numbers: Vec<f64> = s.trace.iter().flat_map(numbers).collect();
        state.vector("trace.epochs", &mut epochs, s.trace.capacity())?;
        numbers.resize(4 * epochs.len(), 0.0);
        state.array("trace.numbers", &mut numbers)?;
        s.trace.clear();
        s.trace.extend(epochs.iter().zip(numbers.as_chunks().0).map(|(epoch, &[objective, nll, penalty, beta])| {
            EpochRecord { epoch: *epoch as usize, objective, nll, penalty, beta }
        }));
        Ok(())
    }
}

impl Course {
    /// Before the first step.
    pub fn new(penalty_name: &str, epochs: usize) -> Course {
        Course {
            in_epoch: 0,
            sum: 0.0,
            best: f64::NEG_INFINITY,
            best_epoch: None,
            finished: false,
            summary: FitSummary {
                steps: 0,
                seconds: 0.0,
                stopped_early: false,
                penalty_name: penalty_name.to_owned(),
                epochs: 0,
                trace: Vec::with_capacity(epochs),
            },
        }
    }

    /// Whether a training of so many steps and epochs can be here.
    pub fn check(&self, per_epoch: usize, epochs: usize) -> Result<()> {
        let s = &self.summary;
        let steps = (s.trace.len() * per_epoch + self.in_epoch) as u64;
        let best = self.best_epoch.is_none_or(|b| b < s.trace.len());
        if self.finished || (best && self.in_epoch <= per_epoch && s.trace.len() <= epochs && s.steps == steps) {
            return Ok(());
        }
        let what = format!("step {} does not fit into {epochs} epochs of {per_epoch} steps", s.steps);
        Err(Error::setting(what, "begin the fit anew"))
    }
}

/// A training as one state.
pub(super) struct Training<'a> {
    pub course: &'a mut Course,
    pub stepper: &'a mut dyn Stepper,
}

impl Stateful for Training<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.part("course", self.course)?;
        state.part("stepper", self.stepper)
    }
}
