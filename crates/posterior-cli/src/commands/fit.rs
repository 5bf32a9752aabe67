//! `posterior fit DATA --target COL`: fits a model and writes its file.

use super::holdout::HeldOut;
use super::{AnswerIsNo, data_files, encode_options, read, recipe, target_names};
use crate::checkpoint::CheckpointFile;
use crate::cli::Fit;
use crate::output::{check_writable, count, facts, grouped, json, note, number, print, seconds};
use crate::progress::{Terminal, notes, stop_fit_on_interrupt};
use anyhow::bail;
use posterior::ErrorKind;
use posterior::artifact;
use posterior::data::{Column, EncodeOptions, Table, TargetKind};
use posterior::diagnose::Diagnosis;
use posterior::model::{FEW, LayerPrior, Model, Recipe};
use posterior::posterior::{Chain, Chains};
use posterior::rng::Key;
use serde_json::json;
use std::collections::BTreeSet;

pub fn run(args: &Fit) -> anyhow::Result<()> {
    let file = CheckpointFile::of(args)?;
    let start = args.start.as_deref().map(artifact::load).transpose()?;
    let table = read(&args.data, start.as_ref().map(|m| &m.encoder))?;
    let inputs = data_files(&args.data.data, args.data.labels.as_ref());
    check_writable(&args.out, inputs.into_iter().chain(args.start.clone()).chain(args.recipe.config.clone()))?;
    let seed = args.common.seed.unwrap_or(0);
    let mut terminal = Terminal::new(&args.common, "fitting");
    terminal.file = file;
    stop_fit_on_interrupt();
    let recipe = match &start {
        Some(start) => recipe::from_start(start.recipe.clone(), &args.recipe, args.method.as_deref())?,
        None => recipe::from_flags(&args.recipe, args.method.as_deref())?,
    };
    if args.recipe.kernel.is_some() && recipe.method.name.is_none() {
        bail!("--kernel is for a Gaussian process; add --method gp, or leave it out");
    }
    let options = match &start {
        Some(_) => None,
        None => {
            let mut options = encode_options(&args.target, &table)?;
            options.ignore.extend(args.group.clone());
            Some(options)
        }
    };
    let fitted = match &start {
        Some(start) => {
            check_target(args, &target_names(&start.encoder))?;
            Model::fit_from(start, &recipe, &table, seed, &mut terminal)
        }
        None => Model::fit(&recipe, &table, options.as_ref().unwrap_or(&EncodeOptions::default()), seed, &mut terminal),
    };
    let mut file = terminal.file.take();
    terminal.done();
    let mut model = match (fitted, &mut file) {
        (Err(e), Some(file)) if matches!(e.kind(), ErrorKind::Interrupted) => {
            bail!("stopped before the end; continue with --resume {}", file.stopped()?.display())
        }
        (fitted, _) => fitted?,
    };
    if let Some(options) = options.as_ref().filter(|_| args.target.task == "auto") {
        notes(
            &args.common,
            &looks_like_classes(&table, &options.target)
                .filter(|_| options.also.is_empty())
                .into_iter()
                .collect::<Vec<_>>(),
        );
    }
    // The file follows from data, recipe and seed alone: how long it took is told here and not kept.
    let seconds = std::mem::take(&mut model.summary.seconds);
    artifact::save(&model, &args.out)?;
    model.summary.seconds = seconds;
    if let Some(file) = &mut file {
        match model.chains().is_some_and(|c| c.incomplete) {
            true => note(&format!("note: continue with --resume {}", file.stopped()?.display())),
            false => file.finished()?,
        }
    }
    let check = match model.chains() {
        Some(_) => Some(Diagnosis::new(&model, None, 0, Key::new(seed))?),
        None => None,
    };
    let held_out = match options.as_ref().filter(|_| args.holdout > 0.0) {
        Some(options) => Some(HeldOut::of(args, &recipe, &table, options, &model)?),
        None => None,
    };
    if args.common.json {
        let mut value = as_json(&model, check.as_ref(), &args.out);
        if let Some(held_out) = &held_out {
            value["holdout"] = held_out.as_json();
        }
        json(&value)?;
    } else if !args.common.quiet {
        let mut rows = rows(&model, check.as_ref(), &recipe, &args.out);
        rows.extend(held_out.iter().map(|h| ("held out", h.line())));
        print(&facts(&rows))?;
    }
    if let Some(sentence) = model.chains().and_then(wrong) {
        note(&format!("posterior: {sentence}"));
        return Err(AnswerIsNo.into());
    }
    if let Some(check) = check.filter(|c| !c.verdict.is_yes()) {
        notes(&args.common, &[format!("this fit does not pass its own check. {}", check.verdict.sentence())]);
    }
    Ok(())
}

