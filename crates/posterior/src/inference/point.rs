//! One parameter vector and Adam: the state behind maximum likelihood and MAP.

use super::train::{StepPlan, Stepper};
use crate::nn::Mode;
use crate::optim::{Adam, Pull};
use crate::prior::Prior;
use crate::problem::{Density, Problem, Rows};
use crate::rng::{Key, Purpose};

/// Ascends log p(D | w) (maximum likelihood) or log p(w, D) (MAP) by Adam.
pub struct PointTrainer<'p> {
    density: Density<'p, f32>,
    w: Vec<f32>,
    gradient: Vec<f32>,
    adam: Adam,
    /// How normal priors pull; empty for maximum likelihood.
    pulls: Vec<Pull>,
    /// For the blocks whose prior is not normal.
    other_prior: Option<Prior>,
    kept: Vec<f32>,
    masks: Key,
}

impl<'p> PointTrainer<'p> {
    /// Starts at initial values of the key. `with_prior` tells MAP from maximum likelihood; `batch_size` bounds the rows of a step.
    pub fn new(problem: &'p Problem, with_prior: bool, batch_size: usize, key: Key) -> Self {
        let w = problem.initial(key.purpose(Purpose::Init));
        let other = problem.prior().without_normal();
        PointTrainer {
            density: problem.density(batch_size),
            gradient: vec![0.0; w.len()],
            adam: Adam::new(w.len()),
            pulls: if with_prior { problem.pulls() } else { Vec::new() },
            other_prior: other.filter(|_| with_prior),
            kept: Vec::new(),
            masks: key.purpose(Purpose::Mask),
            w,
        }
    }

    /// One step; returns the estimate of log p(D | w) before it. Allocates nothing.
    pub fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        let mode = Mode::Train(self.masks.step(plan.step));
        let value = self.density.log_likelihood(&self.w, rows, mode, Some(&mut self.gradient));
        if let Some(prior) = &self.other_prior {
            prior.log_density(&self.w, 1.0, Some(&mut self.gradient));
        }
        self.adam.ascend(&mut self.w, &self.gradient, &self.pulls, plan.rate);
        value
    }

    /// Where it is now.
    pub fn point(&self) -> &[f32] {
        &self.w
    }
}

impl Stepper for PointTrainer<'_> {
    fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        PointTrainer::step(self, rows, plan)
    }
    fn penalty(&mut self) -> f64 {
        if self.pulls.is_empty() {
            return 0.0;
        }
        -self.density.problem().prior().log_density(&self.w, 1.0, None)
    }
    fn penalty_name(&self) -> &'static str {
        if self.pulls.is_empty() { "" } else { "-log prior" }
    }
    fn keep(&mut self) {
        self.kept.clone_from(&self.w);
    }
    fn restore(&mut self) {
        self.w.clone_from(&self.kept);
    }
    fn is_finite(&self) -> bool {
        self.w.iter().all(|v| v.is_finite())
    }
}
