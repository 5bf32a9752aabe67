//! Variational inference with a full covariance: q = N(m, L Lᵀ), for networks of up to some thousand weights.
//!
//! On a linear model with normal noise and prior it is exact. The ELBO and its estimate are those of `family_trainer.rs`;
//! the family's equations stand in `family/full_covariance.rs`.
//! Reference: Titsias & Lázaro-Gredilla (2014), ICML. Cost per step: K passes of the network and two passes over P(P+1)/2
//! variational parameters.

use super::family_trainer::FamilyTrainer;
use super::observer::Observer;
use super::train::{BATCH_SIZE, EPOCHS, FitSummary, PATIENCE, train};
use super::variational::{
    BETA, INITIAL_MEAN, INITIAL_SCALING, INITIAL_STD, KL_WARMUP, SAMPLES, elbo, initial_mean, initial_std, tempering,
};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::family::FullCovariance;
use crate::optim::{LEARNING_RATE, SCHEDULE, WARMUP};
use crate::posterior::FullCovariancePosterior;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Setting, Settings};

pub(super) const SETTINGS: &[Setting] = &[
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
];

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "full-covariance",
    summary: "variational inference with every correlation, for small networks",
    gives: "a Gaussian with a full covariance",
    settings: SETTINGS,
    build: |settings| Box::new(FullCovarianceInference { settings }),
};

/// The method with its settings.
#[derive(Debug)]
pub struct FullCovarianceInference {
    settings: Settings,
}

/// What a fit gives: m, L row after row each up to its diagonal, and how it went.
pub(super) type FullCovarianceFit = (Vec<f32>, Vec<f32>, FitSummary);

/// Fits q from a given mean on; the settings are those of [`SETTINGS`].
pub(super) fn fit_from(
    problem: &Problem,
    mean: &[f32],
    settings: &Settings,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<FullCovarianceFit> {
    let samples = settings.count("samples");
    let family = FullCovariance::new(mean, &initial_std(problem.layout(), settings), samples);
    let mut trainer = FamilyTrainer::new(problem, family, samples, settings.count("batch_size"), key);
    let summary = train(&mut trainer, problem, settings, &tempering(settings), key, observer)?;
    let (mean, lower) = trainer.family().parts();
    Ok((mean, lower, summary))
}

impl Method for FullCovarianceInference {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        // Beside what its family asks for.
        super::needs::by_row_noise(problem, &self.settings, 12)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &self.settings;
        let (samples, keeps_best) = (s.count("samples"), s.count("patience") > 0);
        FullCovariance::check(ENTRY.name, problem.dim(), samples, keeps_best, "use low-rank or last-layer instead")?;
        let mean = initial_mean(problem, s, key, observer)?;
        let (mean, lower, summary) = fit_from(problem, &mean, s, key, observer)?;
        let posterior = FullCovariancePosterior::new(mean, 0, lower, elbo(problem, &summary));
        Ok(Fit { posterior: Box::new(posterior), summary })
    }
}
