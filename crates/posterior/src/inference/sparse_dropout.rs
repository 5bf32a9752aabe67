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
use super::train::{Tempering, has_training, train, training_fields};
use super::variational::{InitialMean, InitialScaling, initial_mean, initial_std};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::nn::{Role, RowNoise};
use crate::optim::Decay;
use crate::posterior::MeanFieldPosterior;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};

crate::word_enum! {
    /// When `sparse-dropout` removes weights.
    pub enum RemovalTime {
        /// While it trains, once β is whole, and for good.
        Training = "training",
        /// At the end alone.
        End = "end",
    }
}

crate::options! {
    /// Sparse variational dropout.
    pub struct SparseDropout: "sparse-dropout" {
        ..training_fields!,
        /// K: weights drawn per step
        samples: usize = 1 => Int(1, 10_000),
        /// weight of the KL; 1 is Bayes, less is a tempered (cold) posterior
        beta: f64 = 1.0 => Float(0.0, 1e6),
        /// fraction of the steps over which β first rises from 0: weights must mean something before they can be removed
        kl_warmup: f64 = 0.3 => Float(0.0, 1.0),
        /// means start as a fresh network's weights, at 0, or at a MAP fit with the same settings
        initial_mean: InitialMean = InitialMean::Random,
        /// σ starts at this, divided by √fan-in where initial_scaling says so
        initial_std: f64 = 0.05 => Float(1e-6, 100.0),
        /// whether the first σ of a layer shrinks with its number of inputs
        initial_scaling: InitialScaling = InitialScaling::FanIn,
        /// weights with ln α above it are removed; 3 means that 95 % of a weight's variance is noise
        threshold: f64 = 3.0 => Float(-20.0, 20.0),
        /// when weights above the threshold go: while it trains, once β is whole, and for good; or at the end alone
        removal: RemovalTime = RemovalTime::Training,
    }
}
has_training!(SparseDropout);

/// Steps between two looks. One look removes for good: the fewer there are, the fewer weights are caught while their mean only passes
/// through 0.
const REMOVE_EVERY: u64 = 500;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: SparseDropout::NAME,
    summary: "sparse variational dropout: weights that are all noise are removed",
    gives: "a diagonal Gaussian, most weights exactly 0",
    settings: SparseDropout::SETTINGS,
    build: |settings| Box::new(Checked::<SparseDropout>::from(settings)),
};

impl Method for Checked<SparseDropout> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_row_noise(problem, self.batch_size, 24)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let (s, training) = (&**self, (&**self).into());
        let (mean, std) = (
            initial_mean(problem, s.initial_mean, &training, key, observer)?,
            initial_std(problem.layout(), s.initial_std, s.initial_scaling),
        );
        let mut trainer = MeanFieldTrainer::new(problem, &mean, &std, s.samples, s.batch_size, key)
            .with_estimator(Estimator::ByRow(RowNoise::Local))
            .with_log_uniform_weights();
        let threshold = s.threshold;
        if s.removal == RemovalTime::Training {
            trainer =
                trainer.with_removal(Removal { alpha: threshold.exp() as f32, every: REMOVE_EVERY, beta: s.beta });
        }
        let tempering = Tempering { beta: s.beta, warmup: s.kl_warmup };
        let summary = train(&mut trainer, problem, &training, &tempering, key, observer)?;
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
