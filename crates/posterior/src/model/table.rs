//! The table of models that are not networks under a posterior over weights.

use crate::error::{Error, Result};
use crate::fitted::ModelEntry;
use crate::inference;
use crate::registry::Registry;

/// Every model that is built in and no network.
pub const MODELS: &[ModelEntry] = &[crate::gp::ENTRY, crate::gp::NNGP, crate::gp::NTK];

static REGISTERED: Registry<ModelEntry> = Registry::new("method", MODELS, |m| m.name);

/// Every model that is no network, those of other crates included.
pub fn models() -> Vec<&'static ModelEntry> {
    REGISTERED.all()
}

/// The model of that name, if it is one.
pub fn find_model(name: &str) -> Option<&'static ModelEntry> {
    REGISTERED.get(name)
}

/// Adds a model of another crate. An error where its name is taken, also by a method for networks.
pub fn register_model(entry: ModelEntry) -> Result<()> {
    if inference::methods().iter().any(|m| m.name == entry.name) {
        let what = format!("there is a method '{}' already", entry.name);
        return Err(Error::setting(what, "give the new one another name, and register it once"));
    }
    REGISTERED.add(entry)
}
