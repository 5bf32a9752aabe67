//! Weights trained elsewhere: a PyTorch state dict in a safetensors file becomes a model with a point posterior.
//!
//! A module is a `weight` and mostly a `bias` with one prefix. `Linear` holds its weight as out × in, `Conv2d` as out × in × height × width, `Embedding` as categories × size; flattened images have
//! the same order here and there. Modules are taken in the order of their names, numbers in them by size (0, 2, 10; conv1, conv2, fc1), or as the caller
//! says. Everything that does not fit is listed in one sentence.

use super::{Model, Recipe};
use crate::data::{EncodeOptions, Encoder, Scale, Table};
use crate::error::{Error, Result};
use crate::inference::{FitSummary, Observer};
use crate::nn::{AffineKind, AnyNetwork, Role};
use crate::posterior::PointPosterior;
use crate::predict::{NetworkPredictor, Predictor, TargetScale};
use crate::problem::full_layout;
use crate::rng::Key;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// How foreign weights meet a table.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Prefixes of the modules in the order of the network's layers; empty means the order of their names.
    pub modules: Vec<String>,
    /// (x − mean)/std is what the network was trained on; none means the table's own mean and standard deviation, column by column.
    pub input_scale: Option<Scale>,
    /// The same for a real target.
    pub target_scale: Option<Scale>,
}

/// A tensor as the file has it.
struct Foreign {
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// What a name is sorted by: its words, and numbers in them by size.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(word);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        parts.push((text.to_owned(), number.parse().unwrap_or(u64::MAX)));
        rest = after;
    }
    parts
}

/// The tensors of a file by name; an error that names what is not numbers.
fn tensors(bytes: &[u8], path: &Path) -> Result<BTreeMap<String, Foreign>> {
    let refuse = |what: String, fix: &str| Err(Error::artifact(path, what, fix));
    let file = SafeTensors::deserialize(bytes).map_err(|e| {
        let fix = "write it with safetensors.torch.save_file(model.state_dict(), FILE)";
        Error::artifact(path, format!("this is not a safetensors file ({e})"), fix)
    })?;
    let mut all = BTreeMap::new();
    for (name, view) in file.tensors() {
        let values: Vec<f32> = match view.dtype() {
            Dtype::F32 => view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Dtype::F64 => view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect(),
            other => {
                let what = format!("the tensor '{name}' holds {other:?}, not F32 or F64");
                return refuse(what, "convert the model with .float() before it is saved");
            }
        };
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            let what = format!("the tensor '{name}' holds {} at number {}", values[at], at + 1);
            return refuse(what, "train the network again, with a lower learning rate");
        }
        all.insert(name, Foreign { shape: view.shape().to_vec(), values });
    }
    Ok(all)
}

/// Prefixes that have a weight or a bias, in order.
fn modules(found: &BTreeMap<String, Foreign>, given: &[String]) -> Vec<String> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let module = |name: &String| {
        let (module, part) = name.rsplit_once('.').unwrap_or(("", name));
        ["weight", "bias"].contains(&part).then(|| module.to_owned())
    };
    let mut names: Vec<String> = found.keys().filter_map(module).collect();
    names.sort_by_key(|n| natural(n));
    names.dedup();
    names
}

fn shape_text(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ")
}

