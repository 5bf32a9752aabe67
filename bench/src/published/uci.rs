//! The UCI table: networks with one hidden layer of 50 on 20 splits of six sets, method by method; one JSON line per set and method.
//!
//! Scores are means over splits in the units of the data, with their standard errors. A method is held against what others have printed for it; the
//! row `default`, which is what the program does when it is told nothing, against the best that anybody has printed. Settings are chosen set by set with
//! `held_out=0.2 splits=0-4` (0 to 19 for dropout on wine, 0 and 1 on power), as the printed rows were tuned; what was tried, and when
//! test scores had been seen, is in `bench/README.md`. NUTS has one short chain: the hour is for all.

use super::cells::{Cell, Job, Options, SETS};
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec};
use posterior::score::mean_and_error;
use posterior::settings::Value;
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// The sets of the table, in the order of `SETS` and of all columns below.
const COLUMNS: usize = 6;

/// What others have printed: log-likelihood and RMSE by set.
struct Printed {
    who: &'static str,
    log_likelihood: [Option<f64>; COLUMNS],
    rmse: [Option<f64>; COLUMNS],
}

const fn all(v: [f64; COLUMNS]) -> [Option<f64>; COLUMNS] {
    [Some(v[0]), Some(v[1]), Some(v[2]), Some(v[3]), Some(v[4]), Some(v[5])]
}

const GRAVES: Printed = Printed {
    who: "variational inference (Graves 2011, by Hernández-Lobato & Adams 2015)",
    log_likelihood: all([-2.90, -3.39, -2.39, -2.89, -0.98, -3.43]),
    rmse: all([4.32, 7.19, 2.65, 4.33, 0.65, 6.89]),
};
const BAYES_BY_BACKPROP: Printed = Printed {
    who: "Bayes by Backprop, by a third party",
    log_likelihood: all([-2.64, -3.26, -1.56, -2.94, -0.97, -1.45]),
    rmse: all([3.31, 5.79, 1.00, 4.22, 0.64, 0.97]),
};
const DROPOUT: Printed = Printed {
    who: "MC dropout, tuned, 100 times the epochs",
    log_likelihood: all([-2.402, -2.937, -1.212, -2.808, -0.928, -1.250]),
    rmse: all([2.904, 4.827, 0.539, 4.014, 0.622, 0.666]),
};
const ENSEMBLES: Printed = Printed {
    who: "deep ensembles of 5 (Lakshminarayanan et al. 2017)",
    log_likelihood: all([-2.41, -3.06, -1.38, -2.79, -0.94, -1.18]),
    rmse: all([3.28, 6.03, 2.09, 4.11, 0.64, 1.58]),
};
const SWAG: Printed = Printed {
    who: "SWAG (Maddox et al. 2019)",
    log_likelihood: [None, Some(-3.01), Some(-1.68), None, None, Some(-0.40)],
    rmse: [None; COLUMNS],
};
/// The best of all above and of PBP, DVI, a sparse Gaussian process and a deep one sampled by SGHMC.
const BEST: Printed = Printed {
    who: "the best of all printed rows, any model",
    log_likelihood: all([-2.40, -2.88, -0.34, -2.65, -0.80, -0.40]),
    rmse: [None; COLUMNS],
};

/// A row of the table.
struct Row {
    name: &'static str,
    /// None means that nothing is said: what the program does by default.
    method: Option<&'static str>,
    activation: Activation,
    /// Settings as `--set` takes them.
    settings: &'static str,
    /// Laid over them on some sets: published rows are tuned set by set, and power's 9568 rows take long.
    by_set: &'static [(&'static str, &'static str)],
    printed: &'static [Printed],
}

