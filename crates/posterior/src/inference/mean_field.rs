//! Mean-field variational inference by Bayes by Backprop (Blundell et al. 2015), weights sampled directly (METHODS V1).
//!
//! ELBO = E_q[log p(D | w)] − β·KL[q ‖ p], estimated per step by (N/|B|) Σ_B (1/K) Σ_k log p(y | x, w_k) − β·KL. The KL
//! is closed for normal priors; for others, Laplace included, its entropy part is closed and −log p(w) is taken at the draws,
//! which costs nothing beyond the draw that is made anyway.
//! Cost per step: K passes of the network and two fused passes over the 2P variational parameters.

use super::map::Map;
use super::observer::Observer;
use super::train::{BATCH_SIZE, EPOCHS, PATIENCE, StepPlan, Stepper, Tempering, train};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::family::MeanField;
use crate::nn::{Layout, Mode, Role};
use crate::optim::{LEARNING_RATE, Pull, SCHEDULE, WARMUP};
use crate::posterior::MeanFieldPosterior;
use crate::prior::Prior;
use crate::problem::{Density, Problem, Rows};
use crate::rng::{Key, Purpose};
use crate::settings::{Allowed, Default, Setting, Settings};

const SAMPLES: Setting = Setting {
    name: "samples",
    help: "K: weights drawn per step",
    default: Default::Int(1),
    allowed: Allowed::Int(1, 10_000),
};
const BETA: Setting = Setting {
    name: "beta",
    help: "weight of the KL; 1 is Bayes, less is a tempered (cold) posterior",
    default: Default::Float(1.0),
    allowed: Allowed::Float(0.0, 1e6),
};
const KL_WARMUP: Setting = Setting {
    name: "kl_warmup",
    help: "part of the steps over which β first rises from 0",
    default: Default::Float(0.1),
    allowed: Allowed::Float(0.0, 1.0),
};
const INITIAL_MEAN: Setting = Setting {
    name: "initial_mean",
    help: "means start as a fresh network's weights, at 0, or at a MAP fit with the same settings",
    default: Default::Text("random"),
    allowed: Allowed::OneOf(&["random", "zero", "map"]),
};
const INITIAL_STD: Setting = Setting {
    name: "initial_std",
    help: "σ starts at this, divided by √fan-in where initial_scaling says so",
    default: Default::Float(0.1),
    allowed: Allowed::Float(1e-6, 100.0),
};
const INITIAL_SCALING: Setting = Setting {
    name: "initial_scaling",
    help: "whether the first σ of a layer shrinks with its number of inputs",
    default: Default::Text("fan-in"),
    allowed: Allowed::OneOf(&["fan-in", "none"]),
};

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
    kl: f64,
    /// Over the steps since the last record.
    kl_sum: f64,
    kl_steps: u64,
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
            kl: f64::NAN,
            kl_sum: 0.0,
            kl_steps: 0,
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
        self.kl = kl;
        self.kl_sum += kl;
        self.kl_steps += 1;
        value
    }

    /// KL[q ‖ p] before the last step (an estimate from its draws where the prior is not normal).
    pub fn kl(&self) -> f64 {
        self.kl
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
        let mean = self.kl_sum / self.kl_steps.max(1) as f64;
        (self.kl_sum, self.kl_steps) = (0.0, 0);
        mean
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

/// The first σ of every parameter.
fn initial_std(layout: &Layout, std: f64, by_fan_in: bool) -> Vec<f32> {
    let mut out = Vec::with_capacity(layout.len());
    for block in layout.blocks() {
        let scale = if by_fan_in && block.role != Role::Noise { (block.fan_in.max(1) as f64).sqrt() } else { 1.0 };
        out.resize(block.range.end, (std / scale) as f32);
    }
    out
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
        let mean = match s.text("initial_mean") {
            "map" => Map::with_settings_of(s).fit(problem, key, observer)?.posterior.draw(key).w,
            "zero" => problem.initial_zero(),
            _ => problem.initial(key.purpose(Purpose::Init)),
        };
        let std = initial_std(problem.layout(), s.float("initial_std"), s.text("initial_scaling") == "fan-in");
        let mut trainer = MeanFieldTrainer::new(problem, &mean, &std, s.count("samples"), s.count("batch_size"), key);
        let tempering = Tempering { beta: s.float("beta"), warmup: s.float("kl_warmup") };
        let summary = train(&mut trainer, problem, s, &tempering, key, observer)?;
        let (mean, std) = trainer.moments();
        // With dropout layers the bound is of a network with masks, which is not the one that predicts.
        let masked = problem.network().describe().iter().any(|l| l.contains("dropout"));
        let elbo = summary.trace.last().filter(|e| e.beta == 1.0 && !masked).map(|e| e.objective);
        Ok(Fit { posterior: Box::new(MeanFieldPosterior::new(mean, std, elbo)), summary })
    }
}
