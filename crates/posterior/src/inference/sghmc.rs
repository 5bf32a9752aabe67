//! Stochastic-gradient Hamiltonian Monte Carlo: noisy gradient steps with momentum on mini-batches, without an accept step. For networks and data too
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
use crate::settings::{Allowed, Default, Setting, Settings};

const FRICTION: Setting = Setting {
    name: "friction",
    help: "part of the momentum that is lost in a step; 1 is sgld",
    default: Default::Float(0.1),
    allowed: Allowed::Above(0.0, 1.0),
};

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "sghmc",
    summary: "stochastic-gradient Hamiltonian Monte Carlo: draws from mini-batches, with a small bias",
    gives: "draws of Markov chains",
    settings: &[
        STOCHASTIC_CHAINS,
        STOCHASTIC_DRAWS,
        STOCHASTIC_WARMUP,
        STOCHASTIC_THIN,
        BATCH_SIZE,
        RATE,
        FRICTION,
        COURSE,
        CYCLES,
        PRECONDITIONER,
        STOCHASTIC_START,
        STOCHASTIC_MEMORY,
    ],
    build: |settings| Box::new(SghmcSampler { settings }),
};

/// Stochastic-gradient Hamiltonian Monte Carlo.
#[derive(Debug)]
pub struct SghmcSampler {
    settings: Settings,
}

impl Method for SghmcSampler {
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
        fit_stochastic(&self.settings, Some(self.settings.float("friction")), problem, key, observer)
    }
}
