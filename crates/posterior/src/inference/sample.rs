//! Samplers of any log density: what hmc, nuts, mclmc, metropolis and annealing share, for networks and for a user's own density.
//!
//! ```
//! use posterior::inference::{sample, Silent};
//! use posterior::problem::FnDensity;
//! use posterior::{rng::Key, settings::Value};
//!
//! # fn main() -> posterior::Result<()> {
//! // N(0, 1) × N(0, 2²)
//! let density = || FnDensity::new(2, |w: &[f64], gradient: &mut [f64]| {
//!     gradient.copy_from_slice(&[-w[0], -w[1] / 4.0]);
//!     -0.5 * (w[0] * w[0] + w[1] * w[1] / 4.0)
//! });
//! let settings = [("draws".to_owned(), Value::Int(250))];
//! let start = |_chain: usize, _attempt: usize| vec![0.5, -0.5];
//! let chains = sample("nuts", &settings, &density, &start, Key::new(1), &mut Silent)?;
//! assert_eq!((chains.draws(), chains.divergences()), (1000, 0));
//! # Ok(())
//! # }
//! ```

use super::chains::{ChainPlan, Transition, run_chains};
use super::observer::Observer;
use super::starts::{Start, Starts};
use super::train::FitSummary;
use super::{Fit, find, methods};
use crate::error::{Error, Result};
use crate::kernel::Target;
use crate::posterior::{Chains, DrawsPosterior};
use crate::problem::{LogDensity, MixedDensity, Problem, RoughDensity};
use crate::rng::{Key, Purpose};
use crate::settings::Value;
use std::time::Instant;

crate::word_enum! {
    /// The precision of gradients; sums are in f64.
    pub enum GradientPrecision {
        /// Double.
        F64 = "f64",
        /// Single, in half the time.
        F32 = "f32",
    }
}

/// The precision of gradients, with its default.
macro_rules! precision_field {
    ({ $($head:tt)* } ($precision:expr) $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// of gradients: f64, or f32 in half the time; sums are in f64
            precision: GradientPrecision = $precision,
            $($rest)*
        }
    };
}
pub(super) use precision_field;

/// A method that samples any density.
pub trait Sampler: Send + Sync {
    /// A chain of `plan.warmup` transitions that adapt and all others that do not, from a start where the density is finite.
    fn chain<'a>(
        &self,
        target: Target<'a>,
        start: &[f64],
        plan: ChainPlan,
        key: Key,
    ) -> Result<Box<dyn Transition + 'a>>;

    /// How long the chains are, for so many parameters; see [`ChainPlan::new`].
    fn plan(&self, dim: usize, observer: &mut dyn Observer) -> Result<ChainPlan>;

    /// Whether its moves are accepted by the value, so that the force may be rougher.
    fn accepts_by_value(&self) -> bool {
        false
    }
}

/// Where a chain begins: (chain, attempt) → w. Further attempts are asked for where the density is not finite.
pub type StartAt<'s> = &'s (dyn Fn(usize, usize) -> Vec<f64> + Sync);

/// Attempts at a start with a finite density.
const ATTEMPTS: usize = 20;

/// Samples a density with a method by name. `density` makes one for each chain, `start` says where it begins.
pub fn sample<D: LogDensity>(
    method: &str,
    settings: &[(String, Value)],
    density: &(dyn Fn() -> D + Sync),
    start: StartAt<'_>,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Chains> {
    let method = find(method)?.configure(settings)?;
    let Some(sampler) = method.sampler() else {
        let all = methods().into_iter().filter(|m| m.configure(&[]).is_ok_and(|m| m.sampler().is_some()));
        let names: Vec<&str> = all.map(|m| m.name).collect();
        return Err(Error::setting(
            format!("the method '{}' does not sample a density", method.name()),
            format!("choose one of: {}", names.join(", ")),
        ));
    };
    let dim = density().dim();
    let plan = sampler.plan(dim, observer)?;
    run(sampler, plan, dim, &|| Box::new(density()), start, key, observer)
}

/// Chain c is keyed by (key, chain, c) alone.
fn run<'a>(
    sampler: &dyn Sampler,
    plan: ChainPlan,
    dim: usize,
    density: &(dyn Fn() -> Box<dyn LogDensity + 'a> + Sync),
    start: StartAt<'_>,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Chains> {
    let key = key.purpose(Purpose::Chain);
    let make = |c: usize| {
        let mut target = Target::new(density());
        for attempt in 0..ATTEMPTS {
            let w = start(c, attempt);
            if w.len() != dim {
                let what = format!("the start of chain {} has {} numbers, the density takes {dim}", c + 1, w.len());
                return Err(Error::setting(what, "give one number per parameter"));
            }
            let mut gradient = vec![0.0; dim];
            if target.value_and_gradient(&w, &mut gradient)?.is_some() {
                return sampler.chain(target, &w, plan, key.derive(c as u64));
            }
        }
        let reason = target.reason.take().unwrap_or_default();
        let shown: Vec<String> = start(c, ATTEMPTS - 1).iter().take(5).map(|v| format!("{v:.4}")).collect();
        Err(Error::numerical(
            format!(
                "chain {} found no start in {ATTEMPTS} attempts: {reason}, the last time at w = ({}{})",
                c + 1,
                shown.join(", "),
                if dim > 5 { ", …" } else { "" }
            ),
            "look for extreme values in the data, or start elsewhere",
        ))
    };
    run_chains(plan, dim, &make, observer)
}

/// Samples the posterior of a problem, from draws of `start` where one was fitted before.
pub(super) fn fit_by_sampling(
    sampler: &dyn Sampler,
    start: Start,
    precision: GradientPrecision,
    problem: &Problem,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Fit> {
    let started = Instant::now();
    problem.whole("this sampler")?;
    let plan = sampler.plan(problem.dim(), observer)?;
    let starts = Starts::new(start, problem, plan.chains, key, observer)?;
    // With a chain for every thread, a chain's arithmetic keeps to its own.
    let alone = plan.chains >= rayon::current_num_threads();
    let rough = precision == GradientPrecision::F32;
    let density = || -> Box<dyn LogDensity + '_> {
        match (rough, sampler.accepts_by_value()) {
            (false, _) => Box::new(problem.density::<f64>(usize::MAX).alone(alone)),
            (true, true) => Box::new(MixedDensity::new(problem, alone)),
            (true, false) => Box::new(RoughDensity::new(problem, alone)),
        }
    };
    let at = |chain: usize, attempt: usize| starts.at(chain, attempt);
    let chains = run(sampler, plan, problem.dim(), &density, &at, key, observer)?;
    Ok(fit_of_chains(chains, plan, problem.dim(), started))
}

/// Chains as a fit.
pub(super) fn fit_of_chains(chains: Chains, plan: ChainPlan, dim: usize, started: Instant) -> Fit {
    let summary = FitSummary {
        steps: (chains.chains.len() * plan.warmup + chains.draws() * plan.thin) as u64,
        seconds: started.elapsed().as_secs_f64(),
        stopped_early: chains.incomplete,
        penalty_name: String::new(),
        epochs: 0,
        trace: Vec::new(),
    };
    Fit { posterior: Box::new(DrawsPosterior::new(chains, dim)), summary }
}
