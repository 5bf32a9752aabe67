//! The state of a variational fit, whatever the family: K draws per step, reparameterised gradients, Adam.
//!
//! ELBO = E_q[log p(D | w)] − β·KL[q ‖ p], estimated per step by (N/|B|) Σ_B (1/K) Σ_k log p(y | x, w_k) − β·KL. The KL is closed for
//! normal priors; for others its entropy part is closed and −log p(w) is taken at the draws.
//! Cost per step: K passes of the network and the family's own passes over its parameters.

use super::train::{StepPlan, Stepper};
use super::variational::RecordedKl;
use crate::error::Result;
use crate::family::Family;
use crate::nn::Mode;
use crate::optim::GaussianPenalty;
use crate::prior::Prior;
use crate::problem::{Density, Problem, Rows};
use crate::rng::{Key, Purpose};
use crate::snapshot::{State, Stateful};

/// Ascends the ELBO of a family.
pub struct FamilyTrainer<'p, F> {
    density: Density<'p, f32>,
    family: F,
    w: Vec<f32>,
    gradient: Vec<f32>,
    penalties: Vec<GaussianPenalty>,
    /// For the blocks whose prior is not normal.
    other_prior: Option<Prior>,
    samples: usize,
    kl: RecordedKl,
    kept: Option<F>,
    weights: Key,
    masks: Key,
}

impl<'p, F: Family> FamilyTrainer<'p, F> {
    /// Starts at a family made for `samples` draws per step. A step has at most `batch_size` rows.
    pub fn new(problem: &'p Problem, family: F, samples: usize, batch_size: usize, key: Key) -> Self {
        FamilyTrainer {
            density: problem.density(batch_size),
            family,
            w: vec![0.0; problem.dim()],
            gradient: vec![0.0; problem.dim()],
            penalties: problem.penalties(),
            other_prior: problem.prior().without_normal(),
            samples,
            kl: RecordedKl::default(),
            kept: None,
            weights: key.purpose(Purpose::Weights),
            masks: key.purpose(Purpose::Mask),
        }
    }

    /// One step; returns the estimate of E_q[log p(D | w)] before it. Allocates nothing.
    pub fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        let (mut value, mut kl) = (0.0, 0.0);
        let share = 1.0 / self.samples as f64;
        for k in 0..self.samples {
            let key = self.weights.step(plan.step).derive(k as u64);
            kl += share * self.family.draw(key, &self.penalties, &mut self.w);
            let mode = Mode::Train(self.masks.step(plan.step).derive(k as u64));
            value += share * self.density.log_likelihood(&self.w, rows, mode, Some(&mut self.gradient));
            if let Some(prior) = &self.other_prior {
                kl -= share * prior.log_density(&self.w, plan.beta, Some(&mut self.gradient));
            }
            if k + 1 < self.samples {
                self.family.accumulate(&self.gradient, share as f32);
            }
        }
        self.family.update(&self.gradient, share as f32, &self.penalties, plan.beta, plan.rate);
        self.kl.record(kl);
        value
    }

    /// KL[q ‖ p] before the last step (an estimate from its draws where the prior is not normal).
    pub fn kl(&self) -> f64 {
        self.kl.last()
    }

    /// q as it is now.
    pub fn family(&self) -> &F {
        &self.family
    }
}

impl<F: Family> Stateful for FamilyTrainer<'_, F> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.part("family", &mut self.family)?;
        state.part("kl", &mut self.kl)?;
        state.optional("kept", &mut self.kept, || self.family.clone())
    }
}

impl<F: Family> Stepper for FamilyTrainer<'_, F> {
    fn kind(&self) -> &'static str {
        "family"
    }
    fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        FamilyTrainer::step(self, rows, plan)
    }
    fn penalty(&mut self) -> f64 {
        self.kl.take_mean()
    }
    fn penalty_name(&self) -> &'static str {
        "KL"
    }
    fn keep(&mut self) {
        match &mut self.kept {
            Some(kept) => kept.clone_from(&self.family),
            none => *none = Some(self.family.clone()),
        }
    }
    fn restore(&mut self) {
        if let Some(kept) = &self.kept {
            self.family.clone_from(kept);
        }
    }
    fn is_finite(&self) -> bool {
        self.family.is_finite()
    }
}