const ROWS: &[Row] = &[
    Row {
        name: "mean-field",
        method: Some("mean-field"),
        activation: Activation::Relu,
        settings: "estimator=local epochs=0",
        by_set: &[],
        printed: &[GRAVES, BAYES_BY_BACKPROP],
    },
    Row {
        name: "mc-dropout",
        method: Some("mc-dropout"),
        activation: Activation::Relu,
        settings: "prior.weight_std=4",
        by_set: &[
            ("boston", "rate=0.1 likelihood=student-t likelihood.noise=fixed likelihood.noise_std=0.2"),
            ("concrete", "rate=0.02 likelihood.noise=fixed likelihood.noise_std=0.25 prior.weight_std=8 epochs=10000"),
            ("energy", "rate=0.005 epochs=4000"),
            ("power", "rate=0.005 epochs=300"),
            ("wine", "rate=0.1 activation=tanh likelihood=student-t epochs=2000"),
            ("yacht", "rate=0.01 epochs=4000"),
        ],
        printed: &[DROPOUT],
    },
    Row {
        name: "ensemble",
        method: Some("ensemble"),
        activation: Activation::Relu,
        settings: "members=5 likelihood=heteroscedastic epochs=1000",
        by_set: &[
            (
                "boston",
                "activation=tanh likelihood=student-t likelihood.noise=fixed likelihood.noise_std=0.2 prior.weight_std=4",
            ),
            (
                "concrete",
                "likelihood=gaussian likelihood.noise=fixed likelihood.noise_std=0.25 prior.weight_std=4 epochs=2000",
            ),
            ("power", "prior.weight_std=4 epochs=300"),
            (
                "wine",
                "likelihood=gaussian likelihood.noise=fixed likelihood.noise_std=0.75 prior.weight_std=2 epochs=0",
            ),
        ],
        printed: &[ENSEMBLES],
    },
    Row {
        name: "laplace",
        method: Some("laplace"),
        activation: Activation::Tanh,
        settings: "",
        by_set: &[],
        printed: &[],
    },
    Row {
        name: "swag",
        method: Some("swag"),
        activation: Activation::Relu,
        settings: "likelihood=heteroscedastic epochs=500 learning_rate=0.01",
        by_set: &[("yacht", "swag_rate=0.01")],
        printed: &[SWAG],
    },
    Row { name: "sghmc", method: Some("sghmc"), activation: Activation::Tanh, settings: "", by_set: &[], printed: &[] },
    Row {
        name: "nuts",
        method: Some("nuts"),
        activation: Activation::Tanh,
        settings: "chains=1 warmup=100 draws=60 start=modes",
        by_set: &[("power", "warmup=10 draws=10")],
        printed: &[],
    },
    Row { name: "default", method: None, activation: Activation::Tanh, settings: "", by_set: &[], printed: &[BEST] },
];

/// Settings as words of the command line are laid over a recipe: `prior.KEY`, `likelihood.KEY`, `likelihood`, `network`, `activation`, or one of the method.
pub(super) fn lay_over(recipe: &mut Recipe, key: &str, value: &str, activation: Activation) -> posterior::Result<()> {
    let set = |choice: &mut Choice, key: &str| {
        choice.settings.insert(key.to_owned(), Value::parse(value));
    };
    match key.split_once('.') {
        Some(("prior", key)) => set(&mut recipe.prior, key),
        Some(("likelihood", key)) => set(&mut recipe.likelihood, key),
        _ if key == "likelihood" => recipe.likelihood = Choice::named(value),
        _ if key == "activation" => recipe.network = NetworkSpec::parse("50", Activation::find(value)?)?,
        _ if key == "network" => recipe.network = NetworkSpec::parse(value, activation)?,
        _ => set(&mut recipe.method, key),
    }
    Ok(())
}

impl Row {
    fn recipe(&self, set: usize, given: &[(String, String)]) -> posterior::Result<Recipe> {
        let Some(method) = self.method else { return Ok(Recipe::default()) };
        let mut recipe = Recipe {
            network: NetworkSpec::parse("50", self.activation)?,
            method: Choice::named(method),
            ..Recipe::default()
        };
        let own = self.by_set.iter().find(|(name, _)| *name == SETS[set].name).map_or("", |(_, words)| *words);
        for word in self.settings.split_whitespace().chain(own.split_whitespace()) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            lay_over(&mut recipe, key, value, self.activation)?;
        }
        given.iter().try_for_each(|(key, value)| lay_over(&mut recipe, key, value, self.activation))?;
        Ok(recipe)
    }
}

