//! Published results, reproduced: `published NAME` prints one JSON line per result. `images` holds the table of results on images, which this file runs;
//! `detection` tells other images and attacks apart by uncertainty, `uci` is the table of small regressions, `ranks` ranks methods as they come.
//!
//! Data come from the folder named by `POSTERIOR_DATA`; where it is not set, a line says that the result was skipped.

mod cells;
mod detection;
mod gp;
mod gp_large;
mod images;
mod optimise;
mod ranks;
mod uci;

use images::{Figures, Layer, PUBLISHED, Published, text};
use posterior::apply::compress::{Memory, Rule, prune};
use posterior::artifact;
use posterior::data::{EncodeOptions, Encoded, ReadOptions, Table};
use posterior::inference::{Flow, Observer, Progress};
use posterior::model::Model;
use posterior::nn::Role;
use posterior::posterior::PointPosterior;
use posterior::score::METRICS;
use posterior::settings::Value;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// A table of results that is no row of `PUBLISHED`: name, what it is, and what runs it.
type Other = (&'static str, &'static str, fn(&Path, &[String]) -> Result<(), String>);

const OTHERS: &[Other] = &[
    (
        "ood-lenet5",
        "MNIST against Fashion-MNIST by uncertainty: AUROC of at least 98.9 for MAP, 99.2 for an ensemble",
        detection::ood,
    ),
    (
        "attack-lenet5",
        "FGSM and PGD on LeNet-5: part found at 5 % false alarms by ε, an ensemble ahead of one network",
        detection::attack,
    ),
    ("uci", "six regressions, 20 splits each, by method, and the default against the best", uci::run),
    ("gp-uci", "exact Gaussian processes on five regressions: log marginal likelihood and test scores", gp::run),
    ("optimise", "Branin and Hartmann6 by suggested experiments: median regret over 20 seeds", optimise::run),
    ("pools", "three tables of real experiments: how many until the best 5 % is found, beside random", optimise::pools),
    ("gp-large", "Gaussian processes on 15 000 to 17 000 rows: RMSE in standard units", gp_large::run),
    ("ranks", "every method as it comes on eleven small sets: mean rank by log-likelihood", ranks::run),
];

pub fn usage() -> String {
    let rows = PUBLISHED.iter().map(|p| (p.name, p.what)).chain(OTHERS.iter().map(|o| (o.0, o.1)));
    let names: Vec<_> = rows.map(|(name, what)| format!("  {name:<24} {what}")).collect();
    format!("usage: posterior-bench published NAME [SETTING=VALUE]…\n{}", names.join("\n"))
}

