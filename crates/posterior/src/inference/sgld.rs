//! Stochastic-gradient Langevin dynamics: noisy gradient steps on mini-batches, without an accept step. For networks and data too
//! large for hmc; the step and its bias are in [`crate::kernel`].

use super::chain_options::{has_chains, memory_field};
use super::observer::Observer;
use super::starts::{Start, start_field};
use super::stochastic_chain::{
    ChainSchedule, Preconditioning, fit_stochastic, stochastic_course_fields, stochastic_fields,
};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};

crate::options! {
    /// Stochastic-gradient Langevin dynamics.
    pub struct Sgld: "sgld" {
        ..stochastic_fields!,
        ..stochastic_course_fields!,
    }
}
has_chains!(Sgld);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Sgld::NAME,
    summary: "stochastic-gradient Langevin dynamics: draws from mini-batches, with a small bias",
    gives: "draws of Markov chains",
    settings: Sgld::SETTINGS,
    build: |settings| Box::new(Checked::<Sgld>::from(settings)),
};

impl Method for Checked<Sgld> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
    fn settings(&self) -> &Settings {
        self.settings()
    }
    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_stochastic_chains(problem, &(&**self).into(), self.batch_size, 8)
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        fit_stochastic(self, None, problem, key, observer)
    }
}
