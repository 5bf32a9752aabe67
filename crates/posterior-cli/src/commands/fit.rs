//! `posterior fit DATA --target COL`: fits a model and writes its file.

use super::{encode_options, read, recipe};
use crate::cli::Fit;
use crate::output::{check_writable, count, facts, grouped, json, number, print, seconds};
use crate::progress::{Terminal, notes};
use posterior::artifact;
use posterior::data::{Column, Table, TargetKind};
use posterior::model::Model;
use serde_json::json;
use std::collections::BTreeSet;

pub fn run(args: &Fit) -> anyhow::Result<()> {
    let recipe = recipe::from_flags(&args.recipe, args.method.as_deref())?;
    let table = read(&args.data, None)?;
    let options = encode_options(&args.target, &table)?;
    check_writable(&args.out)?;
    let mut terminal = Terminal::new(&args.common, "fitting");
    let mut model = Model::fit(&recipe, &table, &options, args.common.seed.unwrap_or(0), &mut terminal)?;
    terminal.done();
    if args.target.task == "auto" {
        notes(&args.common, &looks_like_classes(&table, &options.target).into_iter().collect::<Vec<_>>());
    }
    // The file follows from data, recipe and seed alone: how long it took is told here and not kept.
    let seconds = std::mem::take(&mut model.summary.seconds);
    artifact::save(&model, &args.out)?;
    model.summary.seconds = seconds;
    if args.common.json {
        return json(&as_json(&model, &args.out));
    }
    if args.common.quiet {
        return Ok(());
    }
    print(&facts(&rows(&model, &args.out)))
}

/// A few whole numbers, each in many rows, are more often classes than amounts.
fn looks_like_classes(table: &Table, target: &str) -> Option<String> {
    let Some(Column::Number(values)) = table.get(target) else { return None };
    let mut distinct = BTreeSet::new();
    for v in values.iter().filter(|v| !v.is_nan()) {
        distinct.insert(v.to_bits());
        if v.fract() != 0.0 || distinct.len() > 10 {
            return None;
        }
    }
    (table.images().is_none() && 5 * distinct.len() <= values.len()).then(|| {
        let n = distinct.len();
        format!("the target holds {n} different whole numbers and is taken as an amount; for classes add --task classification")
    })
}

fn as_json(model: &Model, out: &std::path::Path) -> serde_json::Value {
    let last = model.summary.trace.last();
    json!({
        "model": out.display().to_string(),
        "method": model.recipe.method.name,
        "rows": model.rows,
        "parameters": model.posterior.dim(),
        "steps": model.summary.steps,
        "epochs": model.summary.epochs,
        "stopped_early": model.summary.stopped_early,
        "seconds": model.summary.seconds,
        "objective": last.map(|e| e.objective),
        "nll": last.map(|e| e.nll),
        "penalty": last.map(|e| e.penalty),
        "penalty_name": model.summary.penalty_name,
        "beta": last.map(|e| e.beta),
        "log_evidence": model.posterior.log_evidence(),
        "seed": model.seed,
    })
}

fn rows(model: &Model, out: &std::path::Path) -> Vec<(&'static str, String)> {
    let s = &model.summary;
    let target = match model.encoder.target_kind() {
        TargetKind::Real(_) => "a number".to_owned(),
        TargetKind::Count { .. } => "a count".to_owned(),
        TargetKind::Class { names, .. } => format!("one of {} classes", names.len()),
    };
    let mut rows = vec![
        (
            "data",
            format!("{} rows, {}, target {target}", grouped(model.rows), count(model.network.input().len(), "input")),
        ),
        ("network", format!("{} ({} parameters)", model.network.describe().join(", "), grouped(model.posterior.dim()))),
        ("method", model.recipe.method.name.clone().unwrap_or_default()),
        (
            "fit",
            format!(
                "{}, {}{}, {}",
                count(s.steps as usize, "step"),
                count(s.epochs, "epoch"),
                if s.stopped_early { " (stopped early)" } else { "" },
                seconds(s.seconds)
            ),
        ),
    ];
    if let Some(last) = s.trace.last() {
        let nll = number(last.nll);
        rows.push(match s.penalty_name.as_str() {
            "" => ("objective", format!("{} (negative log-likelihood {nll})", number(last.objective))),
            name => {
                let word = if name == "KL" { "ELBO" } else { "log joint" };
                let penalty = format!("{name} {}, beta {}", number(last.penalty), number(last.beta));
                ("objective", format!("{word} {} (negative log-likelihood {nll}, {penalty})", number(last.objective)))
            }
        });
    }
    rows.push(("model", out.display().to_string()));
    rows
}
