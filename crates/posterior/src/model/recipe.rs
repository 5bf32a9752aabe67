//! A recipe: network, likelihood, prior, method, each by name with settings; what a configuration file holds.

use super::defaults;
use crate::data::{Dataset, Encoder, Source, TargetKind};
use crate::error::{Error, Result};
use crate::fitted::{Estimator, ModelEntry, ModelFit, NetworkFit};
use crate::inference::{self, Method, Observer};
use crate::likelihood::{self, AtSites, Likelihood, Outcome};
use crate::nn::{AnyNetwork, NetworkSpec, Role, Shape};
use crate::posterior::Posterior;
use crate::predict::Link;
use crate::prior::{self, Prior};
use crate::problem::{Problem, full_layout};
use crate::rng::Key;
use crate::settings::{NamedOptions, Settings, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row of a table, by name, with settings; the name may be left to the data.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Choice {
    /// Which row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What differs from its defaults.
    #[serde(flatten)]
    pub settings: BTreeMap<String, Value>,
}

impl Choice {
    /// A row by name, all defaults.
    pub fn named(name: &str) -> Choice {
        Choice { name: Some(name.to_owned()), settings: BTreeMap::new() }
    }

    /// With a setting.
    pub fn with(mut self, key: &str, value: Value) -> Choice {
        self.settings.insert(key.to_owned(), value);
        self
    }

    fn pairs(&self) -> Vec<(String, Value)> {
        self.settings.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    fn resolved(name: &str, settings: &Settings) -> Choice {
        Choice { name: Some(name.to_owned()), settings: settings.to_pairs().into_iter().collect() }
    }
}

impl From<&str> for Choice {
    fn from(name: &str) -> Choice {
        Choice::named(name)
    }
}

/// Typed options, with every value spelled out; what they may be is checked when the recipe is resolved.
impl<O: NamedOptions> From<O> for Choice {
    fn from(options: O) -> Choice {
        Choice { name: Some(O::NAME.to_owned()), settings: options.pairs().into_iter().collect() }
    }
}

/// Standard deviations of one layer's prior, where they differ from the prior's settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerPrior {
    /// Number of the layer, from 0, as `posterior inspect` shows it.
    pub layer: usize,
    /// Of its weights, before scaling by fan-in.
    pub weight_std: Option<f64>,
    /// Of its biases.
    pub bias_std: Option<f64>,
}

/// Everything about a fit but the data and the seed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Hidden layers.
    #[serde(default)]
    pub network: NetworkSpec,
    /// How outcomes scatter; none means what suits the target.
    #[serde(default)]
    pub likelihood: Choice,
    /// Belief about weights; none means normal.
    #[serde(default)]
    pub prior: Choice,
    /// Layers whose prior is wider or narrower than the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layer_priors: Vec<LayerPrior>,
    /// How to infer; none means what [`Recipe::with_default_method`] takes.
    #[serde(default)]
    pub method: Choice,
}

/// More parameters than this are most likely mistyped: a fit keeps several numbers for each in memory.
const MOST_PARAMETERS: usize = 1 << 30;

/// A recipe made definite for given data.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// With every name and setting spelled out.
    pub recipe: Recipe,
    /// f_w.
    pub network: Arc<dyn AnyNetwork>,
    /// p(y | f).
    pub likelihood: Arc<dyn Likelihood>,
    /// p(w).
    pub prior: Prior,
}

/// A recipe for a model that is no network, made definite for given data.
#[derive(Debug)]
pub struct ResolvedModel {
    /// With every name and setting spelled out.
    pub recipe: Recipe,
    /// Which model.
    pub entry: &'static ModelEntry,
    /// Its settings.
    pub settings: Settings,
    /// p(y | f).
    pub likelihood: Arc<dyn Likelihood>,
    /// Fits it.
    pub estimator: Box<dyn Estimator>,
}

/// What a recipe asks for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Plan {
    /// A network, and a method for the posterior of its weights.
    Network(Box<Resolved>),
    /// A model of its own kind.
    Model(Box<ResolvedModel>),
}

impl Plan {
    /// With every name and setting spelled out.
    pub fn into_recipe(self) -> Recipe {
        match self {
            Plan::Network(resolved) => resolved.recipe,
            Plan::Model(model) => model.recipe,
        }
    }
}

impl Recipe {
    /// A network, and all else left to the data.
    pub fn new(network: NetworkSpec) -> Recipe {
        Recipe { network, ..Recipe::default() }
    }

    /// With a method: [typed options](mod@crate::options), a name, or a [`Choice`].
    pub fn method(self, method: impl Into<Choice>) -> Recipe {
        Recipe { method: method.into(), ..self }
    }

    /// With a likelihood, given as a method is.
    pub fn likelihood(self, likelihood: impl Into<Choice>) -> Recipe {
        Recipe { likelihood: likelihood.into(), ..self }
    }

