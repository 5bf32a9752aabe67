//! One parameter vector and Adam: the state behind maximum likelihood and MAP.

use super::train::{StepPlan, Stepper};
use crate::error::Result;
use crate::math::elementwise::axpy;
use crate::math::special::HALF_LN_TAU;
use crate::nn::Mode;
use crate::optim::{Adam, GaussianPenalty};
use crate::posterior::{DropoutBlock, drop_units};
use crate::prior::Prior;
use crate::problem::{Density, Problem, Rows};
use crate::rng::{Key, Purpose};
use crate::snapshot::{State, Stateful};

/// Ascends log p(D | w) (maximum likelihood) or log p(w, D) (MAP) by Adam.
pub struct PointTrainer<'p> {
    density: Density<'p, f32>,
    w: Vec<f32>,
    gradient: Vec<f32>,
    adam: Adam,
    /// How normal priors penalty; empty for maximum likelihood.
    penalties: Vec<GaussianPenalty>,
    /// For the blocks whose prior is not normal.
    other_prior: Option<Prior>,
    /// Whether the penalties are others than the prior's.
    own_pulls: bool,
    /// Where each parameter is pulled to instead of its penalty's centre, and what that adds to the gradient: τ(anchor − centre).
    anchors: Vec<f32>,
    push: Vec<f32>,
    /// Units whose weights are dropped at random, the same for all rows of a step; and room for what is left.
    dropped: Vec<DropoutBlock>,
    dropped_w: Vec<f32>,
    kept: Vec<f32>,
    masks: Key,
    /// Parameters that stay 0 in the steps before a number.
    held: Vec<usize>,
    held_until: u64,
    step: u64,
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
            penalties: if with_prior { problem.penalties() } else { Vec::new() },
            other_prior: other.filter(|_| with_prior),
            own_pulls: false,
            anchors: Vec::new(),
            push: Vec::new(),
            dropped: Vec::new(),
            dropped_w: Vec::new(),
            kept: Vec::new(),
            masks: key.purpose(Purpose::Mask),
            held: Vec::new(),
            held_until: 0,
            step: 0,
            w,
        }
    }

    /// With these penalties instead of the prior's; what is reported is then Σ ½τ(w − c)².
    pub(super) fn with_penalties(mut self, penalties: Vec<GaussianPenalty>) -> Self {
        (self.penalties, self.own_pulls) = (penalties, true);
        self
    }

    /// With a point of its own for every parameter that the normal prior penalties it to.
    pub(super) fn with_anchors(mut self, anchors: Vec<f32>) -> Self {
        self.push = vec![0.0; anchors.len()];
        for penalty in &self.penalties {
            for i in penalty.range.clone() {
                self.push[i] = penalty.precision * (anchors[i] - penalty.centre);
            }
        }
        self.anchors = anchors;
        self
    }

    /// Starts at w instead of initial values.
    pub(super) fn starting_at(mut self, w: &[f32]) -> Self {
        self.w.copy_from_slice(w);
        self
    }

    /// Keeps these parameters at 0 in the first `steps` steps.
    pub(super) fn holding(mut self, parameters: Vec<usize>, steps: u64) -> Self {
        parameters.iter().for_each(|i| self.w[*i] = 0.0);
        (self.held, self.held_until) = (parameters, steps);
        self
    }

    /// Drops weights of these units.
    pub(super) fn with_dropped_units(mut self, blocks: Vec<DropoutBlock>) -> Self {
        self.dropped_w = vec![0.0; if blocks.is_empty() { 0 } else { self.w.len() }];
        self.dropped = blocks;
        self
    }

    /// One step; returns the estimate of log p(D | w) before it. Allocates nothing.
    pub fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        let key = self.masks.step(plan.step);
        let mode = Mode::Train(key);
        let value = if self.dropped.is_empty() {
            self.density.log_likelihood(&self.w, rows, mode, Some(&mut self.gradient))
        } else {
            self.dropped_w.copy_from_slice(&self.w);
            drop_units(&self.dropped, key, &mut self.dropped_w);
            let value = self.density.log_likelihood(&self.dropped_w, rows, mode, Some(&mut self.gradient));
            drop_units(&self.dropped, key, &mut self.gradient);
            value
        };
        if let Some(prior) = &self.other_prior {
            prior.log_density(&self.w, 1.0, Some(&mut self.gradient));
        }
        if !self.push.is_empty() {
            axpy(1.0, &self.push, &mut self.gradient);
        }
        let held = if plan.step < self.held_until { &self.held[..] } else { &[] };
        held.iter().for_each(|i| self.gradient[*i] = 0.0);
        self.adam.ascend(&mut self.w, &self.gradient, &self.penalties, plan.rate);
        // A prior that is not centred at 0 penalties all the same.
        held.iter().for_each(|i| self.w[*i] = 0.0);
        self.step = plan.step;
        value
    }

    /// Where it is now.
    pub fn point(&self) -> &[f32] {
        &self.w
    }
}

impl Stateful for PointTrainer<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.array("w", &mut self.w)?;
        state.part("adam", &mut self.adam)?;
        state.array_or_none("kept", &mut self.kept, self.w.len())?;
        state.count("step", &mut self.step)
    }
}

impl Stepper for PointTrainer<'_> {
    fn kind(&self) -> &'static str {
        "point"
    }
    fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        PointTrainer::step(self, rows, plan)
    }
    fn penalty(&mut self) -> f64 {
        if self.penalties.is_empty() {
            return 0.0;
        }
        if self.own_pulls || !self.anchors.is_empty() {
            let centre = |p: &GaussianPenalty, i: usize| self.anchors.get(i).copied().unwrap_or(p.centre);
            let of =
                |p: &GaussianPenalty| p.range.clone().map(|i| f64::from(self.w[i] - centre(p, i)).powi(2)).sum::<f64>();
            let squares = |p: &GaussianPenalty| 0.5 * f64::from(p.precision) * of(p);
            // What −ln of a normal density has beside its square; none where the penalties are no prior.
            let constant =
                |p: &GaussianPenalty| p.range.len() as f64 * (HALF_LN_TAU - 0.5 * f64::from(p.precision).ln());
            return self.penalties.iter().map(|p| squares(p) + if self.own_pulls { 0.0 } else { constant(p) }).sum();
        }
        -self.density.problem().prior().log_density(&self.w, 1.0, None)
    }
    fn penalty_name(&self) -> &'static str {
        match (self.penalties.is_empty(), self.own_pulls) {
            (true, _) => "",
            (_, true) => "L2",
            _ => "-log prior",
        }
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
    fn is_free(&self) -> bool {
        self.step >= self.held_until
    }
}
