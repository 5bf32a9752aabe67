//! Sparse variational dropout: an α for every weight, and weights that are all noise are removed (Molchanov, Ashukha &
//! Vetrov 2017).
//!
//! q(w) = N(θ, σ²) with θ and σ free (the additive parameterisation: no multiplication by θ makes gradients noisy where α =
//! σ²/θ² is large), prior p(w) ∝ 1/|w| on weights, whose KL depends on α alone
//! ([`crate::distribution::log_uniform_kl`]) and falls as α grows: a weight that the data do not need ends with α → ∞.
//! Those with ln α > `threshold` become exactly 0: at the end, or every [`REMOVE_EVERY`] steps once β is whole, and then for good, so that
//! what is left learns without them and without their noise. (The authors' program masks means at every pass instead, and a mask may open
//! again.) Gradients by local reparameterisation. Biases and the likelihood's
//! parameters are mean-field with the problem's prior. The prior being improper, there is no evidence to bound.
//! Cost: that of mean-field with the local estimator, and a logarithm and an exponential a weight.

use super::mean_field::{Estimator, MeanFieldTrainer, Removal};
use super::observer::Observer;
use super::train::{BATCH_SIZE, EPOCHS, PATIENCE, train};
use super::variational::{BETA, INITIAL_MEAN, INITIAL_SCALING, SAMPLES, initial_mean, initial_std, tempering};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::nn::{Role, RowNoise};
use crate::optim::{LEARNING_RATE, SCHEDULE, WARMUP};
use crate::posterior::MeanFieldPosterior;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Allowed, Default, Setting, Settings};

const THRESHOLD: Setting = Setting {
    name: "threshold",
    help: "weights with ln α above it are removed; 3 means that 95 % of a weight's variance is noise",
    default: Default::Float(3.0),
    allowed: Allowed::Float(-20.0, 20.0),
};
const KL_WARMUP: Setting = Setting {
    name: "kl_warmup",
    help: "part of the steps over which β first rises from 0: weights must mean something before they can be removed",
    default: Default::Float(0.3),
    allowed: Allowed::Float(0.0, 1.0),
};
const INITIAL_STD: Setting = Setting {
    name: "initial_std",
    help: "σ starts at this, divided by √fan-in where initial_scaling says so",
    default: Default::Float(0.05),
    allowed: Allowed::Float(1e-6, 100.0),
};

const REMOVAL: Setting = Setting {
    name: "removal",
    help: "when weights above the threshold go: while it trains, once β is whole, and for good; or at the end alone",
    default: Default::Text("training"),
    allowed: Allowed::OneOf(&["training", "end"]),
};
/// Steps between two looks. One look removes for good: the fewer there are, the fewer weights are caught while their mean only passes
/// through 0.
const REMOVE_EVERY: u64 = 500;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "sparse-dropout",
    summary: "sparse variational dropout: weights that are all noise are removed",
    gives: "a diagonal Gaussian, most weights exactly 0",
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
        THRESHOLD,
        REMOVAL,
    ],
    build: |settings| Box::new(SparseDropout { settings }),
};

/// The method with its settings.
#[derive(Debug)]
pub struct SparseDropout {
    settings: Settings,
}

impl Method for SparseDropout {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_row_noise(problem, &self.settings, 24)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &self.settings;
        let (mean, std) = (initial_mean(problem, s, key, observer)?, initial_std(problem.layout(), s));
        let mut trainer = MeanFieldTrainer::new(problem, &mean, &std, s.count("samples"), s.count("batch_size"), key)
            .with_estimator(Estimator::ByRow(RowNoise::Local))
            .with_log_uniform_weights();
        let threshold = s.float("threshold");
        if s.text("removal") == "training" {
            trainer = trainer.with_removal(Removal {
                alpha: threshold.exp() as f32,
                every: REMOVE_EVERY,
                beta: s.float("beta"),
            });
        }
        let summary = train(&mut trainer, problem, s, &tempering(s), key, observer)?;
        let (mut mean, mut std) = trainer.moments();
        for block in problem.layout().blocks().iter().filter(|b| b.role == Role::Weight) {
            for i in block.range.clone() {
                if 2.0 * (f64::from(std[i]) / f64::from(mean[i].abs())).ln() > threshold {
                    (mean[i], std[i]) = (0.0, 0.0);
                }
            }
        }
        Ok(Fit { posterior: Box::new(MeanFieldPosterior::new(mean, std, None)), summary })
    }
}