    /// With a prior, given as a method is.
    pub fn prior(self, prior: impl Into<Choice>) -> Recipe {
        Recipe { prior: prior.into(), ..self }
    }

    /// Changes one setting, written `key=value` for the method, `prior.key=value` or `likelihood.key=value`; what it may be
    /// is checked when the recipe is resolved.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let Some((key, value)) = assignment.split_once('=') else {
            return Err(Error::setting("there is no '='", "write key=value"));
        };
        let key = key.trim();
        let (section, key) = match key.split_once('.') {
            Some(("prior", key)) => (&mut self.prior, key),
            Some(("likelihood", key)) => (&mut self.likelihood, key),
            Some(("method", key)) => (&mut self.method, key),
            Some((other, _)) => {
                return Err(Error::setting(
                    format!("there is no section '{other}'"),
                    "use method, prior or likelihood",
                ));
            }
            None => (&mut self.method, key),
        };
        section.settings.insert(key.to_owned(), Value::parse(value));
        Ok(())
    }

    /// Names and settings checked, for the inputs and targets of an encoder, whatever kind of model the method names.
    pub fn plan(&self, encoder: &Encoder) -> Result<Plan> {
        let Some(entry) = self.method.name.as_deref().and_then(super::find_model) else {
            return Ok(Plan::Network(Box::new(self.resolve(encoder)?)));
        };
        if inference::methods().iter().any(|m| m.name == entry.name) {
            let what = format!("two methods are named '{}'", entry.name);
            return Err(Error::setting(what, "register the one of another crate under another name"));
        }
        let given = !(self.network.layers.is_empty() || self.network == NetworkSpec::default());
        let prior = self.prior != Choice::default() || !self.layer_priors.is_empty();
        if let Some(what) = given.then_some("network").or(prior.then_some("prior over weights")) {
            let what = format!("'{}' has no {what}, and one is given", entry.name);
            return Err(Error::setting(what, "leave it out, or choose a method for networks"));
        }
        let settings = entry.settings(&self.method.pairs())?;
        let (recipe, outcome, width) = self.outcome(encoder);
        let (chosen, likelihood) = recipe.resolve_likelihood(outcome, width, entry.real_likelihood)?;
        let recipe = Recipe {
            network: NetworkSpec { layers: Vec::new() },
            likelihood: chosen,
            prior: Choice::default(),
            layer_priors: Vec::new(),
            method: Choice::resolved(entry.name, &settings),
        };
        let estimator = (entry.build)(&settings, &encoder.inputs)?;
        Ok(Plan::Model(Box::new(ResolvedModel { recipe, entry, settings, likelihood, estimator })))
    }

    /// What the targets of an encoder are, and how many targets or classes; with what the likelihood has to know of them.
    fn outcome(&self, encoder: &Encoder) -> (Recipe, Outcome, usize) {
        let mut recipe = self.clone();
        match encoder.target_kind() {
            TargetKind::Real(_) => (recipe, Outcome::Real, encoder.targets().len()),
            TargetKind::Class { names, .. } => (recipe, Outcome::Class, names.len()),
            TargetKind::Count { mean } => {
                // Counts are not standardised; the network says how far a row is from the usual rate instead.
                recipe.likelihood.settings.entry("offset".to_owned()).or_insert(Value::Float(mean.ln()));
                (recipe, Outcome::Count, 1)
            }
        }
    }

    /// Names and settings checked, network built, for the inputs and targets of an encoder.
    pub fn resolve(&self, encoder: &Encoder) -> Result<Resolved> {
        let (recipe, outcome, width) = self.outcome(encoder);
        recipe.resolve_for(encoder.input_shape(), outcome, width)
    }

    /// The likelihood that is chosen, or else suits the outcome.
    fn resolve_likelihood(
        &self,
        outcome: Outcome,
        width: usize,
        of_real: &str,
    ) -> Result<(Choice, Arc<dyn Likelihood>)> {
        let usual = match outcome {
            Outcome::Real => of_real,
            _ => likelihood::default_for(outcome, width),
        };
        let chosen = self.likelihood.name.as_deref().unwrap_or(usual);
        let entry = likelihood::find(chosen)?;
        if entry.outcome != outcome {
            let word = |o| match o {
                Outcome::Real => "real numbers",
                Outcome::Count => "counts",
                Outcome::Class => "classes",
            };
            return Err(Error::setting(
                format!(
                    "the likelihood '{chosen}' is for {}, but the target holds {}",
                    word(entry.outcome),
                    word(outcome)
                ),
                "leave it out, or say what the target is with ⟨task⟩ (regression, classification or count)",
            ));
        }
        let settings = Settings::resolve(entry.settings, &self.likelihood.pairs(), &format!("likelihood '{chosen}'"))?;
        let likelihood = (entry.build)(&settings, width)?;
        Ok((Choice::resolved(chosen, &settings), likelihood))
    }

    /// As [`Recipe::resolve`], for inputs of a shape, and so many targets or classes.
    pub fn resolve_for(&self, input: Shape, outcome: Outcome, width: usize) -> Result<Resolved> {
        self.resolve_with(input, outcome, width, None)
    }

    /// As [`Recipe::resolve_for`], for outcomes at `sites` sites of every row: the pixels of the image that the network's layers end in, of each of which a
    /// convolution of 1 × 1 makes the outputs. The outcomes of a site stand side by side in a row of the data (channels last).
    pub fn resolve_at_sites(&self, input: Shape, outcome: Outcome, width: usize, sites: usize) -> Result<Resolved> {
        self.resolve_with(input, outcome, width, Some(sites))
    }

    fn resolve_with(&self, input: Shape, outcome: Outcome, width: usize, sites: Option<usize>) -> Result<Resolved> {
        let models: Vec<&str> = super::models().iter().map(|m| m.name).collect();
        let name = self.method.name.as_deref().unwrap_or(defaults::WITH_FEW_ROWS);
        let method_entry = inference::find_beside(name, &models)?;
        let method = method_entry.configure(&self.method.pairs())?;
        let (chosen, mut likelihood) = self.resolve_likelihood(outcome, width, method.real_likelihood())?;
        let spec = method.network(&self.network)?.resolved()?;
        let network: Arc<dyn AnyNetwork> = match sites {
            None => Arc::new(spec.build(input, likelihood.outputs())?),
            Some(sites) => {
                let network = spec.build_at_sites(input, sites, likelihood.outputs())?;
                likelihood = Arc::new(AtSites::new(likelihood, sites)?);
                Arc::new(network)
            }
        };
        let parameters = network.layout().len();
        if parameters > MOST_PARAMETERS {
            return Err(Error::setting(
                format!("the network has {parameters} parameters, more than the {MOST_PARAMETERS} that can be fitted"),
                "make its layers narrower",
            ));
        }
        let prior_entry = prior::find(self.prior.name.as_deref().unwrap_or("normal"))?;
        let owner = format!("prior '{}'", prior_entry.name);
        let prior_settings = Settings::resolve(prior_entry.settings, &self.prior.pairs(), &owner)?;
        let layout = full_layout(&*network, &*likelihood);
        let mut prior = Prior::new(prior_entry.name, &prior_settings, &layout, likelihood.noise_prior())?;
        for own in &self.layer_priors {
            let std = |given: Option<f64>, role| given.or((prior_entry.std)(&prior_settings, role)).unwrap_or(1.0);
            let (weight_std, bias_std) = (std(own.weight_std, Role::Weight), std(own.bias_std, Role::Bias));
            prior = prior.with_layer_std(own.layer, weight_std, bias_std)?;
        }
        let recipe = Recipe {
            network: spec,
            likelihood: chosen,
            prior: Choice::resolved(prior_entry.name, &prior_settings),
            layer_priors: self.layer_priors.clone(),
            method: Choice::resolved(method.name(), method.settings()),
        };
        Ok(Resolved { recipe, network, likelihood, prior })
    }
}

