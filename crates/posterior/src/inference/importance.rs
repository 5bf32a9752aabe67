//! Importance sampling: draws from a proposal q, each weighted by p(w, D)/q(w).
//!
//! E[h | D] ≈ Σ W_s h(w_s), W_s = v_s/Σv, v_s = p(w_s, D)/q(w_s), and p(D) ≈ 1/S Σ v_s. q is the prior or what another method of the
//! table has fitted. Weights are smoothed by a generalised Pareto law ([`Weights`]), and draws resampled by them; its k says whether any of
//! it means something. With the prior as q, or in more than a few dozen dimensions, it mostly does not, and says so.
//! Reference: Vehtari et al. (2024), JMLR 25(72). Cost: the proposal's fit, one log joint for each draw; memory of the draws that are kept.

use super::checkpoint::Unit;
use super::observer::{Flow, Observer, Progress};
use super::train::{BATCH_SIZE, EPOCHS, FitSummary};
use super::{Fit, Method, MethodEntry, find};
use crate::diagnose::{Weights, importance_weights};
use crate::error::{Error, ErrorKind, Result};
use crate::optim::LEARNING_RATE;
use crate::posterior::{Posterior, PriorDraws, WeightedPosterior};
use crate::problem::Problem;
use crate::rng::{Key, Purpose, Stream};
use crate::settings::{Allowed, Default, Setting, Settings};
use crate::snapshot::{State, Stateful};
use std::time::Instant;

const PROPOSAL: Setting = Setting {
    name: "proposal",
    help: "what draws come from: the prior, or what this method has fitted",
    default: Default::Text("mean-field"),
    allowed: Allowed::OneOf(&[
        "prior",
        "mean-field",
        "low-rank",
        "full-covariance",
        "mixture",
        "ivon",
        "laplace",
        "swag",
    ]),
};
const DRAWS: Setting = Setting {
    name: "draws",
    help: "S: draws from the proposal",
    default: Default::Int(2000),
    allowed: Allowed::Int(25, 100_000_000),
};
const KEPT: Setting = Setting {
    name: "kept",
    help: "draws resampled by their weights; those of them that differ are kept",
    default: Default::Int(1000),
    allowed: Allowed::Int(1, 1_000_000),
};

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "importance",
    summary: "importance sampling: draws from the prior or from another method's fit, weighted by the posterior",
    gives: "weighted draws",
    settings: &[PROPOSAL, DRAWS, KEPT, EPOCHS, BATCH_SIZE, LEARNING_RATE],
    build: |settings| Box::new(ImportanceSampling { settings }),
};

/// The method with its settings.
#[derive(Debug)]
pub struct ImportanceSampling {
    settings: Settings,
}

/// Most numbers of the draws that are kept: 2 GiB.
const NUMBERS: usize = 1 << 29;
/// Draws between two looks at the observer.
const PART: usize = 1000;

impl ImportanceSampling {
    /// The proposal, and how its fit went.
    fn proposal(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let name = self.settings.text("proposal");
        if name == "prior" {
            let summary = FitSummary {
                steps: 0,
                seconds: 0.0,
                stopped_early: false,
                penalty_name: String::new(),
                epochs: 0,
                trace: Vec::new(),
            };
            return Ok(Fit { posterior: Box::new(PriorDraws::new(problem.prior().clone())), summary });
        }
        let entry = find(name)?;
        // Of what was said of training, what the method knows.
        let known = |(key, _): &(String, _)| entry.settings.iter().any(|s| s.name == key);
        let own = [DRAWS.name, KEPT.name, PROPOSAL.name];
        let given: Vec<_> =
            self.settings.to_pairs().into_iter().filter(|p| known(p) && !own.contains(&&*p.0)).collect();
        entry.configure(&given)?.fit(problem, key, observer)
    }

