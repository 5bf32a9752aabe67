//! Stochastic-gradient Langevin dynamics: noisy gradient steps on mini-batches, without an accept step. For networks and data too
//! large for hmc; the step and its bias are in [`crate::kernel`].

use super::observer::Observer;
use super::stochastic_chain::{
    COURSE, CYCLES, PRECONDITIONER, RATE, STOCHASTIC_CHAINS, STOCHASTIC_DRAWS, STOCHASTIC_MEMORY, STOCHASTIC_START,
    STOCHASTIC_THIN, STOCHASTIC_WARMUP, fit_stochastic,
};
use super::train::BATCH_SIZE;
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::Settings;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "sgld",
    summary: "stochastic-gradient Langevin dynamics: draws from mini-batches, with a small bias",
    gives: "draws of Markov chains",
    settings: &[
        STOCHASTIC_CHAINS,
        STOCHASTIC_DRAWS,
        STOCHASTIC_WARMUP,
        STOCHASTIC_THIN,
        BATCH_SIZE,
        RATE,
        COURSE,
        CYCLES,
        PRECONDITIONER,
        STOCHASTIC_START,
        STOCHASTIC_MEMORY,
    ],
    build: |settings| Box::new(SgldSampler { settings }),
};

/// Stochastic-gradient Langevin dynamics.
#[derive(Debug)]
pub struct SgldSampler {
    settings: Settings,
}

impl Method for SgldSampler {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
    fn settings(&self) -> &Settings {
        &self.settings
    }
    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_stochastic_chains(problem, &self.settings, 8)
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        fit_stochastic(&self.settings, None, problem, key, observer)
    }
}