/// `sets=boston,yacht methods=a,b splits=0-19 held_out=0.2 state=FOLDER`; any other key is a setting that is laid over the table's.
pub(super) fn run(folder: &Path, words: &[String]) -> Result<(), String> {
    let started = Instant::now();
    let mut options = Options::new(folder, words, &(0..COLUMNS).collect::<Vec<_>>())?;
    let mut rows: Vec<&Row> = ROWS.iter().collect();
    if let Some(at) = options.rest.iter().position(|(key, _)| key == "methods") {
        let (_, names) = options.rest.remove(at);
        let found = |name: &str| {
            let known = || ROWS.iter().map(|r| r.name).collect::<Vec<_>>().join(", ");
            let row = ROWS.iter().find(|r| r.name == name);
            row.ok_or_else(|| format!("the table has no method '{name}'; choose among {}", known()))
        };
        rows = names.split(',').map(found).collect::<Result<_, _>>()?;
    }
    if let Some(set) = options.sets.iter().find(|s| **s >= COLUMNS) {
        return Err(format!("{} is not in this table", SETS[*set].name));
    }
    let mut jobs = Vec::new();
    for set in &options.sets {
        for row in &rows {
            let recipe = row.recipe(*set, &options.rest).map_err(|e| e.to_string())?;
            for split in options.splits_of(*set)? {
                jobs.push(Job { method: row.name, recipe: recipe.clone(), set: *set, split });
            }
        }
    }
    let cells = options.run(&jobs)?;
    let given: Vec<String> = options.rest.iter().map(|(k, v)| format!("{k}={v}")).collect();
    for set in &options.sets {
        for row in &rows {
            let of_row = |(job, _): &(&Job, &Cell)| job.set == *set && job.method == row.name;
            let own: Vec<&Cell> = jobs.iter().zip(&cells).filter(of_row).map(|(_, cell)| cell).collect();
            println!("{}", line(row, *set, &own, &given, options.held_out));
        }
    }
    let cpu: f64 = cells.iter().map(|c| c.cpu_seconds).sum();
    let seconds = started.elapsed().as_secs_f64();
    println!("{}", json!({ "name": "uci", "cells": cells.len(), "cpu_seconds": cpu, "seconds": seconds }));
    Ok(())
}

fn line(row: &Row, set: usize, cells: &[&Cell], given: &[String], held_out: f64) -> serde_json::Value {
    let score = |of: fn(&Cell) -> Option<f64>| {
        mean_and_error(&cells.iter().filter_map(|c| of(c)).collect::<Vec<_>>()).unwrap_or((f64::NAN, None))
    };
    let (log_likelihood, rmse) = (score(|c| c.log_likelihood), score(|c| c.rmse));
    let mean = |of: fn(&Cell) -> f64| cells.iter().map(|c| of(c)).sum::<f64>() / cells.len().max(1) as f64;
    // The hardest of several rows.
    let highest =
        |of: fn(&Printed) -> &[Option<f64>; COLUMNS]| row.printed.iter().filter_map(|p| of(p)[set]).reduce(f64::max);
    let lowest =
        |of: fn(&Printed) -> &[Option<f64>; COLUMNS]| row.printed.iter().filter_map(|p| of(p)[set]).reduce(f64::min);
    let (printed, printed_rmse) = (highest(|p| &p.log_likelihood), lowest(|p| &p.rmse));
    let failed: Vec<&String> = cells.iter().filter_map(|c| c.failed.as_ref()).collect();
    json!({
        "set": SETS[set].name,
        "method": row.name,
        "splits": cells.len() - failed.len(),
        "log_likelihood": log_likelihood.0,
        "log_likelihood_error": log_likelihood.1,
        "rmse": rmse.0,
        "rmse_error": rmse.1,
        "seconds": mean(|c| c.seconds),
        "cpu_seconds": mean(|c| c.cpu_seconds),
        "published": row.printed.iter().map(|p| p.who).collect::<Vec<_>>(),
        "published_log_likelihood": printed,
        "published_rmse": printed_rmse,
        "reached": printed.map(|p| log_likelihood.0 >= p),
        "rmse_reached": printed_rmse.map(|p| rmse.0 <= p),
        "settings": given,
        "held_out": held_out,
        "failed": failed,
    })
}