/// Why the draws that were written are not what was asked for.
fn wrong(chains: &Chains) -> Option<String> {
    chains.fault.clone().or_else(|| {
        let kept = count(chains.draws(), "draw");
        chains.incomplete.then(|| format!("stopped before the end; the model holds the {kept} made until then"))
    })
}

/// With --start the target is the model's.
fn check_target(args: &Fit, of_model: &str) -> anyhow::Result<()> {
    match &args.target.target {
        Some(target) if target != of_model => {
            anyhow::bail!(
                "--target {target} is not what the model of --start predicts, which is '{of_model}'; leave it out"
            )
        }
        _ => Ok(()),
    }
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

fn as_json(model: &Model, check: Option<&Diagnosis>, out: &std::path::Path) -> serde_json::Value {
    let last = model.summary.trace.last();
    let mut value = json!({
        "model": out.display().to_string(),
        "method": model.recipe.method.name,
        "rows": model.rows,
        "parameters": model.fitted.parameters(),
        "steps": model.summary.steps,
        "epochs": model.summary.epochs,
        "stopped_early": model.summary.stopped_early,
        "seconds": model.summary.seconds,
        "objective": last.map(|e| e.objective),
        "nll": last.map(|e| e.nll),
        "penalty": last.map(|e| e.penalty),
        "penalty_name": model.summary.penalty_name,
        "beta": last.map(|e| e.beta),
        "log_evidence": model.fitted.log_evidence(),
        "seed": model.seed,
    });
    if let Some(chains) = model.chains() {
        let each = |f: fn(&Chain) -> f64| chains.chains.iter().map(f).collect::<Vec<f64>>();
        value["chains"] = json!({
            "draws": chains.chains.iter().map(Chain::draws).collect::<Vec<_>>(),
            "step_size": each(|c| c.step_size),
            "acceptance": each(|c| c.acceptance),
            "divergences": chains.chains.iter().map(|c| c.divergences).collect::<Vec<_>>(),
            "not_finite": chains.chains.iter().map(|c| c.not_finite).collect::<Vec<_>>(),
            "gradients": gradients(chains),
            "incomplete": chains.incomplete,
            "fault": chains.fault,
            "r_hat": check.and_then(r_hat),
            "trust": check.map(|c| c.verdict.trust),
            "verdict": check.map(|c| c.verdict.sentence()),
        });
    }
    value
}

/// R-hat of the log density, as the progress showed it.
fn r_hat(check: &Diagnosis) -> Option<f64> {
    check.chains.as_ref().map(|c| c.log_density.r_hat).filter(|r| r.is_finite())
}

/// Evaluations of the density, warm-up included.
fn gradients(chains: &Chains) -> u64 {
    let of = |c: &Chain| c.warmup_gradients + c.gradients.iter().map(|g| u64::from(*g)).sum::<u64>();
    chains.chains.iter().map(of).sum()
}

/// What chains tell of themselves.
fn sampling(chains: &Chains, r_hat: Option<f64>) -> String {
    let mean = |f: fn(&Chain) -> f64| chains.chains.iter().map(f).sum::<f64>() / chains.chains.len() as f64;
    let divergences = chains.divergences() as usize;
    format!(
        "{} × {}{}, step size {}, acceptance {}, {}{}",
        count(chains.chains.len(), "chain"),
        count(chains.shortest(), "draw"),
        match chains.chains[0].thin {
            1 => String::new(),
            n => format!(" (one in {n})"),
        },
        number(mean(|c| c.step_size)),
        number(mean(|c| c.acceptance)),
        count(divergences, "divergence"),
        r_hat.map_or(String::new(), |r| format!(", R-hat {r:.3}"))
    )
}

/// The method, and why it was taken where the user named none.
fn method(model: &Model, by_default: bool) -> String {
    let name = model.recipe.method.name.clone().unwrap_or_default();
    if !by_default {
        return name;
    }
    let work = model.rows.saturating_mul(model.fitted.as_network().map_or(0, |fit| fit.network.layout().len()));
    let than = if work > FEW { "more than" } else { "at most" };
    format!("{name}, the default with {than} {} rows × parameters", grouped(FEW))
}

/// How wide the prior is, where the evidence chose it.
fn prior(model: &Model) -> String {
    let std = |l: &LayerPrior| l.weight_std.map(number).unwrap_or_default();
    let all: Vec<String> = model.recipe.layer_priors.iter().map(std).collect();
    let name = model.recipe.prior.name.as_deref().unwrap_or_default();
    format!("{name}, scale chosen by marginal likelihood: weight_std {} by layer", all.join(", "))
}

/// `asked` is the recipe before anything was chosen for it.
fn rows(
    model: &Model,
    check: Option<&Diagnosis>,
    asked: &Recipe,
    out: &std::path::Path,
) -> Vec<(&'static str, String)> {
    let (s, chains) = (&model.summary, model.chains());
    let target = match model.encoder.target_kind() {
        TargetKind::Real(_) if model.encoder.also.is_empty() => "a number".to_owned(),
        TargetKind::Real(_) => format!("{} numbers", model.encoder.targets().len()),
        TargetKind::Count { .. } => "a count".to_owned(),
        TargetKind::Class { names, .. } => format!("one of {} classes", names.len()),
    };
    let mut rows = vec![
        (
            "data",
            format!("{} rows, {}, target {target}", grouped(model.rows), count(model.fitted.input().len(), "input")),
        ),
        match model.fitted.as_network() {
            Some(_) => {
                ("network", format!("{} ({} parameters)", model.fitted.describe(), grouped(model.fitted.parameters())))
            }
            None => ("function", model.fitted.describe()),
        },
        ("method", method(model, asked.method.name.is_none())),
    ];
    let real = matches!(model.encoder.target_kind(), TargetKind::Real(_));
    if real && asked.method.name.is_none() && asked.likelihood.name.is_none() {
        let name = model.recipe.likelihood.name.as_deref().unwrap_or_default();
        rows.push(("noise", format!("{name}, the default: robust to outliers (or --likelihood gaussian)")));
    }
    if asked.leaves_prior_open() && !model.recipe.layer_priors.is_empty() {
        rows.push(("prior", prior(model)));
    }
    rows.push((
        "fit",
        format!(
            "{}, {}{}, {}",
            count(s.steps as usize, if chains.is_some() { "transition" } else { "step" }),
            match chains {
                Some(chains) => count(gradients(chains) as usize, "gradient"),
                None => count(s.epochs, "epoch"),
            },
            if s.stopped_early { " (stopped early)" } else { "" },
            seconds(s.seconds)
        ),
    ));
    if let Some(chains) = chains {
        rows.push(("sampling", sampling(chains, check.and_then(r_hat))));
    }
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
    if let Some(evidence) = model.fitted.log_evidence().filter(|_| s.penalty_name != "KL") {
        rows.push(("evidence", format!("log p(D) about {}", number(evidence))));
    }
    rows.push(("model", out.display().to_string()));
    rows
}
