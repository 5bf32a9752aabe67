//! Variational inference with a full covariance: q = N(m, L Lᵀ), for networks of up to some thousand weights.
//!
//! On a linear model with normal noise and prior it is exact. The ELBO and its estimate are those of `family_trainer.rs`;
//! the family's equations stand in `family/full_covariance.rs`.
//! Reference: Titsias & Lázaro-Gredilla (2014), ICML. Cost per step: K passes of the network and two passes over P(P+1)/2
//! variational parameters.

use super::family_trainer::FamilyTrainer;
use super::observer::Observer;
use super::train::{FitSummary, Tempering, has_training, train, training_fields};
use super::variational::{InitialMean, InitialScaling, elbo, initial_mean, initial_std, variational_fields};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::family::FullCovariance as Family;
use crate::optim::Decay;
use crate::posterior::FullCovariancePosterior;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};

crate::options! {
    /// Variational inference with a full-covariance Gaussian.
    pub struct FullCovariance: "full-covariance" {
        ..training_fields!,
        /// K: weights drawn per step
        samples: usize = 1 => Int(1, 10_000),
        ..variational_fields!,
    }
}
has_training!(FullCovariance);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: FullCovariance::NAME,
    summary: "variational inference with every correlation, for small networks",
    gives: "a Gaussian with a full covariance",
    settings: FullCovariance::SETTINGS,
    build: |settings| Box::new(Checked::<FullCovariance>::from(settings)),
};

/// What a fit gives: m, L row after row each up to its diagonal, and how it went.
pub(super) type FullCovarianceFit = (Vec<f32>, Vec<f32>, FitSummary);

/// Fits q from a given mean on.
pub(super) fn fit_from(
    problem: &Problem,
    mean: &[f32],
    options: &FullCovariance,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<FullCovarianceFit> {
    let std = initial_std(problem.layout(), options.initial_std, options.initial_scaling);
    let family = Family::new(mean, &std, options.samples);
    let mut trainer = FamilyTrainer::new(problem, family, options.samples, options.batch_size, key);
    let tempering = Tempering { beta: options.beta, warmup: options.kl_warmup };
    let summary = train(&mut trainer, problem, &options.into(), &tempering, key, observer)?;
    let (mean, lower) = trainer.family().parts();
    Ok((mean, lower, summary))
}

impl Method for Checked<FullCovariance> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        // Beside what its family asks for.
        super::needs::by_row_noise(problem, self.batch_size, 12)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &**self;
        Family::check(ENTRY.name, problem.dim(), s.samples, s.patience > 0, "use low-rank or last-layer instead")?;
        let mean = initial_mean(problem, s.initial_mean, &s.into(), key, observer)?;
        let (mean, lower, summary) = fit_from(problem, &mean, s, key, observer)?;
        let posterior = FullCovariancePosterior::new(mean, 0, lower, elbo(problem, &summary));
        Ok(Fit { posterior: Box::new(posterior), summary })
    }
}
