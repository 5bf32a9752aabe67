//! A fitted model: everything needed to predict, from one fit or from one file.

mod defaults;
mod file;
mod import;
mod recipe;
mod table;

pub use defaults::FEW;
pub use import::{ImportOptions, import};
pub use recipe::{Choice, LayerPrior, Plan, Recipe, Resolved, ResolvedModel};
pub use table::{MODELS, find_model, models, register_model};

use crate::data::{self, Dataset, EncodeOptions, Encoded, Encoder, Table, TargetKind, Values};
use crate::error::{Error, Result};
use crate::fitted::{Fitted, How, Mixing, ModelFit, NetworkFit, predict_blocks};
use crate::inference::{Fingerprint, FitSummary, Observer, check_memory};
use crate::likelihood::Likelihood;
use crate::posterior::{Chains, Posterior};
use crate::predict::calibration::Calibration;
use crate::predict::{Predictive, TargetScale};
use crate::rng::{Hash, Key};
use crate::score::{Needs, ScoreBuilder, Scored};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Something fitted, with the transforms of its data.
#[derive(Debug, Clone)]
pub struct Model {
    /// What was fitted, and how; every setting spelled out.
    pub recipe: Recipe,
    /// From a user's table to rows of numbers.
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
    /// What predicts.
    pub fitted: Arc<dyn Fitted>,
}

