//! Gaussian processes on some ten thousand rows: elevators, bike and pol, test split 0, as `gp` comes; one JSON line per set.
//!
//! RMSE is in standard deviations of the training targets, as the literature tells it; the figures to reach are those of its sparse and exact processes. `sets=NAME,…` takes some of
//! the sets, any other word `KEY=VALUE` is a setting of the method.

use super::uci::lay_over;
use posterior::data::{Column, EncodeOptions, ReadOptions, Table};
use posterior::inference::Silent;
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::Activation;
use posterior::score::find;
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Set, and RMSE to reach.
const SETS: [(&str, f64); 3] = [("elevators", 0.385), ("bike", 0.25), ("pol", 0.16)];

pub(super) fn run(folder: &Path, words: &[String]) -> Result<(), String> {
    let mut recipe = Recipe { method: Choice::named("gp"), ..Recipe::default() };
    let mut names: Option<Vec<&str>> = None;
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not KEY=VALUE"))?;
        match key {
            "sets" => names = Some(value.split(',').collect()),
            _ => lay_over(&mut recipe, key, value, Activation::Tanh).map_err(|e| e.to_string())?,
        }
    }
    for (name, most) in SETS {
        if names.as_ref().is_none_or(|n| n.contains(&name)) {
            one(&folder.join("gp_uci"), &recipe, name, most)?;
        }
    }
    Ok(())
}

fn one(folder: &Path, recipe: &Recipe, name: &str, most: f64) -> Result<(), String> {
    let said = |e: posterior::Error| format!("{name}: {e}");
    let table = Table::read(&folder.join(format!("{name}.csv.gz")), &ReadOptions::default()).map_err(said)?;
    let file = folder.join(format!("{name}_test_rows_split0.txt"));
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut held = vec![false; table.rows()];
    for line in text.split_whitespace() {
        let row: usize = line.parse().map_err(|_| format!("{}: '{line}' is no row", file.display()))?;
        *held.get_mut(row).ok_or_else(|| format!("{}: there is no row {row}", file.display()))? = true;
    }
    let rows = |of: bool| (0..held.len()).filter(|i| held[*i] == of).collect::<Vec<_>>();
    let (train, test) = (table.select(&rows(false)), table.select(&rows(true)));
    let Ok(Column::Number(y)) = train.column("y") else { return Err(format!("{name}: y is no column of numbers")) };
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    let std = (y.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / y.len() as f64).sqrt();
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let start = Instant::now();
    let model = Model::fit(recipe, &train, &options, 0, &mut Silent).map_err(said)?;
    let seconds = start.elapsed().as_secs_f64();
    let encoded = model.encoder.encode(&test, true).map_err(said)?;
    let scored = model.score(&encoded.data, &model.how(200)).map_err(said)?;
    let score = |metric: &str| find(metric).and_then(|m| m.score(&scored));
    let rmse = score("rmse").map(|r| r / std);
    println!(
        "{}",
        json!({
            "set": name,
            "rows": train.rows(),
            "rmse": rmse,
            "most": most,
            "reached": rmse.map(|r| r <= most),
            "log_likelihood": score("log_likelihood").map(|l| l + std.ln()),
            "log_evidence": model.fitted.log_evidence(),
            "seconds": seconds,
            "settings": recipe.method.settings,
        })
    );
    Ok(())
}
