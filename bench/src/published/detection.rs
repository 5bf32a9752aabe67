//! LeNet-5 fitted to MNIST, and whether its uncertainty tells Fashion-MNIST, or digits changed to fool it, from digits.
//!
//! Models are given by `model=FILE`, as often as there are models: the one that `published ensemble-lenet5-mnist save=FILE` writes, and any other of the same
//! images; without one that ensemble is fitted first (settings may follow). Beside a model whose members are points or diagonal Gaussians stand these by themselves (of an
//! ensemble, they differ in their initial values alone): their figures are means over all of them, with the lowest and the highest. Each model is attacked by the gradient of its own predictive,
//! by FGSM and by PGD, or by one of them that `attack=` names.

use super::images::PUBLISHED;
use super::{Dots, images};
use posterior::apply::attack::{Attack, PerturbationBudget, perturb};
use posterior::apply::detect::{Detection, UncertaintyScore, detect, fooled, uncertainty_scores};
use posterior::artifact;
use posterior::data::{EncodeOptions, Encoded, Values};
use posterior::fitted::Route;
use posterior::model::Model;
use posterior::posterior::{MeanFieldPosterior, PointPosterior, Posterior};
use posterior::rng::Key;
use posterior::settings::Value;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The result whose model this is.
const FITTED: &str = "ensemble-lenet5-mnist";
/// Changes of a pixel's brightness, which is between 0 and 1.
const EPSILONS: [f64; 6] = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3];
/// AUROC in per cent of one network and of the ensemble of Daxberger et al. (2021).
const AUROC: [(&str, f64); 2] = [("one of ensemble", 98.9), ("ensemble", 99.2)];

/// Models that are judged together; the figures are their means.
struct Kind {
    name: String,
    models: Vec<Model>,
}

/// Everything that is judged.
struct Judged {
    kinds: Vec<Kind>,
    attacks: Vec<Attack>,
    /// MNIST's test images.
    test: Encoded,
    seconds: f64,
}

impl Judged {
    fn new(folder: &Path, settings: &[String]) -> Result<Judged, String> {
        let started = Instant::now();
        let text = |e: posterior::Error| e.to_string();
        let published = PUBLISHED.iter().find(|p| p.name == FITTED).ok_or("the ensemble is not in the table")?;
        let (mut models, mut recipe) = (Vec::new(), (published.recipe)().map_err(text)?);
        let (mut attacks, mut fit) = (vec![Attack::Fgsm, Attack::Pgd], false);
        for setting in settings {
            match setting.split_once('=') {
                Some(("model", path)) => models.push(artifact::load(Path::new(path)).map_err(text)?),
                Some(("attack", name)) => {
                    attacks = vec![Attack::find(name).ok_or_else(|| format!("'{name}' is not fgsm or pgd"))?];
                }
                Some((key, value)) => {
                    recipe.method = recipe.method.with(key, Value::parse(value));
                    fit = true;
                }
                None => return Err(format!("'{setting}' is not key=value")),
            }
        }
        if !models.is_empty() && fit {
            return Err("settings are for the ensemble that is fitted where no model is given".into());
        }
        if models.is_empty() {
            let options = EncodeOptions { target: "label".into(), ..EncodeOptions::default() };
            let train = images(folder, published.data, "train").map_err(text)?;
            models.push(Model::fit(&recipe, &train, &options, 0, &mut Dots(0)).map_err(text)?);
        }
        if models.iter().any(|m| m.encoder != models[0].encoder) {
            return Err("the models were not fitted to the same columns of the same images".into());
        }
        let test = images(folder, published.data, "t10k").map_err(text)?;
        let test = models[0].encoder.encode(&test, true).map_err(text)?;
        let kinds = models.into_iter().flat_map(|model| {
            let name = model.recipe.method.name.clone().unwrap_or_default();
            let members = members(&model);
            let alone = Kind { name: format!("one of {name}"), models: members };
            [alone, Kind { name, models: vec![model] }].into_iter().filter(|k| !k.models.is_empty())
        });
        Ok(Judged { kinds: kinds.collect(), attacks, test, seconds: started.elapsed().as_secs_f64() })
    }
}

