//! Importance sampling: draws from a proposal q, each weighted by p(w, D)/q(w).
//!
//! E[h | D] ≈ Σ W_s h(w_s), W_s = v_s/Σv, v_s = p(w_s, D)/q(w_s), and p(D) ≈ 1/S Σ v_s. q is the prior or what another method of the
//! table has fitted. Weights are smoothed by a generalised Pareto law ([`Weights`]), and draws resampled by them; its k says whether any of
//! it means something. With the prior as q, or in more than a few dozen dimensions, it mostly does not, and says so.
//! Reference: Vehtari et al. (2024), JMLR 25(72). Cost: the proposal's fit, one log joint for each draw; memory of the draws that are kept.

use super::checkpoint::Unit;
use super::observer::{Flow, Observer, Progress};
use super::train::FitSummary;
use super::{Fit, Method, MethodEntry, find};
use crate::convergence::{Weights, importance_weights};
use crate::error::{Error, ErrorKind, Result};
use crate::posterior::{Posterior, PriorDraws, WeightedPosterior};
use crate::problem::Problem;
use crate::rng::{Key, Purpose, Stream};
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::snapshot::{State, Stateful};
use std::time::Instant;

crate::word_enum! {
    /// What importance sampling draws from.
    pub enum Proposal {
        /// The prior.
        Prior = "prior",
        /// What `mean-field` has fitted.
        MeanField = "mean-field",
        /// What `low-rank` has fitted.
        LowRank = "low-rank",
        /// What `full-covariance` has fitted.
        FullCovariance = "full-covariance",
        /// What `mixture` has fitted.
        Mixture = "mixture",
        /// What `ivon` has fitted.
        Ivon = "ivon",
        /// What `laplace` has fitted.
        Laplace = "laplace",
        /// What `swag` has fitted.
        Swag = "swag",
    }
}

/// What the fit of a proposal is told.
macro_rules! proposal_fields {
    ({ $($head:tt)* } $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// passes over the data; 0 means as many as give about 10000 steps, but at least 10
            epochs: usize = 0 => Int(0, 1_000_000),
            /// rows per step
            batch_size: usize = 128 => Int(1, i64::MAX),
            /// step size of Adam at its highest
            learning_rate: f64 = 0.005 => Above(0.0, 10.0),
            $($rest)*
        }
    };
}

crate::options! {
    /// The training of a proposal.
    struct ProposalTraining {
        ..proposal_fields!,
    }
}

crate::options! {
    /// Importance sampling from the prior or from another method's fit.
    pub struct Importance: "importance" {
        /// what draws come from: the prior, or what this method has fitted
        proposal: Proposal = Proposal::MeanField,
        /// S: draws from the proposal
        draws: usize = 2000 => Int(25, 100_000_000),
        /// draws resampled by their weights; those of them that differ are kept
        kept: usize = 1000 => Int(1, 1_000_000),
        ..proposal_fields!,
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Importance::NAME,
    summary: "importance sampling: draws from the prior or from another method's fit, weighted by the posterior",
    gives: "weighted draws",
    settings: Importance::SETTINGS,
    build: |settings| Box::new(Checked::<Importance>::from(settings)),
};

/// Most numbers of the draws that are kept: 2 GiB.
const NUMBERS: usize = 1 << 29;
/// Draws between two looks at the observer.
const PART: usize = 1000;

impl Importance {
    /// The proposal, and how its fit went.
    fn fit_proposal(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        if self.proposal == Proposal::Prior {
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
        let entry = find(self.proposal.word())?;
        let Importance { epochs, batch_size, learning_rate, .. } = *self;
        let training = ProposalTraining { epochs, batch_size, learning_rate };
        // Of what was said of training, what the method knows.
        let known = |(key, _): &(String, _)| entry.settings.iter().any(|s| s.name == key);
        let given: Vec<_> = training.pairs().into_iter().filter(known).collect();
        entry.configure(&given)?.fit(problem, key, observer)
    }

    /// Log weights of all draws, with looks at the observer in between.
    fn weigh(&self, problem: &Problem, q: &dyn Posterior, key: Key, observer: &mut dyn Observer) -> Result<Weights> {
        let draws = self.draws;
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

impl Method for Checked<Importance> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        // The proposal, and the draws that are kept.
        let kept = crate::memory::array::<f32>(&[self.kept, problem.dim()]);
        super::needs::by_gradient(problem, self.batch_size, 24).saturating_add(kept)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let started = Instant::now();
        problem.whole(ENTRY.name)?;
        let Fit { posterior: q, mut summary } = self.fit_proposal(problem, key.purpose(Purpose::Member), observer)?;
        let draws_key = key.purpose(Purpose::Draw);
        let weights = self.weigh(problem, &*q, draws_key, observer)?;
        if !weights.raw().iter().any(|w| w.is_finite()) {
            let what = "the log joint is not finite at any draw of the proposal";
            return Err(Error::numerical(what, "use another proposal, or look for extreme values in the data"));
        }
        let uniform = Stream::new(key.purpose(Purpose::Estimate)).uniform();
        let counts = weights.resampled(self.kept, uniform);
        let chosen: Vec<usize> = (0..counts.len()).filter(|s| counts[*s] > 0).collect();
        if chosen.len().saturating_mul(problem.dim()) > NUMBERS {
            let what = format!("{} draws of {} parameters do not fit into memory", chosen.len(), problem.dim());
            return Err(Error::setting(what, format!("use ⟨set kept={}⟩ or fewer", (NUMBERS / problem.dim()).max(1))));
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
