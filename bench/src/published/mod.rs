//! Published results, reproduced: `published NAME` prints one JSON line per result.
//!
//! Data come from the folder named by `POSTERIOR_DATA`; where it is not set, a line says that the result was skipped.

mod images;

use images::{Figures, Layer, PUBLISHED, Published, text};
use posterior::apply::compress::{Memory, Rule, prune};
use posterior::data::{EncodeOptions, Encoded, ReadOptions, Table};
use posterior::inference::{Flow, Observer, Progress};
use posterior::model::Model;
use posterior::nn::Role;
use posterior::posterior::PointPosterior;
use posterior::predict::Predictor;
use posterior::score::{METRICS, Scored};
use posterior::settings::Value;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

pub fn usage() -> String {
    let names: Vec<_> = PUBLISHED.iter().map(|p| format!("  {:<24} {}", p.name, p.what)).collect();
    format!("usage: posterior-bench published NAME [SETTING=VALUE]…\n{}", names.join("\n"))
}

/// Runs one. Settings of the method (or `prior.KEY`) can be given, to try others than those that reached the figure;
/// `held_out=N` fits without the last N training rows and scores on them.
pub fn run(name: &str, settings: &[String]) -> ExitCode {
    let Some(published) = PUBLISHED.iter().find(|p| p.name == name) else {
        eprintln!("there is no published result '{name}'\n{}", usage());
        return ExitCode::from(2);
    };
    let Some(folder) = std::env::var_os("POSTERIOR_DATA") else {
        println!("{}", json!({"name": name, "skipped": "POSTERIOR_DATA is not set"}));
        return ExitCode::SUCCESS;
    };
    match published.run(&PathBuf::from(folder), settings) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
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

impl Published {
    fn run(&self, folder: &Path, settings: &[String]) -> posterior::Result<serde_json::Value> {
        let read = |name: &str| Table::read(&folder.join(self.data).join(name), &ReadOptions::default());
        let train = read("train-images-idx3-ubyte.gz")?;
        let mut held_out = 0;
        let mut recipe = (self.recipe)()?;
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            if key == "held_out" {
                held_out = value.parse().unwrap_or(0).min(train.rows() / 2);
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
            0 => (train, read("t10k-images-idx3-ubyte.gz")?),
            n => {
                let (kept, left): (Vec<usize>, Vec<usize>) = (0..train.rows()).partition(|r| r + n < train.rows());
                (train.select(&kept), train.select(&left))
            }
        };
        let options = EncodeOptions { target: "label".into(), ..EncodeOptions::default() };
        let started = Instant::now();
        let model = Model::fit(&recipe, &train, &options, 0, &mut Dots(0))?;
        eprintln!();
        let encoded = model.encoder.encode(&test, true)?;
        let mut figures = self.figures(&model, &encoded);
        if let Some(keep) = self.keep {
            let pruned = prune(&model, Rule::Keep(keep), Memory::MeanAndStd)?;
            figures.pruned_error_percent = Some(self.figures(&pruned.model, &encoded).error_percent);
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

    fn figures(&self, model: &Model, test: &Encoded) -> Figures {
        let predictive = model.predict(test, self.draws);
        let scored = Scored::new(&predictive, &test.data.y, model.likelihood.outcome());
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
        if let Some(q) = model.posterior.as_blocks() {
            let mut predictor = model.predictor(1);
            predictor.posterior = Arc::new(PointPosterior::new(q.mean().to_vec()));
            let predictive = predictor.predict(&test.data.x);
            let scored = Scored::new(&predictive, &test.data.y, model.likelihood.outcome());
            let score = |name: &str| METRICS.iter().find(|m| m.name == name).and_then(|m| m.score(&scored));
            figures.nll_of_mode = score("log_likelihood").map(|l| -l);
            figures.ece_of_mode = score("ece");
        }
        if let Some((mean, _)) = model.posterior.as_prior() {
            let mut predictor = model.predictor(1);
            predictor.posterior = Arc::new(PointPosterior::new(mean.to_vec()));
            let classes = predictor.predict(&test.data.x).classes();
            let wrong = (0..test.data.rows).filter(|&n| classes.predicted(n) as f64 != test.data.y[n]).count();
            figures.error_percent_of_means = Some(100.0 * wrong as f64 / test.data.rows as f64);
            let blocks = model.network.layout().blocks().iter().filter(|b| b.role == Role::Weight);
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
        figures
    }
}
