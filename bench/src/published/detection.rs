//! LeNet-5 fitted to MNIST, and whether its doubt tells Fashion-MNIST, or digits changed to fool it, from digits.
//!
//! The model is `model=FILE`, which `published ensemble-lenet5-mnist save=FILE` writes, or else that ensemble is fitted first (settings may follow). One
//! network, `map`, is its first member: members are MAP fits that differ in their initial values alone. Each model is attacked by the gradient
//! of its own predictive.

use super::images::PUBLISHED;
use super::{Dots, images};
use posterior::apply::attack::{Attack, Reach, perturb};
use posterior::apply::detect::{Detection, Doubt, detect, doubts, fooled};
use posterior::artifact;
use posterior::data::{EncodeOptions, Encoded, Values};
use posterior::model::Model;
use posterior::nn::Mode;
use posterior::posterior::{Draw, PointPosterior};
use posterior::predict::Predictor;
use posterior::rng::Key;
use posterior::settings::Value;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The result whose model this is.
const FITTED: &str = "ensemble-lenet5-mnist";
/// Changes of a pixel's brightness, which is between 0 and 1.
const EPSILONS: [f64; 6] = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3];
/// AUROC in per cent of one network and of the ensemble of Daxberger et al. (2021).
const AUROC: [f64; 2] = [98.9, 99.2];

