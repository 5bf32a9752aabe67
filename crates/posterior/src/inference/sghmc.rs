//! Stochastic-gradient Hamiltonian Monte Carlo: noisy gradient steps with momentum on mini-batches, without an accept step. For networks and data too
//! large for hmc; the step and its bias are in [`crate::kernel`].

use super::chain_options::{has_chains, memory_field};
use super::observer::Observer;
use super::sgld::Sgld;
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
    /// Stochastic-gradient Hamiltonian Monte Carlo.
    pub struct Sghmc: "sghmc" {
        ..stochastic_fields!,
        /// fraction of the momentum that is lost in a step; 1 is sgld
        friction: f64 = 0.1 => Above(0.0, 1.0),
        ..stochastic_course_fields!,
    }
}
has_chains!(Sghmc);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Sghmc::NAME,
    summary: "stochastic-gradient Hamiltonian Monte Carlo: draws from mini-batches, with a small bias",
    gives: "draws of Markov chains",
    settings: Sghmc::SETTINGS,
    build: |settings| Box::new(Checked::<Sghmc>::from(settings)),
};

impl Method for Checked<Sghmc> {
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
        let s = &**self;
        let shared = Sgld {
            chains: s.chains,
            draws: s.draws,
            warmup: s.warmup,
            thin: s.thin,
            batch_size: s.batch_size,
            learning_rate: s.learning_rate,
            schedule: s.schedule,
            cycles: s.cycles,
            preconditioner: s.preconditioner,
            start: s.start,
            memory_mib: s.memory_mib,
        };
        fit_stochastic(&shared, Some(s.friction), problem, key, observer)
    }
}