    /// Log weights of all draws, with looks at the observer in between.
    fn weigh(&self, problem: &Problem, q: &dyn Posterior, key: Key, observer: &mut dyn Observer) -> Result<Weights> {
        let draws = self.settings.count("draws");
        let parts = draws.div_ceil(PART);
        let mut unit = Unit::of(observer.checkpoint(), "weights", key);
        let mut work = Weighed { weights: Vec::with_capacity(draws), most: draws };
        if let Some(unit) = &unit {
            unit.resume(&mut work)?;
        }
        while work.weights.len() < draws {
            let weights = &mut work.weights;
            let part = weights.len() / PART;
            let progress = Progress {
                step: weights.len() as u64,
                steps: draws as u64,
                epoch: part + 1,
                epochs: parts,
                objective: f64::NAN,
            };
            let stop = observer.progress(&progress) == Flow::Stop;
            if let Some(unit) = unit.as_mut().filter(|u| stop || u.due()) {
                unit.keep(&mut work)?;
            }
            if stop {
                return Err(ErrorKind::Interrupted.into());
            }
            let weights = &mut work.weights;
            let count = PART.min(draws - weights.len());
            let found = importance_weights(problem, q, count, key.step(part as u64)).ok_or_else(|| {
                let what = format!("a posterior of kind '{}' has no density to divide by", q.kind());
                Error::setting(what, "use another proposal, such as mean-field")
            })?;
            weights.extend(found);
        }
        if let Some(unit) = &mut unit {
            unit.keep(&mut work)?;
        }
        Ok(Weights::new(&work.weights))
    }
}

/// Log weights so far, whole parts of them.
struct Weighed {
    weights: Vec<f64>,
    most: usize,
}

impl Stateful for Weighed {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.vector("log_weights", &mut self.weights, self.most)?;
        if self.weights.len() < self.most && !self.weights.len().is_multiple_of(PART) {
            return Err(Error::setting(format!("{} weights are no whole parts", self.weights.len()), "begin anew"));
        }
        Ok(())
    }
}

impl Method for ImportanceSampling {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        // The proposal, and the draws that are kept.
        let kept = crate::memory::array::<f32>(&[self.settings.count("kept"), problem.dim()]);
        super::needs::by_gradient(problem, &self.settings, 24).saturating_add(kept)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let started = Instant::now();
        problem.whole(ENTRY.name)?;
        let Fit { posterior: q, mut summary } = self.proposal(problem, key.purpose(Purpose::Member), observer)?;
        let draws_key = key.purpose(Purpose::Draw);
        let weights = self.weigh(problem, &*q, draws_key, observer)?;
        if !weights.raw().iter().any(|w| w.is_finite()) {
            let what = "the log joint is not finite at any draw of the proposal";
            return Err(Error::numerical(what, "use another proposal, or look for extreme values in the data"));
        }
        let uniform = Stream::new(key.purpose(Purpose::Estimate)).uniform();
        let counts = weights.resampled(self.settings.count("kept"), uniform);
        let chosen: Vec<usize> = (0..counts.len()).filter(|s| counts[*s] > 0).collect();
        if chosen.len().saturating_mul(problem.dim()) > NUMBERS {
            let what = format!("{} draws of {} parameters do not fit into memory", chosen.len(), problem.dim());
            return Err(Error::setting(what, format!("use --set kept={} or fewer", (NUMBERS / problem.dim()).max(1))));
        }
        let mut w = Vec::with_capacity(chosen.len() * problem.dim());
        // Draws follow from their keys: they are made again rather than all kept.
        chosen.iter().for_each(|s| w.extend(q.draw(draws_key.step((s / PART) as u64).step((s % PART) as u64)).w));
        let counts: Vec<u32> = chosen.iter().map(|s| counts[*s]).collect();
        // What q keeps fixed is not integrated over: then the mean weight is no evidence.
        let evidence = q.log_density(&w[..problem.dim()]).map(|_| weights.log_mean());
        let told =
            evidence.map_or(String::new(), |e| format!("; log evidence {e:.2} ± {:.2}", weights.log_mean_error()));
        let (verdict, draws, worth) = (weights.verdict(), weights.raw().len(), weights.ess());
        observer.warn(&format!("{verdict} ({draws} draws worth {worth:.1}{told})"));
        summary.steps += weights.raw().len() as u64;
        summary.seconds = started.elapsed().as_secs_f64();
        let posterior = WeightedPosterior::new(problem.dim(), w, &counts, weights.raw(), evidence);
        Ok(Fit { posterior: Box::new(posterior), summary })
    }
}
