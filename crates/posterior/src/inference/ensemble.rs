//! Deep ensembles: S networks from different initial values, averaged; anchored, randomised MAP.
//!
//! p(y | x, D) ≈ 1/S Σ_k p(y | f_{w_k}(x)), w_k = argmax log p(D_k | w) + log p_k(w). D_k is D, or D without a part that is drawn for
//! each member. p_k is the prior, or, anchored, the prior with its mean moved to a draw a_k of itself. For real outcomes the
//! network gives the noise as well (heteroscedastic) unless the user says otherwise.
//!
//! Known bias: in a linear model with normal noise the anchored members have the posterior's mean Σ(ΦᵀY/σ² + S⁻¹m₀) and the
//! covariance Σ S⁻¹ Σ ≤ Σ: right where the data say nothing, too small where they say much. Members that are not
//! anchored have none at all there, since a concave problem has one maximum.
//!
//! References: Lakshminarayanan, Pritzel & Blundell (2017), NeurIPS; Pearce, Leibfried & Brintrup (2020), AISTATS. Cost: S MAP
//! fits side by side; S passes per prediction.

use super::map;
use super::members::fit_members;
use super::observer::Observer;
use super::point::PointTrainer;
use super::train::{has_training, training_fields};
use super::{Fit, Method, MethodEntry};
use crate::data::split;
use crate::error::{Error, Result};
use crate::likelihood::Outcome;
use crate::nn::Role;
use crate::optim::Decay;
use crate::posterior::MixturePosterior;
use crate::problem::Problem;
use crate::rng::{Key, Purpose};
use crate::settings::{Checked, NamedOptions, Options, Settings};

crate::options! {
    /// A deep ensemble: MAP networks from different initial values.
    pub struct Ensemble: "ensemble" {
        /// S: independent fits
        members: usize = 5 => Int(1, 1000),
        /// fraction of the rows that each member does not see, drawn for each
        leave_out: f64 = 0.0 => Float(0.0, 0.9),
        /// whether each member's prior is centred at a draw of the prior (randomised MAP) instead of at its mean
        anchored: bool = false,
        ..training_fields!,
    }
}
has_training!(Ensemble);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Ensemble::NAME,
    summary: "a deep ensemble: MAP networks from different initial values, side by side",
    gives: "one point per member",
    settings: Ensemble::SETTINGS,
    build: |settings| Box::new(Checked::<Ensemble>::from(settings)),
};

impl Method for Checked<Ensemble> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn real_likelihood(&self) -> &'static str {
        "heteroscedastic"
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        let one = super::needs::by_gradient(problem, self.batch_size, 8);
        super::needs::by_members(problem, self.members, one, 1)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        if self.anchored
            && let Some(prior) = problem.prior().without_normal()
        {
            return Err(Error::setting(
                format!("anchored members need a normal prior, and this one is '{}'", prior.name()),
                "leave ⟨set anchored=true⟩ out, or use ⟨prior=normal⟩",
            ));
        }
        let member = Member { options: self.clone() };
        // From one start, members would hardly differ.
        let problem = problem.without_start();
        let (fits, summary) = fit_members(&member, self.members, &problem, key, observer)?;
        let members = fits.into_iter().map(|f| f.posterior).collect();
        Ok(Fit { posterior: Box::new(MixturePosterior::new(members, None)), summary })
    }
}

/// One network; its key decides all that tells it from the others.
#[derive(Debug)]
struct Member {
    options: Checked<Ensemble>,
}

impl Method for Member {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.options.settings()
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &*self.options;
        let fewer = match s.leave_out {
            0.0 => None,
            part => {
                let data = problem.whole("leave_out")?;
                let classes = (problem.likelihood().outcome() == Outcome::Class).then_some(&*data.y);
                let seen = split(data.rows, part, classes, key)?.train;
                Some(problem.with_data(data.select(&seen))?)
            }
        };
        let problem = fewer.as_ref().unwrap_or(problem);
        let mut trainer = PointTrainer::new(problem, true, s.batch_size, key);
        if s.anchored {
            trainer = trainer.with_anchors(anchors(problem, key));
        }
        map::run(trainer, problem, &s.into(), true, key, observer)
    }
}

/// A draw of the prior; the likelihood's own parameters stay at their prior's mean, since a scale that is believed at random would be
/// noise in the noise.
fn anchors(problem: &Problem, key: Key) -> Vec<f32> {
    let mut anchors = vec![0.0; problem.dim()];
    problem.prior().sample(key.purpose(Purpose::Draw), &mut anchors);
    for (block, penalty) in problem.layout().blocks().iter().zip(problem.penalties()) {
        if block.role == Role::Noise {
            anchors[penalty.range].fill(penalty.centre);
        }
    }
    anchors
}
