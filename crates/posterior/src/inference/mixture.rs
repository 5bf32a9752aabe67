//! A mixture of mean-field Gaussians: an ensemble of Bayesian networks.
//!
//! q(w) = 1/S Σ_k q_k(w), each q_k fitted by itself from its own initial values. The bound that is reported is the mean of the
//! members' ELBOs. Each is at most log p(D), so their mean is; and it is at most the mixture's own ELBO, because E_q[log p(w, D)] is the
//! mean of the members' and entropy is concave. What is lost is their difference, between 0 and ln S. Lakshminarayanan et al.
//! 2017 for the ensemble, Jaakkola & Jordan 1998 for the mixture bound.
//! Cost: S mean-field fits, in parallel; S times the memory on disk.

use super::members::{MEMBERS, fit_members};
use super::observer::Observer;
use super::{Fit, Method, MethodEntry, mean_field};
use crate::error::Result;
use crate::posterior::MixturePosterior;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Setting, Settings, joined};

/// Those of mean-field, and how many.
const SETTINGS: [Setting; 1 + mean_field::ENTRY.settings.len()] = joined(&[MEMBERS], mean_field::ENTRY.settings);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "mixture",
    summary: "a mixture of mean-field Gaussians: an ensemble of Bayesian networks, fitted side by side",
    gives: "a mixture of diagonal Gaussians",
    settings: &SETTINGS,
    build: |settings| Box::new(MixtureInference { settings }),
};

/// The method with its settings.
#[derive(Debug)]
pub struct MixtureInference {
    settings: Settings,
}

impl Method for MixtureInference {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        let one = super::needs::by_row_noise(problem, &self.settings, 20);
        super::needs::by_members(problem, &self.settings, one, 2)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let member = (mean_field::ENTRY.build)(self.settings.restricted_to(mean_field::ENTRY.settings));
        let (fits, summary) = fit_members(&*member, self.settings.count("members"), problem, key, observer)?;
        let members: Vec<_> = fits.into_iter().map(|f| f.posterior).collect();
        let bounds: Option<Vec<f64>> = members.iter().map(|m| m.log_evidence()).collect();
        let bound = bounds.map(|b| b.iter().sum::<f64>() / b.len() as f64);
        Ok(Fit { posterior: Box::new(MixturePosterior::new(members, bound)), summary })
    }
}