/// All that a fit follows from.
fn fingerprint(recipe: &Recipe, data: &Dataset, start: Option<&dyn Posterior>, seed: u64) -> Result<Fingerprint> {
    let recipe = serde_json::to_string(recipe)
        .map_err(|e| Error::setting(format!("the recipe cannot be written ({e})"), "report this as a bug"))?;
    let start = start.map(|start| {
        let mut hash = Hash::new();
        hash.bytes(start.kind().as_bytes());
        for tensor in start.tensors() {
            hash.bytes(tensor.name.as_bytes());
            tensor.data.iter().for_each(|v| hash.word(u64::from(v.to_bits())));
        }
        start.packed().iter().for_each(|(_, bytes)| hash.bytes(bytes));
        hash.to_string()
    });
    Ok(Fingerprint { data: data.fingerprint(), recipe, seed, start })
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
        if let Some(column) = &options.weights {
            let weights = data::row_weights(table, column)?;
            return Model::fit_weighted(recipe, table, options, &weights, seed, observer);
        }
        let fitted = Encoder::fit(table, options)?;
        fitted.warnings.iter().for_each(|w| observer.warn(w));
        Model::fit_encoded(recipe, fitted.encoder, table, None, None, seed, observer)
    }

    /// As [`Model::fit`], with a weight of 0 or more for every row of the table: log p(D | w) is Σₙ weightₙ log p(yₙ | xₙ, w), and numbers are
    /// standardised by weighted means, so that a weight of 2 is that row twice, and a weight of 0 a row that is not there.
    pub fn fit_weighted(
        recipe: &Recipe,
        table: &Table,
        options: &EncodeOptions,
        weights: &[f64],
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Model> {
        if weights.len() != table.rows() {
            let what = format!("there are {} weights for {} rows", weights.len(), table.rows());
            return Err(Error::data(what, "give one for every row"));
        }
        let some: Vec<usize> = (0..table.rows()).filter(|r| weights[*r] != 0.0).collect();
        let weights: Vec<f64> = some.iter().map(|r| weights[*r]).collect();
        let table = table.select(&some);
        let fitted = Encoder::fit(&table, options)?;
        fitted.warnings.iter().for_each(|w| observer.warn(w));
        let dropped: HashSet<usize> = fitted.dropped_rows.into_iter().collect();
        let complete: Vec<usize> = (0..table.rows()).filter(|r| !dropped.contains(r)).collect();
        let weights: Vec<f64> = complete.iter().map(|r| weights[*r]).collect();
        let table = table.select(&complete);
        let encoder = fitted.encoder.weighted(&table, &weights)?;
        Model::fit_encoded(recipe, encoder, &table, Some(&weights), None, seed, observer)
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
        let posterior = start.network("another fit begins at its weights")?.posterior.clone();
        Model::fit_encoded(recipe, start.encoder.clone(), table, None, Some(posterior), seed, observer)
    }

    fn fit_encoded(
        recipe: &Recipe,
        encoder: Encoder,
        table: &Table,
        weights: Option<&[f64]>,
        start: Option<Arc<dyn Posterior>>,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Model> {
        let Encoded { mut data, kept_rows, warnings, .. } = encoder.encode(table, true)?;
        if start.is_some() {
            warnings.iter().for_each(|w| observer.warn(w));
        }
        if let Some(weights) = weights {
            data = data.with_weights(kept_rows.iter().map(|r| weights[*r]).collect::<Vec<f64>>())?;
        }
        let (rows, key) = (data.rows, Key::new(seed));
        let mut plan = recipe.with_default_method(&encoder, rows)?.plan(&encoder)?;
        let mut mixing = None;
        let fit = match &mut plan {
            Plan::Network(resolved) => {
                let mut problem = resolved.clone().problem(data)?;
                check_memory(&*resolved.method()?, &problem)?;
                if recipe.leaves_prior_open() && start.is_none() {
                    **resolved = defaults::with_prior_by_evidence(resolved, &problem, key)?.resolve(&encoder)?;
                    problem = problem.with_prior(resolved.prior.clone())?;
                }
                if let Some(checkpoint) = observer.checkpoint() {
                    let own = fingerprint(&resolved.recipe, problem.data(), start.as_deref(), seed)?;
                    checkpoint.identify(own)?;
                }
                if let Some(start) = start {
                    problem = problem.with_start(start)?;
                }
                let fit = resolved.fit_problem(&problem, key, observer)?;
                let of = |n: &NetworkFit| n.posterior.chains().map(|chains| Mixing::new(n, chains, problem.data()));
                mixing = fit.fitted.as_network().and_then(of);
                fit
            }
            Plan::Model(model) if start.is_some() => {
                let what = format!("'{}' is no network, so it cannot begin at the weights of one", model.entry.name);
                return Err(Error::setting(what, "fit it without a start"));
            }
            Plan::Model(model) => model.estimator.fit(data, model.likelihood.clone(), key, observer)?,
        };
        let ModelFit { fitted, summary } = fit;
        Ok(Model { recipe: plan.into_recipe(), encoder, seed, rows, calibration: None, summary, mixing, fitted })
    }

    /// p(y | f).
    pub fn likelihood(&self) -> &Arc<dyn Likelihood> {
        self.fitted.likelihood()
    }

    /// The network and the posterior over its weights; `why` says what they are wanted for, should the model be no network.
    pub fn network(&self, why: &str) -> Result<&NetworkFit> {
        self.fitted.as_network().ok_or_else(|| {
            let what = format!("a model of kind '{}' has no weights, and {why}", self.fitted.kind());
            Error::setting(what, "fit a network, for example with mean-field")
        })
    }

    /// The Markov chains that its weights were drawn by.
    pub fn chains(&self) -> Option<&Chains> {
        self.fitted.as_network().and_then(|fit| fit.posterior.chains())
    }

    /// With other weights: the same network under another posterior, not calibrated.
    pub fn with_posterior(&self, posterior: Arc<dyn Posterior>) -> Result<Model> {
        let fit = self.network("its weights are to be replaced")?;
        let fitted = NetworkFit::new(fit.network.clone(), fit.likelihood.clone(), posterior, fit.link);
        Ok(Model { fitted: Arc::new(fitted), calibration: None, mixing: None, ..self.clone() })
    }

    /// How predictions are made by the model's own route, in the user's units, keyed by the model's seed.
    pub fn how(&self, draws: usize) -> How {
        How::new(draws, Key::new(self.seed)).scaled(Model::target_scale(&self.encoder))
    }

    /// The predictive distribution at encoded inputs, calibrated where the model is.
    pub fn predict(&self, x: &Values, how: &How) -> Result<Predictive> {
        Ok(self.calibrated(self.fitted.predict(x, how)?))
    }

    /// Predicts encoded inputs block by block, so that memory does not grow with their number; `take` gets the numbers of a block's rows and
    /// their predictive distribution, before calibration.
    pub fn predict_blocks(
        &self,
        x: &Values,
        how: &How,
        take: impl FnMut(Range<usize>, Predictive) -> Result<()>,
    ) -> Result<()> {
        predict_blocks(&*self.fitted, x, how, take)
    }

    /// What scores need of encoded rows with known outcomes, calibrated where the model is; block by block.
    pub fn score(&self, rows: &Dataset, how: &How) -> Result<Scored> {
        let y = self.encoder.decode_target(&rows.y);
        let targets = self.likelihood().sites() * self.likelihood().targets().max(1);
        let mut builder = ScoreBuilder::new(self.likelihood().outcome(), Needs::all()).with_room(y.len());
        self.predict_blocks(&rows.x, how, |part, raw| {
            builder.push(&self.calibrated(raw), &y[part.start * targets..part.end * targets]);
            Ok(())
        })?;
        Ok(builder.finish())
    }

    /// A predictive distribution at the model's temperature, where it has one.
    pub fn calibrated(&self, predictive: Predictive) -> Predictive {
        match self.calibration.as_ref().and_then(|c| c.temperature) {
            Some(temperature) => predictive.tempered(temperature),
            None => predictive,
        }
    }

    /// From standardised targets back to the user's units.
    pub fn target_scale(encoder: &Encoder) -> TargetScale {
        match encoder.target_kind() {
            TargetKind::Real(_) => TargetScale { targets: encoder.target_scales() },
            _ => TargetScale::default(),
        }
    }
}
