//! A fitted model: everything needed to predict, from one fit or from one file.

mod file;
mod import;
mod recipe;
mod usual;

pub use import::{ImportOptions, import};
pub use recipe::{Choice, LayerPrior, Recipe, Resolved};
pub use usual::FEW;

use crate::apply::calibrate::Calibration;
use crate::data::{EncodeOptions, Encoded, Encoder, Table, TargetKind};
use crate::diagnose::Mixing;
use crate::error::Result;
use crate::inference::{FitSummary, Observer};
use crate::likelihood::Likelihood;
use crate::nn::AnyNetwork;
use crate::posterior::Posterior;
use crate::predict::{LinearisedMixture, Link, MomentsPredictor, NetworkPredictor, Predictive, Predictor, TargetScale};
use crate::rng::Key;
use crate::settings::Value;
use std::sync::Arc;

/// A network with its posterior and the transforms of its data.
#[derive(Debug, Clone)]
pub struct Model {
    /// What was fitted, and how; every setting spelled out.
    pub recipe: Recipe,
    /// From a user's table to rows of the network.
    pub encoder: Encoder,
    /// What the random streams of the fit were keyed by.
    pub seed: u64,
    /// Rows it was fitted to.
    pub rows: usize,
    /// What was learnt from held-back rows after the fit.
    pub calibration: Option<Calibration>,
    /// How the fit went.
    pub summary: FitSummary,
    /// Of a posterior made of chains: how well their predictions have mixed at the rows of the fit.
    pub mixing: Option<Mixing>,
    /// f_w.
    pub network: Arc<dyn AnyNetwork>,
    /// p(y | f).
    pub likelihood: Arc<dyn Likelihood>,
    /// q(w).
    pub posterior: Arc<dyn Posterior>,
}

impl Model {
    /// Fits a recipe to a table. Warnings go to the observer.
    pub fn fit(
        recipe: &Recipe,
        table: &Table,
        options: &EncodeOptions,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Model> {
        let fitted = Encoder::fit(table, options)?;
        fitted.warnings.iter().for_each(|w| observer.warn(w));
        Model::fit_encoded(recipe, fitted.encoder, table, None, seed, observer)
    }

    /// Fits another method from where a model is: the same network, likelihood and encoding of the table. `recipe` says the method, and the
    /// prior; methods that take gradient steps begin at the model's centre, chains at its draws, and `laplace` takes the centre as it is.
    pub fn fit_from(
        start: &Model,
        recipe: &Recipe,
        table: &Table,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Model> {
        Model::fit_encoded(recipe, start.encoder.clone(), table, Some(start.posterior.clone()), seed, observer)
    }

    fn fit_encoded(
        recipe: &Recipe,
        encoder: Encoder,
        table: &Table,
        start: Option<Arc<dyn Posterior>>,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Model> {
        let Encoded { data, .. } = encoder.encode(table, true)?;
        let rows = data.rows;
        let mut resolved = recipe.with_default_method(&encoder, rows)?.resolve(&encoder)?;
        let mut problem = resolved.clone().problem(data)?;
        if recipe.leaves_prior_open() && start.is_none() {
            resolved = usual::with_prior_by_evidence(&resolved, &problem, Key::new(seed)).resolve(&encoder)?;
            problem = problem.with_prior(resolved.prior.clone())?;
        }
        let (network, likelihood) = (resolved.network.clone(), resolved.likelihood.clone());
        let (recipe, method) = (resolved.recipe.clone(), resolved.method()?);
        if let Some(start) = start {
            problem = problem.with_start(start)?;
        }
        let fit = method.fit(&problem, Key::new(seed), observer)?;
        let mut model = Model {
            recipe,
            encoder,
            seed,
            rows,
            calibration: None,
            summary: fit.summary,
            mixing: None,
            network,
            likelihood,
            posterior: fit.posterior.into(),
        };
        let posterior = model.posterior.clone();
        model.mixing = posterior.chains().map(|chains| Mixing::new(&model, chains, problem.data()));
        Ok(model)
    }

    /// A predictor with S draws.
    pub fn predictor(&self, draws: usize) -> NetworkPredictor {
        NetworkPredictor {
            network: self.network.clone(),
            likelihood: self.likelihood.clone(),
            posterior: self.posterior.clone(),
            draws,
            key: Key::new(self.seed),
            scale: Model::target_scale(&self.encoder),
        }
    }

    /// A predictor by moments, with S components; an error where the posterior is not a diagonal Gaussian or a layer is not
    /// dense.
    pub fn moments_predictor(&self, components: usize) -> Result<MomentsPredictor> {
        let scale = Model::target_scale(&self.encoder);
        MomentsPredictor::new(&*self.network, self.likelihood.clone(), &*self.posterior, components, scale)
    }

    /// A predictor by the linearised network, with S components; an error where the posterior is neither a Gaussian over blocks, as that of
    /// `laplace` is, nor a mixture of them.
    pub fn linearised_predictor(&self, components: usize, link: Link) -> Result<LinearisedMixture> {
        let (network, likelihood) = (self.network.clone(), self.likelihood.clone());
        let scale = Model::target_scale(&self.encoder);
        LinearisedMixture::new(network, likelihood, &*self.posterior, components, link, scale)
    }

    /// How the recipe wants to predict: linearised where the method's setting `predictive` says so, else by draws.
    pub fn link(&self) -> Option<Link> {
        if self.posterior.gaussians().is_empty() {
            return None;
        }
        match self.recipe.method.settings.get("predictive") {
            Some(Value::Text(word)) if word == "linearised" => Some(Link::Average),
            Some(Value::Text(word)) if word == "probit" => Some(Link::Probit),
            _ => None,
        }
    }

    /// The predictive distribution at encoded rows, in the way the recipe wants it, calibrated where the model is.
    pub fn predict(&self, rows: &Encoded, draws: usize) -> Predictive {
        let predictive = match self.link().and_then(|link| self.linearised_predictor(draws, link).ok()) {
            Some(linearised) => linearised.predict(&rows.data.x),
            None => self.predictor(draws).predict(&rows.data.x),
        };
        self.calibrated(predictive)
    }

    /// A predictor's answer at the model's temperature, where it has one.
    pub fn calibrated(&self, predictive: Predictive) -> Predictive {
        match self.calibration.as_ref().and_then(|c| c.temperature) {
            Some(temperature) => predictive.tempered(temperature),
            None => predictive,
        }
    }

    /// From standardised targets back to the user's units.
    pub fn target_scale(encoder: &Encoder) -> TargetScale {
        match encoder.target_kind() {
            TargetKind::Real(scale) => TargetScale { targets: vec![(scale.mean, scale.std)] },
            _ => TargetScale::default(),
        }
    }
}
