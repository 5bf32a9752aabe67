//! Variational inference with a covariance that is diagonal plus low rank: q = N(m, diag(σ²) + U Uᵀ).
//!
//! The r columns of U are directions in which many weights vary together, which mean-field cannot hold. The ELBO and its
//! estimate are those of `family_trainer.rs`; the family's equations stand in `family/low_rank.rs`.
//! Reference: Ong, Nott & Smith (2018), J. Comput. Graph. Stat. 27. Cost per step: K passes of the network and two passes
//! over (2 + r)P variational parameters.

use super::family_trainer::FamilyTrainer;
use super::observer::Observer;
use super::train::{Tempering, has_training, train, training_fields};
use super::variational::{InitialMean, InitialScaling, elbo, initial_mean, initial_std, variational_fields};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::family::LowRank as Family;
use crate::optim::Decay;
use crate::posterior::LowRankPosterior;
use crate::problem::Problem;
use crate::rng::{Key, Purpose};
use crate::settings::{Checked, NamedOptions, Options, Settings};

crate::options! {
    /// Variational inference with a diagonal plus low-rank Gaussian.
    pub struct LowRank: "low-rank" {
        ..training_fields!,
        /// columns of U: directions in which weights vary together
        rank: usize = 5 => Int(1, 1000),
        /// K: weights drawn per step
        samples: usize = 1 => Int(1, 10_000),
        ..variational_fields!,
    }
}
has_training!(LowRank);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: LowRank::NAME,
    summary: "variational inference with correlated weights: a diagonal plus a low-rank covariance",
    gives: "a Gaussian with a diagonal plus low-rank covariance",
    settings: LowRank::SETTINGS,
    build: |settings| Box::new(Checked::<LowRank>::from(settings)),
};

impl Method for Checked<LowRank> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_row_noise(problem, self.batch_size, 24 + 4 * self.rank)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let (s, training) = (&**self, (&**self).into());
        let (rank, samples) = (s.rank, s.samples);
        Family::check(problem.dim(), rank, samples)?;
        let (mean, std) = (
            initial_mean(problem, s.initial_mean, &training, key, observer)?,
            initial_std(problem.layout(), s.initial_std, s.initial_scaling),
        );
        // The means have taken the blocks of this purpose already.
        let start = key.purpose(Purpose::Init).derive(u64::MAX);
        let family = Family::new(&mean, &std, rank, samples, start);
        let mut trainer = FamilyTrainer::new(problem, family, samples, s.batch_size, key);
        let tempering = Tempering { beta: s.beta, warmup: s.kl_warmup };
        let summary = train(&mut trainer, problem, &training, &tempering, key, observer)?;
        let (mean, std, factor) = trainer.family().parts();
        let posterior = LowRankPosterior::new(mean, std, factor, elbo(problem, &summary));
        Ok(Fit { posterior: Box::new(posterior), summary })
    }
}
