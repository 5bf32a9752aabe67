//! Mean-field variational inference by Bayes by Backprop (Blundell et al. 2015), weights sampled directly (METHODS V1).
//!
//! ELBO = E_q[log p(D | w)] − β·KL[q ‖ p], estimated per step by (N/|B|) Σ_B (1/K) Σ_k log p(y | x, w_k) − β·KL. The KL
//! is closed for normal priors; for others, Laplace included, its entropy part is closed and −log p(w) is taken at the draws,
//! which costs nothing beyond the draw that is made anyway.
//! Cost per step: K passes of the network and two fused passes over the 2P variational parameters.

use super::observer::Observer;
use super::train::{BATCH_SIZE, EPOCHS, PATIENCE, StepPlan, Stepper, train};
use super::variational::{
    BETA, INITIAL_MEAN, INITIAL_SCALING, INITIAL_STD, KL_WARMUP, RecordedKl, SAMPLES, elbo, initial_mean, initial_std,
    tempering,
};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::family::MeanField;
use crate::nn::Mode;
use crate::optim::{LEARNING_RATE, Pull, SCHEDULE, WARMUP};
use crate::posterior::MeanFieldPosterior;
use crate::prior::Prior;
use crate::problem::{Density, Problem, Rows};
use crate::rng::{Key, Purpose};
use crate::settings::Settings;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "mean-field",
    summary: "mean-field variational inference (Bayes by Backprop): a Gaussian for every weight",
    gives: "a diagonal Gaussian",
    settings: &[
        EPOCHS,
        BATCH_SIZE,
        LEARNING_RATE,
        SCHEDULE,
        WARMUP,
        PATIENCE,
        SAMPLES,
        BETA,
        KL_WARMUP,
        INITIAL_MEAN,
        INITIAL_STD,
        INITIAL_SCALING,
    ],
    build: |settings| Box::new(MeanFieldInference { settings }),
};

/// The method with its settings.
#[derive(Debug)]
pub struct MeanFieldInference {
    settings: Settings,
}

/// The state of a mean-field fit.
pub struct MeanFieldTrainer<'p> {
    density: Density<'p, f32>,
    family: MeanField,
    w: Vec<f32>,
    gradient: Vec<f32>,
    pulls: Vec<Pull>,
    /// For the blocks whose prior is not normal.
    other_prior: Option<Prior>,
    samples: usize,
    kl: RecordedKl,
    kept: Option<MeanField>,
    weights: Key,
    masks: Key,
}

impl<'p> MeanFieldTrainer<'p> {
    /// Starts at q = N(mean, std²). A step draws `samples` weights and has at most `batch_size` rows.
    pub fn new(problem: &'p Problem, mean: &[f32], std: &[f32], samples: usize, batch_size: usize, key: Key) -> Self {
        MeanFieldTrainer {
            density: problem.density(batch_size),
            family: MeanField::new(mean, std, samples),
            w: vec![0.0; mean.len()],
            gradient: vec![0.0; mean.len()],
            pulls: problem.pulls(),
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
            kl += share * self.family.draw(key, &self.pulls, &mut self.w);
            let mode = Mode::Train(self.masks.step(plan.step).derive(k as u64));
            value += share * self.density.log_likelihood(&self.w, rows, mode, Some(&mut self.gradient));
            if let Some(prior) = &self.other_prior {
                kl -= share * prior.log_density(&self.w, plan.beta, Some(&mut self.gradient));
            }
            if self.samples > 1 {
                self.family.accumulate(&self.gradient, share as f32);
            }
        }
        if self.samples > 1 {
            self.family.update_accumulated(&self.pulls, plan.beta, plan.rate);
        } else {
            self.family.update(&self.gradient, &self.pulls, plan.beta, plan.rate);
        }
        self.kl.record(kl);
        value
    }

    /// KL[q ‖ p] before the last step (an estimate from its draws where the prior is not normal).
    pub fn kl(&self) -> f64 {
        self.kl.last()
    }

    /// Means and standard deviations of q.
    pub fn moments(&self) -> (Vec<f32>, Vec<f32>) {
        self.family.moments()
    }
}

impl Stepper for MeanFieldTrainer<'_> {
    fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        MeanFieldTrainer::step(self, rows, plan)
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
        let (mean, std) = self.family.moments();
        mean.iter().chain(&std).all(|v| v.is_finite())
    }
}

impl Method for MeanFieldInference {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &self.settings;
        let (mean, std) = (initial_mean(problem, s, key, observer)?, initial_std(problem.layout(), s));
        let mut trainer = MeanFieldTrainer::new(problem, &mean, &std, s.count("samples"), s.count("batch_size"), key);
        let summary = train(&mut trainer, problem, s, &tempering(s), key, observer)?;
        let (mean, std) = trainer.moments();
        Ok(Fit { posterior: Box::new(MeanFieldPosterior::new(mean, std, elbo(problem, &summary))), summary })
    }
}
