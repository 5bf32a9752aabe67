//! The Bayesian bootstrap: random weights on the rows, one network for each set of them.
//!
//! w_k = argmax Σₙ ωₙ log p(yₙ | f_w(xₙ)) + log p(w), (ω₁ … ω_N)/N ~ Dirichlet(1, …, 1): a posterior over the distribution of the data,
//! carried over to the network that fits it best. Without the prior, and for the mean of N numbers, w has the variance s²/(N + 1)
//! with s² = 1/N Σ(yₙ − ȳ)². Row weights of the data multiply ω.
//!
//! References: Rubin (1981), Annals of Statistics; Newton & Raftery (1994), JRSS B, the weighted-likelihood bootstrap. Cost: S MAP fits side by
//! side; S passes per prediction.

use super::map;
use super::members::fit_members;
use super::observer::Observer;
use super::train::{has_training, training_fields};
use super::{Fit, Method, MethodEntry};
use crate::data::Dataset;
use crate::error::Result;
use crate::optim::Decay;
use crate::posterior::MixturePosterior;
use crate::problem::Problem;
use crate::rng::{Key, Purpose, Stream};
use crate::settings::{Checked, NamedOptions, Options, Settings};

crate::options! {
    /// The Bayesian bootstrap: a network for each of several random weightings of the rows.
    pub struct Bootstrap: "bootstrap" {
        /// S: independent fits
        members: usize = 10 => Int(1, 1000),
        /// whether the prior regularises each network; without it, each maximises the weighted likelihood
        with_prior: bool = true,
        ..training_fields!,
    }
}
has_training!(Bootstrap);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Bootstrap::NAME,
    summary: "the Bayesian bootstrap: one network for each of several random weightings of the rows",
    gives: "one point per member",
    settings: Bootstrap::SETTINGS,
    build: |settings| Box::new(Checked::<Bootstrap>::from(settings)),
};

impl Method for Checked<Bootstrap> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        let one = super::needs::by_gradient(problem, self.batch_size, 8);
        super::needs::by_members(problem, self.members, one, 1)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let member = Member { options: self.clone() };
        let (fits, summary) = fit_members(&member, self.members, problem, key, observer)?;
        let members = fits.into_iter().map(|f| f.posterior).collect();
        Ok(Fit { posterior: Box::new(MixturePosterior::new(members, None)), summary })
    }
}

/// One network on weights of its own.
#[derive(Debug)]
struct Member {
    options: Checked<Bootstrap>,
}

impl Method for Member {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.options.settings()
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let data = problem.whole(ENTRY.name)?;
        let mut weights = bootstrap_weights(data.rows, key);
        if let Some(own) = &data.weights {
            weights.iter_mut().zip(own.iter()).for_each(|(w, own)| *w *= own);
        }
        let weighted = problem.with_data(Dataset { weights: Some(weights.into()), ..data.clone() })?;
        map::fit(&weighted, &(&*self.options).into(), self.options.with_prior, key, observer)
    }
}

/// N times a draw of Dirichlet(1, …, 1) over N rows: weights that are 1 on average, by normalised exponentials.
pub fn bootstrap_weights(rows: usize, key: Key) -> Vec<f64> {
    let mut stream = Stream::new(key.purpose(Purpose::RowWeights));
    let mut weights: Vec<f64> = (0..rows).map(|_| -stream.uniform().ln()).collect();
    let scale = rows as f64 / weights.iter().sum::<f64>();
    weights.iter_mut().for_each(|w| *w *= scale);
    weights
}
