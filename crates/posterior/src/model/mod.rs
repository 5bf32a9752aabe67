//! A fitted model: everything needed to predict, from one fit or from one file.

mod file;
mod recipe;

pub use recipe::{Choice, LayerPrior, Recipe, Resolved};

use crate::data::{EncodeOptions, Encoded, Encoder, Table, TargetKind};
use crate::error::Result;
use crate::inference::{FitSummary, Observer};
use crate::likelihood::Likelihood;
use crate::nn::AnyNetwork;
use crate::posterior::Posterior;
use crate::predict::{MomentsPredictor, NetworkPredictor, Predictive, Predictor, TargetScale};
use crate::rng::Key;
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
    /// How the fit went.
    pub summary: FitSummary,
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
        Model::fit_from(recipe, table, options, seed, None, observer)
    }

    /// The same, beginning at draws of a model that was fitted before, if there is one.
    pub fn fit_from(
        recipe: &Recipe,
        table: &Table,
        options: &EncodeOptions,
        seed: u64,
        start: Option<&Model>,
        observer: &mut dyn Observer,
    ) -> Result<Model> {
        let fitted = Encoder::fit(table, options)?;
        fitted.warnings.iter().for_each(|w| observer.warn(w));
        let encoder = fitted.encoder;
        let Encoded { data, .. } = encoder.encode(table, true)?;
        let rows = data.rows;
        let resolved = recipe.resolve(&encoder)?;
        let (network, likelihood) = (resolved.network.clone(), resolved.likelihood.clone());
        let (recipe, method) = (resolved.recipe.clone(), resolved.method()?);
        let problem = resolved.problem(data)?;
        let fit = match start {
            Some(start) => method.fit_from(&problem, &*start.posterior, Key::new(seed), observer)?,
            None => method.fit(&problem, Key::new(seed), observer)?,
        };
        Ok(Model {
            recipe,
            encoder,
            seed,
            rows,
            summary: fit.summary,
            network,
            likelihood,
            posterior: fit.posterior.into(),
        })
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

    /// The predictive distribution at encoded rows.
    pub fn predict(&self, rows: &Encoded, draws: usize) -> Predictive {
        self.predictor(draws).predict(&rows.data.x)
    }

    /// From standardised targets back to the user's units.
    pub fn target_scale(encoder: &Encoder) -> TargetScale {
        match encoder.target_kind() {
            TargetKind::Real(scale) => TargetScale { targets: vec![(scale.mean, scale.std)] },
            _ => TargetScale::default(),
        }
    }
}
