//! What an estimator asks for, as JSON: `{"network": "50,50" | [layers], "activation": …, "likelihood": {…}, "prior": {…}, "method": {…}}`.

use posterior::data::{EncodeOptions, Missing, Task};
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, LayerSpec, NetworkSpec};
use posterior::settings::{Allowed, Setting, Value};
use posterior::{Error, Result};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Asked {
    network: serde_json::Value,
    activation: Option<String>,
    #[serde(default)]
    likelihood: Choice,
    #[serde(default)]
    prior: Choice,
    #[serde(default)]
    method: Choice,
}

/// The recipe of an estimator's parameters.
pub fn recipe(asked: &str) -> Result<Recipe> {
    let wrong = |e: serde_json::Error| {
        Error::setting(format!("the parameters cannot be read ({e})"), "give numbers, words, True or False")
    };
    let asked: Asked = serde_json::from_str(asked).map_err(wrong)?;
    let activation = asked.activation.as_deref().map(Activation::find).transpose()?;
    let network = match asked.network {
        serde_json::Value::String(text) if !text.trim().is_empty() => {
            NetworkSpec::parse(&text, activation.unwrap_or(Activation::Tanh))?
        }
        serde_json::Value::String(_) => NetworkSpec { layers: Vec::new() },
        layers => {
            let layers: Vec<LayerSpec> = serde_json::from_value(layers).map_err(|e| {
                let fix = "give widths as in (50, 50), a name, or a list of layers as dicts with a 'kind'";
                Error::setting(format!("the network cannot be read ({e})"), fix)
            })?;
            NetworkSpec { layers }
        }
    };
    Ok(Recipe {
        network,
        likelihood: asked.likelihood,
        prior: asked.prior,
        layer_priors: Vec::new(),
        method: asked.method,
    })
}

/// How X and y are encoded.
pub fn encoding(target: String, task: &str, missing: &str) -> Result<EncodeOptions> {
    let missing = match missing {
        "auto" => Missing::Auto,
        "error" => Missing::Error,
        "mean" => Missing::Mean,
        "drop" => Missing::Drop,
        other => {
            return Err(Error::setting(
                format!("missing cannot be '{other}'"),
                "it takes one of: auto, error, mean, drop",
            ));
        }
    };
    let task = match task {
        "count" => Task::Count,
        "classification" => Task::Classification,
        _ => Task::Regression,
    };
    Ok(EncodeOptions { target, task, missing, ..EncodeOptions::default() })
}

fn settings(all: &[Setting]) -> serde_json::Value {
    let one = |s: &Setting| {
        let (kind, words) = match s.allowed {
            Allowed::Bool => ("bool", &[][..]),
            Allowed::Int(..) => ("int", &[][..]),
            Allowed::Float(..) | Allowed::Above(..) => ("float", &[][..]),
            Allowed::OneOf(words) => ("text", words),
            _ => ("text", &[][..]),
        };
        json!({
            "name": s.name,
            "help": s.help,
            "default": Value::from(s.default),
            "kind": kind,
            "words": words,
            "allowed": s.allowed.to_string(),
        })
    };
    all.iter().map(one).collect()
}

/// Methods, likelihoods and priors with their settings, as JSON.
pub fn tables() -> String {
    let networks = posterior::inference::methods()
        .into_iter()
        .map(|m| json!({"name": m.name, "summary": m.summary, "gives": m.gives, "settings": settings(m.settings)}));
    let models = posterior::model::models()
        .into_iter()
        .map(|m| json!({"name": m.name, "summary": m.summary, "gives": m.gives, "settings": settings(m.settings)}));
    let likelihoods = posterior::likelihood::likelihoods().into_iter().map(|l| {
        let outcome = match l.outcome {
            posterior::likelihood::Outcome::Real => "real",
            posterior::likelihood::Outcome::Count => "count",
            _ => "class",
        };
        json!({"name": l.name, "summary": l.summary, "outcome": outcome, "settings": settings(l.settings)})
    });
    let priors = posterior::prior::priors()
        .into_iter()
        .map(|p| json!({"name": p.name, "summary": p.summary, "settings": settings(p.settings)}));
    json!({
        "methods": networks.chain(models).collect::<Vec<_>>(),
        "likelihoods": likelihoods.collect::<Vec<_>>(),
        "priors": priors.collect::<Vec<_>>(),
    })
    .to_string()
}