/// A model of every member; none where there are no members, or members that are neither points nor diagonal Gaussians.
fn members(model: &Model) -> Vec<Model> {
    let alone = |member: &dyn Posterior| {
        let posterior: Arc<dyn Posterior> = match member.diagonal() {
            Some((mean, std)) => Arc::new(MeanFieldPosterior::new(mean.to_vec(), std.to_vec(), None)),
            None if member.is_point() => Arc::new(PointPosterior::new(member.draw(Key::new(model.seed)).w)),
            None => return None,
        };
        model.with_posterior(posterior).ok()
    };
    let members = model.fitted.as_network().map_or(&[][..], |fit| fit.posterior.members());
    members.iter().map(|m| alone(&**m)).collect::<Option<_>>().unwrap_or_default()
}

/// As many draws as there are distinct ones, or 10.
fn draws(model: &Model) -> usize {
    let most = model.fitted.as_network().map_or(10, |fit| fit.distinct(usize::MAX));
    if most == usize::MAX { 10 } else { most }
}

fn scores_of(model: &Model, x: &Values) -> (Vec<UncertaintyScore>, Vec<usize>) {
    let predictive =
        model.fitted.predict(x, &model.how(draws(model)).by(Route::Draws)).expect("networks predict by draws");
    let classes = predictive.classes();
    let predicted = (0..predictive.rows()).map(|n| classes.predicted(n)).collect();
    (uncertainty_scores(&predictive, model.likelihood().outcome()), predicted)
}

/// By every measure that is not the same for all rows, in per cent.
fn figures(
    known: &[UncertaintyScore],
    other: &[UncertaintyScore],
    value: fn(&Detection) -> f64,
) -> Vec<(&'static str, f64)> {
    let found = known.iter().zip(other).filter_map(|(k, o)| detect(k, o)).filter(|d| !d.constant);
    found.map(|d| (d.measure, 100.0 * value(&d))).collect()
}

