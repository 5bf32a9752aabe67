//! Variational inference with a covariance that is diagonal plus low rank: q = N(m, diag(σ²) + U Uᵀ).
//!
//! The r columns of U are directions in which many weights vary together, which mean-field cannot hold. The ELBO and its
//! estimate are those of `family_trainer.rs`; the family's equations stand in `family/low_rank.rs`.
//! Reference: Ong, Nott & Smith (2018), J. Comput. Graph. Stat. 27. Cost per step: K passes of the network and two passes
//! over (2 + r)P variational parameters.

use super::family_trainer::FamilyTrainer;
use super::observer::Observer;
use super::train::{BATCH_SIZE, EPOCHS, PATIENCE, train};
use super::variational::{
    BETA, INITIAL_MEAN, INITIAL_SCALING, INITIAL_STD, KL_WARMUP, SAMPLES, elbo, initial_mean, initial_std, tempering,
};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::family::LowRank;
use crate::optim::{LEARNING_RATE, SCHEDULE, WARMUP};
use crate::posterior::LowRankPosterior;
use crate::problem::Problem;
use crate::rng::{Key, Purpose};
use crate::settings::{Allowed, Default, Setting, Settings};

const RANK: Setting = Setting {
    name: "rank",
    help: "columns of U: directions in which weights vary together",
    default: Default::Int(5),
    allowed: Allowed::Int(1, 1000),
};

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "low-rank",
    summary: "variational inference with correlated weights: a diagonal plus a low-rank covariance",
    gives: "a Gaussian with a diagonal plus low-rank covariance",
    settings: &[
        EPOCHS,
        BATCH_SIZE,
        LEARNING_RATE,
        SCHEDULE,
        WARMUP,
        PATIENCE,
        RANK,
        SAMPLES,
        BETA,
        KL_WARMUP,
        INITIAL_MEAN,
        INITIAL_STD,
        INITIAL_SCALING,
    ],
    build: |settings| Box::new(LowRankInference { settings }),
};

/// The method with its settings.
#[derive(Debug)]
pub struct LowRankInference {
    settings: Settings,
}

impl Method for LowRankInference {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_row_noise(problem, &self.settings, 24 + 4 * self.settings.count("rank"))
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &self.settings;
        let (rank, samples) = (s.count("rank"), s.count("samples"));
        LowRank::check(problem.dim(), rank, samples)?;
        let (mean, std) = (initial_mean(problem, s, key, observer)?, initial_std(problem.layout(), s));
        // The means have taken the blocks of this purpose already.
        let start = key.purpose(Purpose::Init).derive(u64::MAX);
        let family = LowRank::new(&mean, &std, rank, samples, start);
        let mut trainer = FamilyTrainer::new(problem, family, samples, s.count("batch_size"), key);
        let summary = train(&mut trainer, problem, s, &tempering(s), key, observer)?;
        let (mean, std, factor) = trainer.family().parts();
        let posterior = LowRankPosterior::new(mean, std, factor, elbo(problem, &summary));
        Ok(Fit { posterior: Box::new(posterior), summary })
    }
}
