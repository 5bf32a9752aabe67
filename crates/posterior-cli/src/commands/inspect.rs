//! `posterior inspect MODEL`: what a model file holds.

use crate::cli::Inspect;
use crate::output::{facts, grouped, json, number, print, table};
use posterior::apply::compress::LayerReport;
use posterior::artifact;
use posterior::data::{Target, TargetKind};
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::Shape;
use posterior::problem::full_layout;
use serde_json::json;

pub fn run(args: &Inspect) -> anyhow::Result<()> {
    let bytes = std::fs::metadata(&args.model).map(|m| m.len()).unwrap_or(0);
    let model = artifact::load(&args.model)?;
    if args.common.json {
        return json(&as_json(&model, bytes));
    }
    print(&as_text(&model, bytes))
}

fn as_json(model: &Model, bytes: u64) -> serde_json::Value {
    let mut value = json!({
        "bytes": bytes,
        "recipe": model.recipe,
        "encoder": model.encoder,
        "parameters": model.fitted.parameters(),
        "log_evidence": model.fitted.log_evidence(),
        "rows": model.rows,
        "seed": model.seed,
        "summary": model.summary,
    });
    if let Some(calibration) = &model.calibration {
        value["calibration"] = json!({ "rows": calibration.rows, "temperature": calibration.temperature });
    }
    let Some(fit) = model.fitted.as_network() else {
        value["model"] = json!(model.fitted.kind());
        value["describe"] = json!(model.fitted.describe());
        return value;
    };
    let layout = full_layout(&*fit.network, &*fit.likelihood);
    value["layers"] = json!(fit.network.describe());
    value["blocks"] = json!(layout.blocks());
    value["posterior"] = json!(fit.posterior.kind());
    if let Some(kept) = fit.posterior.kept() {
        value["kept"] = layout.blocks().iter().map(|b| LayerReport::new(b, kept).kept).collect();
    }
    value
}

fn posterior(model: &Model) -> String {
    let Some(fit) = model.fitted.as_network() else {
        return format!("{}, {} parameters", model.fitted.describe(), grouped(model.fitted.parameters()));
    };
    let q = &fit.posterior;
    let kept = q.kept().map_or(String::new(), |kept| {
        let means = if q.is_point() { ", means alone" } else { "" };
        format!(", {} of them not 0{means}", grouped(kept.len()))
    });
    let members = match q.members().len() {
        0 => String::new(),
        n => format!(" of {n}"),
    };
    format!("{}{members}, {} parameters{kept}", q.kind(), grouped(q.dim()))
}

fn choice(choice: &Choice) -> String {
    let settings: Vec<String> = choice.settings.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let name = choice.name.as_deref().unwrap_or_default();
    if settings.is_empty() { name.to_owned() } else { format!("{name} ({})", settings.join(", ")) }
}

/// The prior, and the layers where it differs.
fn prior(recipe: &Recipe) -> String {
    let number = |v: Option<f64>| v.map_or("as above".to_owned(), |v| v.to_string());
    let layers = recipe.layer_priors.iter().map(|l| {
        let (weight, bias) = (number(l.weight_std), number(l.bias_std));
        format!("; layer {}: weight_std {weight}, bias_std {bias}", l.layer)
    });
    choice(&recipe.prior) + &layers.collect::<String>()
}

fn as_text(model: &Model, bytes: u64) -> String {
    let s = &model.summary;
    let of = |target: &Target| match &target.kind {
        TargetKind::Real(s) => format!("a number (mean {}, std {})", number(s.mean), number(s.std)),
        TargetKind::Count { .. } => "a count".to_owned(),
        TargetKind::Class { names, .. } => {
            let shown = names.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
            format!("one of {} classes: {shown}{}", names.len(), if names.len() > 10 { ", …" } else { "" })
        }
    };
    let features = model.encoder.feature_names();
    let shown = features.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
    let inputs = match model.encoder.input_shape() {
        Shape::Image { channels, height, width } => format!("images of {channels} × {height} × {width}"),
        Shape::Flat(n) => format!("{n}: {shown}{}", if n > 8 { ", …" } else { "" }),
    };
    let mut rows = vec![
        ("file", format!("{} bytes", grouped(bytes as usize))),
        ("fitted to", format!("{} rows, seed {}", grouped(model.rows), model.seed)),
        ("inputs", inputs),
        ("target", format!("{}: {}", model.encoder.target.name, of(&model.encoder.target))),
        ("likelihood", choice(&model.recipe.likelihood)),
        ("method", choice(&model.recipe.method)),
        ("posterior", posterior(model)),
        ("fit", format!("{} steps, {} epochs", grouped(s.steps as usize), s.epochs)),
    ];
    if model.fitted.as_network().is_some() {
        rows.insert(5, ("prior", prior(&model.recipe)));
    }
    for (i, target) in model.encoder.also.iter().enumerate() {
        rows.insert(4 + i, ("and", format!("{}: {}", target.name, of(target))));
    }
    if let Some(last) = s.trace.last() {
        let penalty = if s.penalty_name.is_empty() {
            String::new()
        } else {
            format!(", {} {}", s.penalty_name, number(last.penalty))
        };
        rows.push((
            "objective",
            format!("{} (negative log-likelihood {}{penalty})", number(last.objective), number(last.nll)),
        ));
    }
    if let Some(c) = &model.calibration {
        let temperature = c.temperature.map_or(String::new(), |t| format!(", temperature {}", number(t)));
        rows.push(("calibrated", format!("by {} rows{temperature}", grouped(c.rows))));
    }
    let Some(fit) = model.fitted.as_network() else { return facts(&rows) };
    let layout = full_layout(&*fit.network, &*fit.likelihood);
    let kept = fit.posterior.kept();
    let blocks: Vec<Vec<String>> = layout
        .blocks()
        .iter()
        .map(|b| {
            let shape: Vec<String> = b.shape.iter().map(usize::to_string).collect();
            let layer = fit.network.describe().get(b.layer).cloned().unwrap_or_else(|| "likelihood".to_owned());
            let kept = kept.map(|kept| grouped(LayerReport::new(b, kept).kept));
            [b.name.clone(), shape.join("×"), grouped(b.range.len())].into_iter().chain(kept).chain([layer]).collect()
        })
        .collect();
    let head: &[&str] = match kept {
        Some(_) => &["block", "shape", "parameters", "kept", "layer"],
        None => &["block", "shape", "parameters", "layer"],
    };
    format!("{}\n{}", facts(&rows), table(head, &blocks))
}
