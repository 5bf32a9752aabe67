//! Models that are not networks, by name: how they are fitted, and how they come back from a model file.
//!
//! A row of [`MODELS`](crate::model::MODELS), or one that [`register_model`](crate::model::register_model) adds, is chosen like a method (`[method] name = …`): its [`Estimator`] takes encoded rows and
//! gives a [`Fitted`]. Network, prior and method of a recipe together are an estimator too ([`Resolved`](crate::model::Resolved)).

use super::Fitted;
use crate::data::{Dataset, Inputs};
use crate::error::{Error, Result};
use crate::inference::{FitSummary, Observer};
use crate::likelihood::Likelihood;
use crate::nn::Shape;
use crate::rng::Key;
use crate::settings::{Setting, Settings, Value};
use std::fmt::Debug;
use std::sync::Arc;

/// What an estimator gives.
#[derive(Debug)]
pub struct ModelFit {
    /// The model.
    pub fitted: Arc<dyn Fitted>,
    /// How the fit went.
    pub summary: FitSummary,
}

/// A recipe made definite: fits rows.
pub trait Estimator: Send + Sync + Debug {
    /// Fits encoded rows; targets are standardised where they are real. The same key gives the same bits.
    fn fit(
        &self,
        data: Dataset,
        likelihood: Arc<dyn Likelihood>,
        key: Key,
        observer: &mut dyn Observer,
    ) -> Result<ModelFit>;
}

/// What a model is made from again when its file is read.
pub struct Restoring<'a> {
    /// The settings it was fitted with.
    pub settings: &'a Settings,
    /// p(y | f).
    pub likelihood: Arc<dyn Likelihood>,
    /// Shape of one row's inputs.
    pub input: Shape,
    /// How the inputs are encoded.
    pub inputs: &'a Inputs,
    /// The evidence that the file tells.
    pub log_evidence: Option<f64>,
    /// The tensors of the file by name, as [`Fitted::save`] gave them; all numbers were checked to be finite.
    pub tensors: &'a dyn Fn(&str) -> Option<Vec<f64>>,
}

impl Restoring<'_> {
    /// The tensor of this name with so many numbers; an error that says which one is missing or of another length.
    pub fn tensor(&self, name: &str, len: usize) -> Result<Vec<f64>> {
        const DAMAGED: &str = "the file is damaged: fit the model again";
        let data =
            (self.tensors)(name).ok_or_else(|| Error::setting(format!("the tensor '{name}' is missing"), DAMAGED))?;
        if data.len() != len {
            return Err(Error::setting(format!("the tensor '{name}' has {} numbers, not {len}", data.len()), DAMAGED));
        }
        Ok(data)
    }
}

/// A row of [`MODELS`](crate::model::MODELS).
#[derive(Debug, Clone, Copy)]
pub struct ModelEntry {
    /// What a user writes.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// What is known of the functions after a fit.
    pub gives: &'static str,
    /// Its settings.
    pub settings: &'static [Setting],
    /// The likelihood of real outcomes where the user names none.
    pub real_likelihood: &'static str,
    /// Makes the estimator from checked settings, for inputs that are encoded like this.
    pub build: fn(&Settings, &Inputs) -> Result<Box<dyn Estimator>>,
    /// Makes the model from what its file holds.
    pub restore: fn(&Restoring<'_>) -> Result<Arc<dyn Fitted>>,
}

impl ModelEntry {
    /// Checks settings.
    pub fn settings(&self, given: &[(String, Value)]) -> Result<Settings> {
        Settings::resolve(self.settings, given, &format!("method '{}'", self.name))
    }
}
