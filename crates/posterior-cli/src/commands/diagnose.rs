//! `posterior diagnose MODEL [DATA]`: may this posterior be believed? One of three sentences, and what they rest on.

use super::{AnswerIsNo, read};
use crate::cli::{Data, Diagnose};
use crate::output::{count, facts, grouped, json, number, print, shown, table};
use crate::progress::notes;
use posterior::artifact;
use posterior::data::Encoded;
use posterior::diagnose::{ChainReport, Diagnosis, GroupReport};
use posterior::model::Model;
use posterior::rng::Key;
use serde_json::{Value, json};

pub fn run(args: &Diagnose) -> anyhow::Result<()> {
    let model = artifact::load(&args.model)?;
    let rows = args.data.as_deref().map(|path| encode(args, path, &model)).transpose()?;
    let key = Key::new(args.common.seed.unwrap_or(model.seed));
    let diagnosis = Diagnosis::new(&model, rows.as_ref(), args.draws as usize, key).map_err(|e| match &args.data {
        Some(path) => e.in_file(path),
        None => e,
    })?;
    if args.common.json {
        json(&as_json(&model, &diagnosis))?;
    } else {
        print(&as_text(&model, &diagnosis))?;
    }
    if diagnosis.verdict.is_yes() { Ok(()) } else { Err(AnswerIsNo.into()) }
}

/// The rows of the file. Chains are judged at inputs alone; for everything else the target is needed, and its absence named.
fn encode(args: &Diagnose, path: &std::path::Path, model: &Model) -> anyhow::Result<Encoded> {
    let data = Data { data: path.to_owned(), labels: args.labels.clone(), text: Vec::new() };
    let rows = read(&data, Some(&model.encoder))?;
    let encoded = model.encoder.encode(&rows, model.chains().is_none())?;
    notes(&args.common, &encoded.warnings);
    Ok(encoded)
}

/// Kind of the posterior over a network's weights, or of the model.
fn kind(model: &Model) -> &str {
    model.fitted.as_network().map_or(model.fitted.kind(), |fit| fit.posterior.kind())
}

fn group_json(g: &GroupReport) -> Value {
    json!({
        "name": g.name,
        "quantities": g.count,
        "judged": g.judged,
        // Infinite where chains stand still: null.
        "r_hat": g.r_hat,
        "ess_bulk_median": g.ess_median,
        "ess_bulk": g.ess_bulk,
        "ess_tail": g.ess_tail,
        "mcse_mean": g.mcse,
        "mixed": g.mixed,
        "has_mixed": g.has_mixed(),
    })
}

fn chains_json(r: &ChainReport) -> Value {
    json!({
        "chains": r.chains,
        "draws": r.draws,
        "rows": r.rows,
        "weights": r.weights.iter().map(group_json).collect::<Vec<_>>(),
        "predictions": group_json(&r.predictions),
        "log_density": group_json(&r.log_density),
        "divergences": r.divergences.0,
        "transitions": r.divergences.1,
        "e_bfmi": r.e_bfmi,
        "acceptance": r.acceptance,
        "incomplete": r.incomplete,
        "fault": r.fault,
    })
}

fn as_json(model: &Model, d: &Diagnosis) -> Value {
    let weights = d.weights.as_ref().map(|w| {
        json!({
            "pareto_k": w.k(),
            "bound": w.bound(),
            "ess": w.ess(),
            "draws": w.raw().len(),
            "verdict": w.verdict(),
        })
    });
    let loo = d.leave_one_out.as_ref().map(
        |l| json!({ "log_likelihood": l.log_likelihood, "rmse": l.rmse, "coverage_90": l.coverage, "rows": l.rows }),
    );
    let check = d.check.map(|c| {
        json!({ "name": c.name, "value": c.value, "expected": c.expected, "z": c.z, "rows": c.rows, "holds": c.holds() })
    });
    let mut value = json!({
        "posterior": kind(model),
        "chains": d.chains.as_ref().map(chains_json),
        "weights": weights,
        "check": check,
        "trust": d.verdict.trust,
        "reason": d.verdict.reason,
        "advice": d.verdict.advice,
        "sentence": d.verdict.sentence(),
    });
    if let Some(loo) = loo {
        value["leave_one_out"] = loo;
    }
    value
}

fn row(g: &GroupReport) -> Vec<String> {
    let judged =
        if g.judged < g.count { format!("{} of {}", grouped(g.judged), grouped(g.count)) } else { grouped(g.count) };
    if g.constant {
        return vec![g.name.clone(), judged, "does not move".to_owned()];
    }
    let whole = |v: f64| if v.is_finite() { grouped(v.max(0.0) as usize) } else { "?".to_owned() };
    let r_hat = if g.r_hat < 100.0 { format!("{:.3}", g.r_hat) } else { number(g.r_hat) };
    let mixed = format!("{:.0} %", 100.0 * g.mixed);
    vec![
        g.name.clone(),
        judged,
        r_hat,
        whole(g.ess_median),
        whole(g.ess_bulk),
        whole(g.ess_tail),
        number(g.mcse),
        mixed,
    ]
}

fn chains_text(r: &ChainReport) -> String {
    let groups: Vec<_> = r.weights.iter().chain([&r.log_density, &r.predictions]).map(row).collect();
    let head = ["", "judged", "R-hat", "ESS median", "ESS least", "ESS tail", "MCSE/std", "mixed"];
    let (diverged, moved) = r.divergences;
    let stopped = if r.incomplete { ", stopped before the end" } else { "" };
    let mut rows = vec![
        ("chains", format!("{}, {} each{stopped}", count(r.chains, "chain"), count(r.draws, "draw"))),
        ("divergences", format!("{} of {}", grouped(diverged as usize), count(moved as usize, "transition"))),
        ("acceptance", number(r.acceptance)),
    ];
    if let Some(e) = r.e_bfmi {
        rows.push(("E-BFMI", number(e)));
    }
    if r.log_density.r_hat.is_finite() {
        rows.push(("R-hat", format!("{:.3} of the log density, as shown during the fit", r.log_density.r_hat)));
    }
    rows.push(("predictions", format!("at {}", count(r.rows, "row"))));
    format!("{}\n{}", facts(&rows), table(&head, &groups))
}

fn as_text(model: &Model, d: &Diagnosis) -> String {
    let mut text = d.chains.as_ref().map_or(String::new(), chains_text);
    let mut rows = Vec::new();
    if let Some(w) = &d.weights {
        rows.push(("posterior", format!("{}, {} parameters", kind(model), grouped(model.fitted.parameters()))));
        rows.push(("Pareto-k", format!("{} (to be below {})", number(w.k()), number(w.bound()))));
        rows.push((
            "weights",
            format!("{} draws, worth {} from the posterior", grouped(w.raw().len()), number(w.ess())),
        ));
    }
    if let Some(l) = &d.leave_one_out {
        rows.push((
            "left out",
            format!("every row predicted from the other {}, in closed form", count(l.rows - 1, "row")),
        ));
        rows.push(("log_likelihood", number(l.log_likelihood)));
        rows.push(("rmse", number(l.rmse)));
    }
    if let Some(c) = &d.check {
        rows.push((
            c.name,
            format!("{}, expected {} (z = {:.1}, {})", number(c.value), number(c.expected), c.z, count(c.rows, "row")),
        ));
    }
    text += &facts(&rows);
    let gap = if text.is_empty() { "" } else { "\n" };
    format!("{text}{gap}{}\n", shown(&d.verdict.sentence()))
}
