//! Recipes in TOML.
//!
//! ```toml
//! [network]
//! hidden = [50, 50]        # or name = "lenet-5", or a list of [[network.layers]]
//! activation = "tanh"
//!
//! [likelihood]
//! name = "gaussian"
//! noise = "learned"
//!
//! [prior]
//! name = "normal"
//! weight_std = 1.0
//!
//! [[layer_priors]]         # a layer whose prior differs
//! layer = 0
//! bias_std = 10.0
//!
//! [method]
//! name = "mean-field"
//! samples = 2
//! ```

use super::recipe::{Choice, LayerPrior, Recipe};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::memory;
use crate::nn::{Activation, LayerSpec, NetworkSpec};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFile {
    network: Option<NetworkFile>,
    #[serde(default)]
    likelihood: Choice,
    #[serde(default)]
    prior: Choice,
    #[serde(default)]
    layer_priors: Vec<LayerPrior>,
    #[serde(default)]
    method: Choice,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    name: Option<String>,
    hidden: Option<Vec<usize>>,
    layers: Option<Vec<LayerSpec>>,
    activation: Option<Activation>,
}

impl NetworkFile {
    fn spec(self) -> Result<NetworkSpec> {
        let activation = self.activation.unwrap_or(Activation::Tanh);
        match (self.name, self.hidden, self.layers) {
            (Some(name), None, None) => NetworkSpec::parse(&name, activation),
            (None, Some(hidden), None) => {
                if hidden.is_empty() {
                    return Ok(NetworkSpec { layers: Vec::new() });
                }
                let widths: Vec<String> = hidden.iter().map(usize::to_string).collect();
                NetworkSpec::parse(&widths.join(","), activation)
            }
            (None, None, Some(layers)) if self.activation.is_none() => Ok(NetworkSpec { layers }),
            _ => Err(Error::setting(
                "the network is not described in one way",
                "give [network] one of: name, hidden (with activation), layers",
            )),
        }
    }
}

impl Recipe {
    /// Reads a recipe from TOML. What is not in it is left to the defaults.
    pub fn from_toml(text: &str) -> Result<Recipe> {
        let file: RecipeFile = toml::from_str(text).map_err(|e| {
            let line = e.span().map(|s| 1 + text[..s.start.min(text.len())].matches('\n').count() as u64);
            let what = match e.message().lines().next().unwrap_or("it cannot be read") {
                m if m.contains("untagged enum") => "a setting here is not a number, a word, true or false",
                m => m,
            }
            .to_owned();
            Error::data(what, "correct the configuration").at(Place { line, ..Place::default() })
        })?;
        // As an error of the file, so that it names the file.
        let placed = |e: Error| match e.kind() {
            ErrorKind::Setting { what, fix } => Error::data(what.clone(), fix.clone()),
            _ => e,
        };
        let network = file.network.map(NetworkFile::spec).transpose().map_err(placed)?;
        let default = Recipe::default();
        Ok(Recipe {
            network: network.unwrap_or(default.network),
            likelihood: file.likelihood,
            prior: file.prior,
            layer_priors: file.layer_priors,
            method: file.method,
        })
    }

    /// Reads a recipe from a TOML file.
    pub fn from_file(path: &Path) -> Result<Recipe> {
        let text = memory::read_text(path)?;
        Recipe::from_toml(&text).map_err(|e| e.in_file(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Value;

    #[test]
    fn sections_are_read() {
        let text = "[network]\nhidden = [20, 10]\nactivation = \"relu\"\n[method]\nname = \"map\"\nepochs = 3\n";
        let recipe = Recipe::from_toml(text).unwrap();
        assert_eq!(recipe.network, NetworkSpec::parse("20,10", Activation::Relu).unwrap());
        assert_eq!(recipe.method, Choice::named("map").with("epochs", Value::Int(3)));
        assert_eq!(Recipe::from_toml("").unwrap(), Recipe::default());
    }

    #[test]
    fn a_layer_can_have_a_prior_of_its_own() {
        let text =
            "[network]\nhidden = [4]\n[prior]\nscaling = \"none\"\n[[layer_priors]]\nlayer = 1\nbias_std = 10.0\n";
        let recipe = Recipe::from_toml(text).unwrap();
        let resolved = recipe.resolve_for(crate::nn::Shape::Flat(2), crate::likelihood::Outcome::Real, 1).unwrap();
        let stds: Vec<f64> =
            resolved.prior.blocks().iter().filter_map(|(_, p)| p.as_normal()).map(|n| n.at(0).1).collect();
        assert_eq!(stds, [1.0, 1.0, 1.0, 10.0, 1.0]); // weights and biases of both layers, noise
        assert_eq!(resolved.recipe.layer_priors, recipe.layer_priors);
        let wrong = Recipe::from_toml("[[layer_priors]]\nlayer = 7\n").unwrap();
        let error = wrong.resolve_for(crate::nn::Shape::Flat(2), crate::likelihood::Outcome::Real, 1).unwrap_err();
        assert!(error.to_string().contains("layer 7"));
    }

    #[test]
    fn slips_name_the_line() {
        let message = |t: &str| Recipe::from_toml(t).unwrap_err().to_string();
        assert!(message("[netwrok]\n").starts_with("line 1: unknown field `netwrok`"));
        assert!(message("[network]\nhidden = [5]\nname = \"linear\"\n").contains("one of: name, hidden"));
        assert!(message("[network\n").starts_with("line 1: "));
    }
}