/// The ensemble, and its first member alone.
struct Pair {
    models: [(&'static str, Model); 2],
    /// MNIST's test images.
    test: Encoded,
    seconds: f64,
}

impl Pair {
    fn new(folder: &Path, settings: &[String]) -> Result<Pair, String> {
        let started = Instant::now();
        let text = |e: posterior::Error| e.to_string();
        let published = PUBLISHED.iter().find(|p| p.name == FITTED).ok_or("the ensemble is not in the table")?;
        let (mut file, mut recipe) = (None, (published.recipe)().map_err(text)?);
        for setting in settings {
            match setting.split_once('=') {
                Some(("model", path)) => file = Some(PathBuf::from(path)),
                Some((key, value)) => recipe.method = recipe.method.with(key, Value::parse(value)),
                None => return Err(format!("'{setting}' is not key=value")),
            }
        }
        let ensemble = match file {
            Some(path) => artifact::load(&path).map_err(text)?,
            None => {
                let options = EncodeOptions { target: "label".into(), ..EncodeOptions::default() };
                let train = images(folder, published.data, "train").map_err(text)?;
                Model::fit(&recipe, &train, &options, 0, &mut Dots(0)).map_err(text)?
            }
        };
        let mut first = Draw { w: vec![0.0; ensemble.posterior.dim()], mode: Mode::Plain };
        ensemble.posterior.draw_of_into(0, 1, Key::new(ensemble.seed), &mut first);
        let mut map = ensemble.clone();
        map.posterior = Arc::new(PointPosterior::new(first.w));
        let test = images(folder, published.data, "t10k").map_err(text)?;
        let test = ensemble.encoder.encode(&test, true).map_err(text)?;
        Ok(Pair { models: [("map", map), ("ensemble", ensemble)], test, seconds: started.elapsed().as_secs_f64() })
    }
}

/// As many draws as there are distinct ones.
fn draws(model: &Model) -> usize {
    if model.posterior.is_point() { 1 } else { model.posterior.distinct().unwrap_or(50) }
}

fn doubts_of(model: &Model, x: &Values) -> (Vec<Doubt>, Vec<usize>) {
    let predictive = model.predictor(draws(model)).predict(x);
    let classes = predictive.classes();
    let predicted = (0..predictive.rows()).map(|n| classes.predicted(n)).collect();
    (doubts(&predictive, model.likelihood.outcome()), predicted)
}

/// By every measure that is not the same for all rows, and the best.
fn detections(known: &[Doubt], other: &[Doubt]) -> Vec<Detection> {
    known.iter().zip(other).filter_map(|(k, o)| detect(k, o)).filter(|d| !d.constant).collect()
}

fn by_measure(found: &[Detection], value: fn(&Detection) -> f64) -> (serde_json::Value, Option<(f64, &'static str)>) {
    let all = found.iter().map(|d| (d.measure.to_owned(), json!(value(d)))).collect();
    let best = found.iter().map(|d| (value(d), d.measure)).max_by(|a, b| a.0.total_cmp(&b.0));
    (serde_json::Value::Object(all), best)
}

/// Fashion-MNIST's test images against MNIST's.
pub(super) fn ood(folder: &Path, settings: &[String]) -> Result<(), String> {
    let pair = Pair::new(folder, settings)?;
    let text = |e: posterior::Error| e.to_string();
    let other = images(folder, "fashion-mnist", "t10k").map_err(text)?;
    for ((name, model), asked) in pair.models.iter().zip(AUROC) {
        let other = model.encoder.encode(&other, false).map_err(text)?;
        let found = detections(&doubts_of(model, &pair.test.data.x).0, &doubts_of(model, &other.data.x).0);
        let (all, best) = by_measure(&found, |d| 100.0 * d.auroc);
        let line = json!({
            "name": "ood-lenet5",
            "method": name,
            "members": draws(model),
            "auroc_percent": all,
            "best": best.map(|b| b.0),
            "best_measure": best.map(|b| b.1),
            "fpr95_percent": by_measure(&found, |d| 100.0 * d.fpr95).0,
            "published": asked,
            "reached": best.is_some_and(|b| b.0 >= asked),
            "seconds_to_fit_or_load": pair.seconds,
        });
        println!("{line}");
    }
    Ok(())
}

/// Test images changed by FGSM against the same images unchanged.
pub(super) fn attack(folder: &Path, settings: &[String]) -> Result<(), String> {
    let pair = Pair::new(folder, settings)?;
    let data = &pair.test.data;
    let mut best_of = Vec::new();
    for (name, model) in &pair.models {
        let (known, predicted) = doubts_of(model, &data.x);
        let right = |predicted: &[usize]| {
            predicted.iter().zip(data.y.iter()).filter(|(p, y)| **p as f64 == **y).count() as f64 / data.rows as f64
        };
        let reach = Reach::new(&model.encoder, data);
        let mut best_by_epsilon = Vec::new();
        for epsilon in EPSILONS {
            let x = perturb(model, data, &reach, Attack::Fgsm, epsilon, draws(model), Key::new(model.seed));
            let (other, after) = doubts_of(model, &x);
            let found = detections(&known, &other);
            let (all, best) = by_measure(&found, |d| 100.0 * d.tpr_at_fpr5);
            let turned = fooled(&data.y, &predicted, &after);
            let only: Vec<Doubt> = other.iter().map(|d| d.of_rows(&turned)).collect();
            let of_turned = detections(&known, &only);
            let (all_turned, best_turned) = by_measure(&of_turned, |d| 100.0 * d.tpr_at_fpr5);
            best_by_epsilon.push([best, best_turned].map(|b| b.map_or(0.0, |b| b.0)));
            let line = json!({
                "name": "attack-lenet5",
                "method": name,
                "members": draws(model),
                "epsilon": epsilon,
                "accuracy": right(&after),
                "accuracy_unchanged": right(&predicted),
                "tpr_at_fpr5_percent": all,
                "best": best.map(|b| b.0),
                "best_measure": best.map(|b| b.1),
                "auroc_percent": by_measure(&found, |d| 100.0 * d.auroc).0,
                "fooled": turned.len(),
                "tpr_at_fpr5_percent_of_fooled": all_turned,
                "best_of_fooled": best_turned.map(|b| b.0),
                "best_measure_of_fooled": best_turned.map(|b| b.1),
            });
            println!("{line}");
        }
        best_of.push(best_by_epsilon);
    }
    let ahead = |which: usize| -> Vec<bool> {
        best_of[0].iter().zip(&best_of[1]).map(|(map, ensemble)| ensemble[which] > map[which]).collect()
    };
    let line = json!({
        "name": "attack-lenet5",
        "asked": "the ensemble finds more than one network at every epsilon",
        "epsilons": EPSILONS,
        "ensemble_ahead": ahead(0),
        "ensemble_ahead_of_fooled": ahead(1),
        "reached": ahead(0).iter().all(|a| *a),
        "reached_of_fooled": ahead(1).iter().all(|a| *a),
        "seconds_to_fit_or_load": pair.seconds,
    });
    println!("{line}");
    Ok(())
}
