//! Every method with the settings it comes with, on eleven small sets: mean rank by log-likelihood over all cells that all methods have.
//!
//! `methods=a,b` chooses among the methods and `default`; `sets`, `splits`, `held_out` and `state` are those of `uci`. This is the table that a default
//! is chosen by.

use super::cells::{Cell, Job, Options, SETS};
use posterior::inference::{METHODS, find};
use posterior::model::{Choice, Recipe};
use posterior::nn::Activation;
use posterior::score::{mean_and_error, mean_ranks};
use serde_json::{Map, json};
use std::path::Path;

/// What is left out where no methods are named: without a spread of its own, by far too slow, or for one kind of network.
const LEFT_OUT: &[&str] = &["ml", "bbvi", "annealing", "metropolis", "importance", "linear"];

pub(super) fn run(folder: &Path, words: &[String]) -> Result<(), String> {
    let mut options = Options::new(folder, words, &(0..SETS.len()).collect::<Vec<_>>())?;
    let all = METHODS.iter().map(|m| m.name).filter(|name| !LEFT_OUT.contains(name));
    let mut names: Vec<&'static str> = all.chain(["default"]).collect();
    if let Some(at) = options.rest.iter().position(|(key, _)| key == "methods") {
        let (_, given) = options.rest.remove(at);
        let found = |name: &str| match name {
            "default" => Ok("default"),
            _ => find(name).map(|m| m.name).map_err(|e| e.to_string()),
        };
        names = given.split(',').map(found).collect::<Result<_, _>>()?;
    }
    let mut jobs = Vec::new();
    for set in &options.sets {
        for split in options.splits_of(*set)? {
            for name in &names {
                let mut recipe = Recipe::default();
                if *name != "default" {
                    recipe.method = Choice::named(name);
                }
                for (key, value) in &options.rest {
                    super::uci::lay_over(&mut recipe, key, value, Activation::Tanh).map_err(|e| e.to_string())?;
                }
                jobs.push(Job { method: name, recipe, set: *set, split });
            }
        }
    }
    let cells = options.run(&jobs)?;
    // By method, one number per set and split.
    let scores: Vec<Vec<Option<f64>>> = (0..names.len())
        .map(|m| cells.iter().skip(m).step_by(names.len()).map(|c| c.log_likelihood).collect())
        .collect();
    let ranks = mean_ranks(&scores, true);
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|a, b| ranks[*a].unwrap_or(f64::INFINITY).total_cmp(&ranks[*b].unwrap_or(f64::INFINITY)));
    for m in order {
        let of = |set: usize| -> Vec<&Cell> {
            let own = |(job, _): &(&Job, &Cell)| job.set == set && job.method == names[m];
            jobs.iter().zip(&cells).filter(own).map(|(_, cell)| cell).collect()
        };
        let mean = |set: &usize| {
            let values: Vec<f64> = of(*set).iter().filter_map(|c| c.log_likelihood).collect();
            (SETS[*set].name.to_owned(), json!(mean_and_error(&values).map(|e| e.0)))
        };
        let own: Vec<&Cell> = options.sets.iter().flat_map(|s| of(*s)).collect();
        let failed: Vec<&String> = own.iter().filter_map(|c| c.failed.as_ref()).collect();
        let line = json!({
            "method": names[m],
            "mean_rank": ranks[m],
            "most_cpu_seconds": own.iter().map(|c| c.cpu_seconds).fold(0.0, f64::max),
            "log_likelihood": options.sets.iter().map(mean).collect::<Map<_, _>>(),
            "failed": failed,
        });
        println!("{line}");
    }
    Ok(())
}
