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

use super::map::{self, SETTINGS as MAP_SETTINGS};
use super::members::{MEMBERS, fit_members};
use super::observer::Observer;
use super::point::PointTrainer;
use super::{Fit, Method, MethodEntry};
use crate::data::split;
use crate::error::{Error, Result};
use crate::likelihood::Outcome;
use crate::nn::Role;
use crate::posterior::MixturePosterior;
use crate::problem::Problem;
use crate::rng::{Key, Purpose};
use crate::settings::{Allowed, Default, Setting, Settings, joined};

const OWN: [Setting; 3] = [
    MEMBERS,
    Setting {
        name: "leave_out",
        help: "part of the rows that each member does not see, drawn for each",
        default: Default::Float(0.0),
        allowed: Allowed::Float(0.0, 0.9),
    },
    Setting {
        name: "anchored",
        help: "whether each member's prior is centred at a draw of the prior (randomised MAP) instead of at its mean",
        default: Default::Bool(false),
        allowed: Allowed::Bool,
    },
];

const SETTINGS: [Setting; OWN.len() + MAP_SETTINGS.len()] = joined(&OWN, MAP_SETTINGS);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "ensemble",
    summary: "a deep ensemble: MAP networks from different initial values, side by side",
    gives: "one point per member",
    settings: &SETTINGS,
    build: |settings| Box::new(EnsembleInference { settings }),
};

/// The method with its settings.
#[derive(Debug)]
pub struct EnsembleInference {
    settings: Settings,
}

impl Method for EnsembleInference {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn real_likelihood(&self) -> &'static str {
        "heteroscedastic"
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        let one = super::needs::by_gradient(problem, &self.settings, 8);
        super::needs::by_members(problem, &self.settings, one, 1)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        if self.settings.flag("anchored")
            && let Some(prior) = problem.prior().without_normal()
        {
            return Err(Error::setting(
                format!("anchored members need a normal prior, and this one is '{}'", prior.name()),
                "leave --set anchored=true out, or use --prior normal",
            ));
        }
        let member = Member { settings: self.settings.clone() };
        // From one start, members would hardly differ.
        let problem = problem.without_start();
        let (fits, summary) = fit_members(&member, self.settings.count("members"), &problem, key, observer)?;
        let members = fits.into_iter().map(|f| f.posterior).collect();
        Ok(Fit { posterior: Box::new(MixturePosterior::new(members, None)), summary })
    }
}

/// One network; its key decides all that tells it from the others.
#[derive(Debug)]
struct Member {
    settings: Settings,
}

impl Method for Member {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &self.settings;
        let fewer = match s.float("leave_out") {
            0.0 => None,
            part => {
                let data = problem.whole("leave_out")?;
                let classes = (problem.likelihood().outcome() == Outcome::Class).then_some(&*data.y);
                let seen = split(data.rows, part, classes, key)?.train;
                Some(problem.with_data(data.select(&seen))?)
            }
        };
        let problem = fewer.as_ref().unwrap_or(problem);
        let mut trainer = PointTrainer::new(problem, true, s.count("batch_size"), key);
        if s.flag("anchored") {
            trainer = trainer.with_anchors(anchors(problem, key));
        }
        map::run(trainer, problem, s, true, key, observer)
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