/// Reads weights into the order of w; all mismatches in one error.
fn weights(
    found: &BTreeMap<String, Foreign>,
    modules: &[String],
    network: &dyn AnyNetwork,
    path: &Path,
) -> Result<Vec<f32>> {
    let mut w = vec![0.0; network.layout().len()];
    let mut wrong = Vec::new();
    let mut used = Vec::new();
    for (i, map) in network.affine_blocks().iter().enumerate() {
        let Some(module) = modules.get(i) else {
            wrong.push(format!("the network's layer {} has no tensors", map.layer));
            continue;
        };
        let own = map.start..map.start + map.len();
        for block in network.layout().blocks().iter().filter(|b| own.contains(&b.range.start)) {
            let part = if block.role == Role::Bias { "bias" } else { "weight" };
            let name = if module.is_empty() { part.to_owned() } else { format!("{module}.{part}") };
            // `Linear` has out × in where a dense map has in × out; `Conv2d` and `Embedding` keep the order that we do.
            let turned = match map.kind {
                AffineKind::Dense => block.role == Role::Weight,
                AffineKind::Convolution { .. } | AffineKind::Embedding => false,
            };
            let expected = if turned { vec![map.units, map.inputs] } else { block.shape.clone() };
            used.push(name.clone());
            match found.get(&name) {
                None => wrong.push(format!("'{name}' is missing")),
                Some(t) if t.shape != expected => {
                    wrong.push(format!("'{name}' is {} and should be {}", shape_text(&t.shape), shape_text(&expected)));
                }
                Some(t) if turned => {
                    for (i, row) in w[block.range.clone()].chunks_exact_mut(map.units).enumerate() {
                        row.iter_mut().enumerate().for_each(|(o, v)| *v = t.values[o * map.inputs + i]);
                    }
                }
                Some(t) => w[block.range.clone()].copy_from_slice(&t.values),
            }
        }
    }
    wrong.extend(found.keys().filter(|n| !used.contains(n)).map(|n| format!("'{n}' has no place in the network")));
    if wrong.is_empty() {
        return Ok(w);
    }
    let fix = "describe in the configuration the network that the weights are of, and name its modules in order if their names do not sort so";
    Err(Error::artifact(path, wrong.join(", "), fix))
}

/// A model from the bytes of a state dict; `path` is for messages. The table gives the inputs, the target and, for real outcomes, the noise.
pub fn import(
    bytes: &[u8],
    path: &Path,
    recipe: &Recipe,
    table: &Table,
    options: &EncodeOptions,
    how: &ImportOptions,
    observer: &mut dyn Observer,
) -> Result<Model> {
    let fitted = Encoder::fit(table, options)?;
    fitted.warnings.iter().for_each(|w| observer.warn(w));
    let encoder = fitted.encoder.with_scales(how.input_scale, how.target_scale);
    let data = encoder.encode(table, true)?.data;
    let mut recipe = recipe.clone();
    recipe.method = super::Choice::named("map");
    let resolved = recipe.resolve(&encoder)?;
    let (network, likelihood) = (resolved.network.clone(), resolved.likelihood.clone());
    let found = tensors(bytes, path)?;
    let modules = modules(&found, &how.modules);
    let mut w = weights(&found, &modules, &*network, path)?;
    if modules.len() > 1 && how.modules.is_empty() {
        observer.warn(&format!("layers were taken in the order {}", modules.join(", ")));
    }
    let layout = full_layout(&*network, &*likelihood);
    w.resize(layout.len(), likelihood.initial_noise() as f32);
    let noises = layout.len() - network.layout().len();
    if noises > 0 {
        // What the network leaves unexplained is noise: its maximum-likelihood scale, target by target.
        let predictor = NetworkPredictor {
            network: network.clone(),
            likelihood: likelihood.clone(),
            posterior: Arc::new(PointPosterior::new(w.clone())),
            draws: 1,
            key: Key::new(0),
            scale: TargetScale::default(),
        };
        let mean = predictor.predict(&data.x).real().mean;
        let first = network.layout().len();
        for t in 0..noises {
            let squares: Vec<f64> =
                mean.iter().zip(&*data.y).skip(t).step_by(noises).map(|(m, y)| (y - m).powi(2)).collect();
            let rms = (squares.iter().sum::<f64>() / squares.len().max(1) as f64).sqrt();
            w[first + t] = rms.max(1e-6).ln() as f32;
        }
    }
    let none = FitSummary {
        steps: 0,
        seconds: 0.0,
        stopped_early: false,
        penalty_name: String::new(),
        epochs: 0,
        trace: Vec::new(),
    };
    Ok(Model {
        mixing: None,
        recipe: resolved.recipe.clone(),
        encoder,
        seed: 0,
        rows: data.rows,
        summary: none,
        calibration: None,
        fitted: Arc::new(resolved.fitted(Arc::new(PointPosterior::new(w)))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_people_count() {
        let mut names = ["10", "2", "0", "3.1", "3.0"];
        names.sort_by_key(|n| natural(n));
        assert_eq!(names, ["0", "2", "3.0", "3.1", "10"]);
        let mut names = ["fc2", "conv1", "fc10", "conv2", "fc1"];
        names.sort_by_key(|n| natural(n));
        assert_eq!(names, ["conv1", "conv2", "fc1", "fc2", "fc10"]);
    }
}