/// Figures of several models of which more is better: means by measure, and those of the measure with the highest mean.
struct Over {
    means: Vec<(&'static str, f64)>,
    best: Option<(&'static str, f64)>,
    lowest: f64,
    highest: f64,
}

impl Over {
    fn new(models: &[Vec<(&'static str, f64)>]) -> Over {
        let mut measures: Vec<&'static str> = models.iter().flatten().map(|(name, _)| *name).collect();
        measures.sort_unstable();
        measures.dedup();
        let of = |measure: &str| -> Vec<f64> {
            models.iter().filter_map(|m| m.iter().find(|(name, _)| *name == measure).map(|(_, v)| *v)).collect()
        };
        let mean = |name: &'static str| (name, of(name).iter().sum::<f64>() / of(name).len() as f64);
        let means: Vec<_> = measures.into_iter().map(mean).collect();
        let best = means.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let all = best.map_or(Vec::new(), |(measure, _)| of(measure));
        let (lowest, highest) =
            (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
        Over { means, best, lowest, highest }
    }

    fn best(&self) -> f64 {
        self.best.map_or(0.0, |b| b.1)
    }

    fn by_measure(&self) -> serde_json::Value {
        serde_json::Value::Object(self.means.iter().map(|(name, v)| ((*name).to_owned(), json!(v))).collect())
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "by_measure": self.by_measure(), "best": self.best.map(|b| b.1), "measure": self.best.map(|b| b.0),
            "lowest": self.lowest, "highest": self.highest,
        })
    }
}

/// Fashion-MNIST's test images against MNIST's.
pub(super) fn ood(folder: &Path, settings: &[String]) -> Result<(), String> {
    let judged = Judged::new(folder, settings)?;
    let text = |e: posterior::Error| e.to_string();
    let other = images(folder, "fashion-mnist", "t10k").map_err(text)?;
    let other = judged.kinds[0].models[0].encoder.encode(&other, false).map_err(text)?;
    for Kind { name, models } in &judged.kinds {
        let asked = AUROC.iter().find(|(of, _)| of == name).map(|a| a.1);
        let found: Vec<_> =
            models.iter().map(|m| [&judged.test.data.x, &other.data.x].map(|x| scores_of(m, x).0)).collect();
        let over = |value: fn(&Detection) -> f64| {
            Over::new(&found.iter().map(|[known, other]| figures(known, other, value)).collect::<Vec<_>>())
        };
        let auroc = over(|d| d.auroc);
        let line = json!({
            "name": "ood-lenet5",
            "method": name,
            "models": models.len(),
            "auroc_percent": auroc.json(),
            "fpr95_percent": over(|d| d.fpr95).by_measure(),
            "published": asked,
            "reached": asked.map(|a| auroc.best() >= a),
            "seconds_to_fit_or_load": judged.seconds,
        });
        println!("{line}");
    }
    Ok(())
}

/// Best figures by ε of one kind of model: of all changed images and of those that fooled it, and AUROC of all.
struct ByEpsilon<'a> {
    method: &'a str,
    best: Vec<[f64; 3]>,
}

/// Changed test images against the same images unchanged.
pub(super) fn attack(folder: &Path, settings: &[String]) -> Result<(), String> {
    let judged = Judged::new(folder, settings)?;
    for attack in &judged.attacks {
        let by_kind: Vec<ByEpsilon<'_>> = judged.kinds.iter().map(|kind| attacked(&judged, kind, *attack)).collect();
        for pair in by_kind.windows(2).filter(|pair| *pair[0].method == format!("one of {}", pair[1].method)) {
            println!("{}", ahead(*attack, &pair[0], &pair[1]));
        }
    }
    Ok(())
}

/// Prints a line for every ε.
fn attacked<'a>(judged: &Judged, kind: &'a Kind, attack: Attack) -> ByEpsilon<'a> {
    let (data, models) = (&judged.test.data, &kind.models);
    let right = |predicted: &[usize]| {
        100.0 * predicted.iter().zip(data.y.iter()).filter(|(p, y)| **p as f64 == **y).count() as f64 / data.rows as f64
    };
    // All models encode alike.
    let reach = PerturbationBudget::new(&judged.kinds[0].models[0].encoder, data);
    let unchanged: Vec<_> = models.iter().map(|m| scores_of(m, &data.x)).collect();
    let best = EPSILONS.map(|epsilon| {
        let (mut all, mut only, mut auroc) = (Vec::new(), Vec::new(), Vec::new());
        let (mut accuracy, mut fooled_rows) = (0.0, 0.0);
        for (model, (known, predicted)) in models.iter().zip(&unchanged) {
            let x = perturb(&*model.fitted, data, &reach, attack, epsilon, draws(model), Key::new(model.seed))
                .expect("networks draw functions");
            let (other, after) = scores_of(model, &x);
            let turned = fooled(&data.y, predicted, &after);
            let of_turned: Vec<UncertaintyScore> = other.iter().map(|d| d.of_rows(&turned)).collect();
            all.push(figures(known, &other, |d| d.tpr_at_fpr5));
            only.push(figures(known, &of_turned, |d| d.tpr_at_fpr5));
            auroc.push(figures(known, &other, |d| d.auroc));
            let share = 1.0 / models.len() as f64;
            accuracy += share * right(&after);
            fooled_rows += share * turned.len() as f64;
        }
        let [all, only, auroc] = [all, only, auroc].map(|figures| Over::new(&figures));
        let line = json!({
            "name": "attack-lenet5",
            "attack": attack.name(),
            "method": kind.name,
            "models": models.len(),
            "epsilon": epsilon,
            "accuracy_percent": accuracy,
            "tpr_at_fpr5_percent": all.json(),
            "fooled": fooled_rows,
            "tpr_at_fpr5_percent_of_fooled": only.json(),
            "auroc_percent": auroc.json(),
        });
        println!("{line}");
        [all.best(), only.best(), auroc.best()]
    });
    ByEpsilon { method: &kind.name, best: best.to_vec() }
}

/// Where a model finds more than its members by themselves.
fn ahead(attack: Attack, members: &ByEpsilon<'_>, model: &ByEpsilon<'_>) -> serde_json::Value {
    let ahead = |which: usize| -> Vec<bool> {
        members.best.iter().zip(&model.best).map(|(m, a)| a[which] > m[which]).collect()
    };
    let mean = |of: &ByEpsilon<'_>| of.best.iter().map(|best| best[0]).sum::<f64>() / EPSILONS.len() as f64;
    json!({
        "name": "attack-lenet5",
        "attack": attack.name(),
        "method": model.method,
        "asked": "finds more than its members by themselves",
        "epsilons": EPSILONS,
        "ahead": ahead(0),
        "ahead_of_fooled": ahead(1),
        "ahead_by_auroc": ahead(2),
        "mean_tpr_percent_of_members": mean(members),
        "mean_tpr_percent": mean(model),
        "reached_on_average": mean(model) > mean(members),
        "reached_at_every_epsilon": ahead(0).iter().all(|a| *a),
    })
}
