//! Gaussian processes on small regressions: exact, Matérn-5/2 with a lengthscale for every column, splits 0 to 9 of the UCI sets; one JSON line per set.
//!
//! `log_evidence` is the mean log marginal likelihood of the training rows (standardised targets), held against an independent implementation (NumPy, one start of
//! L-BFGS, no priors on parameters) on the same splits. Any other word `KEY=VALUE` is a setting of the method.

use super::cells::{Cell, Job, Options, SETS};
use super::uci::lay_over;
use posterior::model::{Choice, Recipe};
use posterior::nn::Activation;
use posterior::score::mean_and_error;
use serde_json::json;
use std::path::Path;

type Reference = (&'static str, Option<f64>, Option<f64>, Option<f64>);

/// Set, mean log marginal likelihood, test log-likelihood and RMSE of the reference.
const REFERENCE: [Reference; 5] = [
    ("yacht", Some(524.09), Some(0.01), Some(0.290)),
    ("boston", Some(-118.32), Some(-2.42), Some(2.721)),
    ("energy", Some(1009.16), Some(-0.70), Some(0.482)),
    ("concrete", Some(-285.86), Some(-3.01), Some(4.953)),
    ("wine", None, None, None),
];

pub(super) fn run(folder: &Path, words: &[String]) -> Result<(), String> {
    let at = |name: &str| SETS.iter().position(|s| s.name == name).unwrap_or(0);
    let sets: Vec<usize> = REFERENCE.iter().map(|r| at(r.0)).collect();
    let words: Vec<String> = std::iter::once("splits=0-9".to_owned()).chain(words.iter().cloned()).collect();
    let options = Options::new(folder, &words, &sets)?;
    let mut recipe = Recipe { method: Choice::named("gp"), ..Recipe::default() };
    for (key, value) in &options.rest {
        lay_over(&mut recipe, key, value, Activation::Tanh).map_err(|e| e.to_string())?;
    }
    let mut jobs = Vec::new();
    for set in &options.sets {
        jobs.extend(options.splits_of(*set)?.map(|split| Job {
            method: "gp",
            recipe: recipe.clone(),
            set: *set,
            split,
        }));
    }
    let cells = options.run(&jobs)?;
    for set in &options.sets {
        let own: Vec<&Cell> = jobs.iter().zip(&cells).filter(|(j, _)| j.set == *set).map(|(_, c)| c).collect();
        let score = |of: fn(&Cell) -> Option<f64>| {
            mean_and_error(&own.iter().filter_map(|c| of(c)).collect::<Vec<_>>()).unwrap_or((f64::NAN, None))
        };
        let (ll, rmse, evidence) = (score(|c| c.log_likelihood), score(|c| c.rmse), score(|c| c.log_evidence));
        let reference = REFERENCE.iter().find(|r| r.0 == SETS[*set].name);
        let (wanted, least) = (reference.and_then(|r| r.1), reference.and_then(|r| r.2));
        let failed: Vec<&String> = own.iter().filter_map(|c| c.failed.as_ref()).collect();
        println!(
            "{}",
            json!({
                "set": SETS[*set].name,
                "splits": own.len() - failed.len(),
                "log_evidence": evidence.0,
                "reference_log_evidence": wanted,
                "evidence_reached": wanted.map(|w| evidence.0 >= w - 0.1),
                "log_likelihood": ll.0,
                "log_likelihood_error": ll.1,
                "reference_log_likelihood": least,
                "reached": least.map(|l| ll.0 >= l),
                "rmse": rmse.0,
                "rmse_error": rmse.1,
                "reference_rmse": reference.and_then(|r| r.3),
                "cpu_seconds": own.iter().map(|c| c.cpu_seconds).sum::<f64>() / own.len().max(1) as f64,
                "settings": options.rest,
                "failed": failed,
            })
        );
    }
    Ok(())
}