impl Resolved {
    /// The method.
    pub fn method(&self) -> Result<Box<dyn Method>> {
        let choice = &self.recipe.method;
        inference::find(choice.name.as_deref().unwrap_or_default())?.configure(&choice.pairs())
    }

    /// The problem of rows on demand.
    pub fn problem_of(self, source: Arc<dyn Source>) -> Result<Problem> {
        Problem::of_source(self.network, self.likelihood, self.prior, source)
    }

    /// The problem on encoded data.
    pub fn problem(self, data: Dataset) -> Result<Problem> {
        Problem::new(self.network, self.likelihood, self.prior, data)
    }

    /// Fits a problem made of these parts.
    pub fn fit_problem(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<ModelFit> {
        let fit = self.method()?.fit(problem, key, observer)?;
        Ok(ModelFit { fitted: Arc::new(self.fitted(fit.posterior.into())), summary: fit.summary })
    }

    /// The network under a posterior over its weights, predicting as the method's settings say.
    pub fn fitted(&self, posterior: Arc<dyn Posterior>) -> NetworkFit {
        let link = match self.recipe.method.settings.get("predictive") {
            Some(Value::Text(word)) if word == "linearised" => Some(Link::Average),
            Some(Value::Text(word)) if word == "probit" => Some(Link::Probit),
            _ => None,
        };
        NetworkFit::new(self.network.clone(), self.likelihood.clone(), posterior, link)
    }
}

impl Estimator for Resolved {
    /// The likelihood is its own, for which the network was built.
    fn fit(
        &self,
        data: Dataset,
        _likelihood: Arc<dyn Likelihood>,
        key: Key,
        observer: &mut dyn Observer,
    ) -> Result<ModelFit> {
        self.fit_problem(&self.clone().problem(data)?, key, observer)
    }
}
