//! A mixture of mean-field Gaussians: an ensemble of Bayesian networks.
//!
//! q(w) = 1/S Σ_k q_k(w), each q_k fitted by itself from its own initial values. The bound that is reported is the mean of the
//! members' ELBOs. Each is at most log p(D), so their mean is; and it is at most the mixture's own ELBO, because E_q[log p(w, D)] is the
//! mean of the members' and entropy is concave. What is lost is their difference, between 0 and ln S. Lakshminarayanan et al.
//! 2017 for the ensemble, Jaakkola & Jordan 1998 for the mixture bound.
//! Cost: S mean-field fits, in parallel; S times the memory on disk.

use super::mean_field::{EstimatorChoice, MeanField, mean_field_fields};
use super::members::fit_members;
use super::observer::Observer;
use super::train::training_fields;
use super::variational::{InitialMean, InitialScaling, variational_fields};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::optim::Decay;
use crate::posterior::MixturePosterior;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};

crate::options! {
    /// A mixture of mean-field Gaussians, fitted side by side.
    pub struct Mixture: "mixture" {
        /// S: independent fits
        members: usize = 5 => Int(1, 1000),
        ..mean_field_fields!,
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Mixture::NAME,
    summary: "a mixture of mean-field Gaussians: an ensemble of Bayesian networks, fitted side by side",
    gives: "a mixture of diagonal Gaussians",
    settings: Mixture::SETTINGS,
    build: |settings| Box::new(Checked::<Mixture>::from(settings)),
};

impl Method for Checked<Mixture> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        let one = super::needs::by_row_noise(problem, self.batch_size, 20);
        super::needs::by_members(problem, self.members, one, 2)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &**self;
        let member = MeanField {
            epochs: s.epochs,
            batch_size: s.batch_size,
            learning_rate: s.learning_rate,
            schedule: s.schedule,
            warmup: s.warmup,
            patience: s.patience,
            estimator: s.estimator,
            samples: s.samples,
            beta: s.beta,
            kl_warmup: s.kl_warmup,
            initial_mean: s.initial_mean,
            initial_std: s.initial_std,
            initial_scaling: s.initial_scaling,
        };
        let member = Checked::new(&member, ENTRY.name)?;
        let (fits, summary) = fit_members(&member, s.members, problem, key, observer)?;
        let members: Vec<_> = fits.into_iter().map(|f| f.posterior).collect();
        let bounds: Option<Vec<f64>> = members.iter().map(|m| m.log_evidence()).collect();
        let bound = bounds.map(|b| b.iter().sum::<f64>() / b.len() as f64);
        Ok(Fit { posterior: Box::new(MixturePosterior::new(members, bound)), summary })
    }
}
