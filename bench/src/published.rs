//! Published results, reproduced: `published NAME` prints one JSON line per result.
//!
//! Data come from the folder named by `POSTERIOR_DATA`; where it is not set, a line says that the result was skipped.

use posterior::apply::compress::{Memory, Rule, prune};
use posterior::data::{EncodeOptions, Encoded, ReadOptions, Table};
use posterior::inference::{Flow, Observer, Progress};
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::{Activation, NetworkSpec, Role};
use posterior::posterior::PointPosterior;
use posterior::predict::Predictor;
use posterior::score::{METRICS, Scored};
use posterior::settings::Value;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// A result to reproduce.
struct Published {
    name: &'static str,
    what: &'static str,
    /// What others have printed.
    published: &'static str,
    /// The folder of its images.
    data: &'static str,
    recipe: fn() -> posterior::Result<Recipe>,
    /// Draws of the predictive.
    draws: usize,
    /// Whether the figures are those asked for.
    reached: fn(&Figures) -> bool,
    /// Removes all but this part of the weights by signal to noise afterwards, and counts again.
    keep: Option<f64>,
}

/// What came out.
#[derive(Debug, Clone, Serialize)]
struct Figures {
    error_percent: f64,
    nll: f64,
    ece: f64,
    /// With the means of q alone, where q has means.
    error_percent_of_means: Option<f64>,
    /// With the mode alone, where q is Laplace's.
    nll_of_mode: Option<f64>,
    ece_of_mode: Option<f64>,
    /// Weights that are not 0, layer by layer, where some are.
    layers: Option<Vec<Layer>>,
    /// All weights over those that are not 0.
    compression: Option<f64>,
    /// After pruning by signal to noise.
    pruned_error_percent: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
struct Layer {
    name: String,
    weights: usize,
    kept: usize,
    sparsity_percent: f64,
}

fn float(v: f64) -> Value {
    Value::Float(v)
}

fn text(v: &str) -> Value {
    Value::Text(v.into())
}

fn relu(network: &str) -> posterior::Result<NetworkSpec> {
    NetworkSpec::parse(network, Activation::Relu)
}

/// Ten networks whose prior is N(0, 25/fan-in): on 60 000 rows a weight decay of about 5e-4, the usual one for this network.
fn ensemble_lenet5(epochs: i64) -> posterior::Result<Recipe> {
    Ok(Recipe {
        network: relu("lenet-5")?,
        prior: Choice::named("normal").with("weight_std", float(5.0)).with("bias_std", float(5.0)),
        method: Choice::named("ensemble")
            .with("members", Value::Int(10))
            .with("epochs", Value::Int(epochs))
            .with("learning_rate", float(0.001)),
        ..Recipe::default()
    })
}

const PUBLISHED: &[Published] = &[
    Published {
        name: "map-mnist",
        what: "MAP 784-400-400-10: test error of at most 2 % in at most 20 epochs",
        published: "SGD 1.83 % (Blundell et al. 2015)",
        data: "mnist",
        recipe: || {
            Ok(Recipe {
                network: relu("400,400")?,
                // The default of 1/√fan-in regularises too much for 60 000 rows (2.5 % error).
                prior: Choice::named("normal").with("weight_std", float(5.0)).with("bias_std", float(5.0)),
                method: Choice::named("map").with("epochs", Value::Int(20)).with("learning_rate", float(0.001)),
                ..Recipe::default()
            })
        },
        draws: 1,
        reached: |f| f.error_percent <= 2.0,
        keep: None,
    },
    Published {
        name: "bbb-mnist",
        what: "Bayes by Backprop with the scale mixture prior, 784-400-400-10: test error of at most 1.5 %",
        published: "1.36 % (Blundell et al. 2015)",
        data: "mnist",
        recipe: || {
            Ok(Recipe {
                network: relu("400,400")?,
                prior: Choice::named("scale-mixture"),
                method: Choice::named("mean-field")
                    .with("epochs", Value::Int(100))
                    .with("learning_rate", float(0.001))
                    .with("estimator", text("local")),
                ..Recipe::default()
            })
        },
        draws: 50,
        reached: |f| f.error_percent <= 1.5,
        keep: None,
    },
    Published {
        name: "mc-dropout-mnist",
        what: "MC dropout, 784-1200-1200-10: test error of at most 1.4 %",
        published: "1.36 to 1.37 % (Blundell et al. 2015; a PyTorch reimplementation)",
        data: "mnist",
        recipe: || {
            Ok(Recipe {
                network: relu("1200,1200")?,
                prior: Choice::named("normal").with("weight_std", float(5.0)).with("bias_std", float(5.0)),
                method: Choice::named("mc-dropout")
                    .with("epochs", Value::Int(60))
                    .with("learning_rate", float(0.001))
                    .with("rate", float(0.5))
                    .with("input_rate", float(0.2)),
                ..Recipe::default()
            })
        },
        draws: 50,
        reached: |f| f.error_percent <= 1.4,
        keep: None,
    },
    Published {
        name: "mean-field-lenet5",
        what: "mean-field LeNet-5: accuracy of at least 99.0 %, NLL of at most 0.034, ECE of at most 0.010",
        published: "99.0 %, 0.034, 0.010 (refined variational inference)",
        data: "mnist",
        recipe: || {
            Ok(Recipe {
                network: relu("lenet-5")?,
                prior: Choice::named("normal"),
                method: Choice::named("mean-field").with("epochs", Value::Int(30)).with("learning_rate", float(0.001)),
                ..Recipe::default()
            })
        },
        draws: 50,
        reached: |f| f.error_percent <= 1.0 && f.nll <= 0.034 && f.ece <= 0.010,
        keep: None,
    },
    Published {
        name: "sparse-lenet-300-100",
        what: "sparse dropout, LeNet-300-100: error of at most 1.95 %, compression of at least 68",
        published: "1.92 %, 68 (Molchanov et al. 2017)",
        data: "mnist",
        recipe: || {
            Ok(Recipe {
                network: relu("lenet-300-100")?,
                method: Choice::named("sparse-dropout")
                    .with("epochs", Value::Int(100))
                    .with("learning_rate", float(0.001)),
                ..Recipe::default()
            })
        },
        draws: 20,
        reached: |f| f.error_percent <= 1.95 && f.compression.is_some_and(|c| c >= 68.0),
        keep: None,
    },
    Published {
        name: "sparse-lenet-5",
        what: "sparse dropout, LeNet-5-Caffe: error of at most 0.80 %, compression of at least 200",
        published: "0.75 %, 280 (Molchanov et al. 2017)",
        data: "mnist",
        recipe: || {
            Ok(Recipe {
                network: relu("lenet-5")?,
                method: Choice::named("sparse-dropout")
                    .with("epochs", Value::Int(60))
                    .with("learning_rate", float(0.001)),
                ..Recipe::default()
            })
        },
        draws: 20,
        reached: |f| f.error_percent <= 0.80 && f.compression.is_some_and(|c| c >= 200.0),
        keep: None,
    },
    Published {
        name: "snr-pruning",
        what: "mean-field 784-1200-1200-10, 95 % of the weights removed by signal to noise: error rises by at most 0.1",
        published: "1.24 to 1.29 % (Blundell et al. 2015)",
        data: "mnist",
        recipe: || {
            Ok(Recipe {
                network: relu("1200,1200")?,
                prior: Choice::named("scale-mixture"),
                method: Choice::named("mean-field")
                    .with("epochs", Value::Int(40))
                    .with("learning_rate", float(0.001))
                    .with("estimator", text("local")),
                ..Recipe::default()
            })
        },
        draws: 50,
        reached: |f| f.pruned_error_percent.is_some_and(|p| p <= f.error_percent + 0.1),
        keep: Some(0.05),
    },
    Published {
        name: "ensemble-lenet5-mnist",
        what: "ensemble of 10 LeNet-5: NLL of at most 0.018, accuracy of at least 99.4 %",
        published: "0.016, 99.4 %, ECE 0.005 (deterministic: 0.037, 99.1 %)",
        data: "mnist",
        recipe: || ensemble_lenet5(20),
        draws: 10,
        reached: |f| f.nll <= 0.018 && f.error_percent <= 0.6,
        keep: None,
    },
    Published {
        name: "ensemble-lenet5-fashion",
        what: "ensemble of 10 LeNet-5 on Fashion-MNIST: NLL of at most 0.21, accuracy of at least 92.8 %",
        published: "0.200, 93.2 %, ECE 0.010 (deterministic: 0.321, 91.0 %)",
        data: "fashion-mnist",
        recipe: || ensemble_lenet5(20),
        draws: 10,
        reached: |f| f.nll <= 0.21 && f.error_percent <= 7.2,
        keep: None,
    },
    Published {
        name: "laplace-lenet5",
        what: "Laplace of the last layer with Kronecker factors, LeNet-5: lower NLL and ECE than its MAP",
        published: "NLL and ECE improve on MAP (Daxberger et al. 2021)",
        data: "mnist",
        recipe: || {
            Ok(Recipe {
                network: relu("lenet-5")?,
                prior: Choice::named("normal").with("weight_std", float(5.0)).with("bias_std", float(5.0)),
                method: Choice::named("laplace")
                    .with("structure", text("kron"))
                    .with("subset", text("last-layer"))
                    .with("epochs", Value::Int(20))
                    .with("learning_rate", float(0.001)),
                ..Recipe::default()
            })
        },
        draws: 100,
        reached: |f| f.nll_of_mode.is_some_and(|m| f.nll < m) && f.ece_of_mode.is_some_and(|m| f.ece < m),
        keep: None,
    },
];

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