/// Runs one. Settings of the method (or `prior.KEY`) can be given, to try others than those that reached the figure;
/// `held_out=N` fits without the last N training rows and scores on them, `save=FILE` keeps the model.
pub fn run(name: &str, settings: &[String]) -> ExitCode {
    let published = PUBLISHED.iter().find(|p| p.name == name);
    let other = OTHERS.iter().find(|o| o.0 == name);
    if published.is_none() && other.is_none() {
        eprintln!("there is no published result '{name}'\n{}", usage());
        return ExitCode::from(2);
    }
    let Some(folder) = std::env::var_os("POSTERIOR_DATA") else {
        println!("{}", json!({"name": name, "skipped": "POSTERIOR_DATA is not set"}));
        return ExitCode::SUCCESS;
    };
    let folder = PathBuf::from(folder);
    let done = match (published, other) {
        (Some(published), _) => {
            published.run(&folder, settings).map(|line| println!("{line}")).map_err(|e| e.to_string())
        }
        (_, Some((_, _, run))) => run(&folder, settings),
        _ => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

/// One dot per epoch, on standard error.
struct Dots(usize);

impl Observer for Dots {
    fn progress(&mut self, p: &Progress) -> Flow {
        if p.epoch != self.0 {
            self.0 = p.epoch;
            eprint!(".");
        }
        Flow::Continue
    }
    fn warn(&mut self, message: &str) {
        eprintln!("{message}");
    }
}

/// The images of a folder with their labels; `part` is train or t10k.
fn images(folder: &Path, data: &str, part: &str) -> posterior::Result<Table> {
    Table::read(&folder.join(data).join(format!("{part}-images-idx3-ubyte.gz")), &ReadOptions::default())
}

impl Published {
    fn run(&self, folder: &Path, settings: &[String]) -> posterior::Result<serde_json::Value> {
        let train = images(folder, self.data, "train")?;
        let (mut held_out, mut save) = (0, None);
        let mut recipe = (self.recipe)()?;
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            if key == "held_out" {
                held_out = value.parse().unwrap_or(0).min(train.rows() / 2);
                continue;
            }
            if key == "save" {
                save = Some(PathBuf::from(value));
                continue;
            }
            let value = match (value.parse(), value.parse()) {
                (Ok(i), _) => Value::Int(i),
                (_, Ok(f)) => Value::Float(f),
                _ => text(value),
            };
            match key.split_once('.') {
                Some(("prior", key)) => recipe.prior = recipe.prior.with(key, value),
                _ => recipe.method = recipe.method.with(key, value),
            }
        }
        // Settings are chosen on rows held out of the training set, so that the test set is looked at once.
        let (train, test) = match held_out {
            0 => (train, images(folder, self.data, "t10k")?),
            n => {
                let (kept, left): (Vec<usize>, Vec<usize>) = (0..train.rows()).partition(|r| r + n < train.rows());
                (train.select(&kept), train.select(&left))
            }
        };
        let options = EncodeOptions { target: "label".into(), ..EncodeOptions::default() };
        let started = Instant::now();
        let model = Model::fit(&recipe, &train, &options, 0, &mut Dots(0))?;
        eprintln!();
        if let Some(path) = save {
            artifact::save(&model, &path)?;
        }
        let encoded = model.encoder.encode(&test, true)?;
        let mut figures = self.figures(&model, &encoded)?;
        if let Some(keep) = self.keep {
            let pruned = prune(&model, Rule::Keep(keep), Memory::MeanAndStd)?;
            figures.pruned_error_percent = Some(self.figures(&pruned.model, &encoded)?.error_percent);
        }
        let settings: Vec<String> = recipe.method.settings.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
        let mut line = json!({
            "name": self.name,
            "epochs": model.summary.epochs,
            "seconds": started.elapsed().as_secs_f64(),
            "seconds_per_epoch": model.summary.seconds / model.summary.epochs.max(1) as f64,
            "settings": settings,
            "held_out": held_out,
            "asked": self.what,
            "published": self.published,
            "reached": (self.reached)(&figures),
        });
        if let (Some(line), Ok(serde_json::Value::Object(figures))) =
            (line.as_object_mut(), serde_json::to_value(&figures))
        {
            line.extend(figures);
        }
        Ok(line)
    }

    fn figures(&self, model: &Model, test: &Encoded) -> posterior::Result<Figures> {
        let scored = model.score(&test.data, &model.how(self.draws))?;
        let score = |name: &str| METRICS.iter().find(|m| m.name == name).and_then(|m| m.score(&scored));
        let mut figures = Figures {
            error_percent: 100.0 * (1.0 - score("accuracy").unwrap_or(f64::NAN)),
            nll: -score("log_likelihood").unwrap_or(f64::NAN),
            ece: score("ece").unwrap_or(f64::NAN),
            error_percent_of_means: None,
            nll_of_mode: None,
            ece_of_mode: None,
            layers: None,
            compression: None,
            pruned_error_percent: None,
        };
        let fit = model.network("published figures are of networks")?;
        let at = |mean: &[f32]| model.with_posterior(Arc::new(PointPosterior::new(mean.to_vec())));
        if let Some(q) = fit.posterior.as_blocks() {
            let mode = at(q.mean())?;
            let scored = mode.score(&test.data, &mode.how(1))?;
            let score = |name: &str| METRICS.iter().find(|m| m.name == name).and_then(|m| m.score(&scored));
            figures.nll_of_mode = score("log_likelihood").map(|l| -l);
            figures.ece_of_mode = score("ece");
        }
        if let Some((mean, _)) = fit.posterior.diagonal() {
            let classes = at(mean)?.predict(&test.data.x, &model.how(1))?.classes();
            let wrong = (0..test.data.rows).filter(|&n| classes.predicted(n) as f64 != test.data.y[n]).count();
            figures.error_percent_of_means = Some(100.0 * wrong as f64 / test.data.rows as f64);
            let blocks = fit.network.layout().blocks().iter().filter(|b| b.role == Role::Weight);
            let layers: Vec<Layer> = blocks
                .map(|b| {
                    let kept = mean[b.range.clone()].iter().filter(|w| **w != 0.0).count();
                    let sparsity_percent = 100.0 * (1.0 - kept as f64 / b.range.len() as f64);
                    Layer { name: b.name.clone(), weights: b.range.len(), kept, sparsity_percent }
                })
                .collect();
            let (all, kept) = layers.iter().fold((0, 0), |(a, k), l| (a + l.weights, k + l.kept));
            if kept < all {
                figures.layers = Some(layers);
                figures.compression = Some(all as f64 / kept.max(1) as f64);
            }
        }
        Ok(figures)
    }
}
