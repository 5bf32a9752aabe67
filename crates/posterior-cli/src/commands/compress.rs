//! `posterior compress MODEL`: a dense model in, a sparse one out, and what that costs and saves.

use super::{data_files, how, read};
use crate::cli::{Compress, Data};
use crate::output::{check_writable, count, facts, grouped, json, number, print, seconds, table};
use crate::progress::notes;
use posterior::apply::compress::{LayerReport, Memory, Pruned, Rule, prune};
use posterior::artifact;
use posterior::data::{Encoded, Values};
use posterior::fitted::Route;
use posterior::model::Model;
use posterior::predict::Predictive;
use posterior::rng::{Key, Purpose, fill_normals};
use posterior::score::{METRICS, Scored};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// The threshold of log α unless the user says otherwise.
const LOG_ALPHA: f64 = 3.0;
/// Made-up rows to time predictions on, and the most numbers they may have.
const ROWS: usize = 1000;
const NUMBERS: usize = 1 << 24;
/// A prediction is timed up to so many times, unless they take longer than a second, and the fastest counts.
const RUNS: usize = 5;

/// How far apart predictions are: means, or the probabilities of all classes.
struct Difference {
    largest: f64,
    mean: f64,
}

/// What the two models predict for the rows of a file.
struct Comparison {
    rows: usize,
    difference: Difference,
    /// Between two sets of draws from the full model: what to measure the other one by. None for one draw.
    by_draws: Option<Difference>,
    /// Name, before, after; where the file has the target.
    scores: Vec<(&'static str, f64, f64)>,
}

/// Everything measured.
struct Measured {
    rows: usize,
    bytes: [u64; 2],
    seconds: [f64; 2],
    comparison: Option<Comparison>,
}

pub fn run(args: &Compress) -> anyhow::Result<()> {
    let data = args.data.iter().flat_map(|d| data_files(d, None));
    check_writable(&args.out, data.chain([args.model.clone()]))?;
    let model = artifact::load(&args.model)?;
    let rule = args.keep.map_or(Rule::LogAlpha(args.threshold.unwrap_or(LOG_ALPHA)), Rule::Keep);
    let memory = if args.mean_only { Memory::Mean } else { Memory::MeanAndStd };
    let pruned = prune(&model, rule, memory)
        .map_err(|e| anyhow::anyhow!("{} cannot be compressed: {e}", args.model.display()))?;
    let bytes = artifact::to_bytes(&pruned.model)?;
    let sizes = [std::fs::metadata(&args.model).map_or(0, |m| m.len()), bytes.len() as u64];
    let encoded = args.data.as_ref().map(|path| encode(args, path, &model)).transpose()?;
    let measured = measure(args, &model, &pruned.model, encoded.as_ref(), sizes)?;
    artifact::write_file(&args.out, &bytes)?;
    notes(&args.common, &warnings(&pruned));
    if args.common.json {
        return json(&as_json(args, &pruned, &measured));
    }
    if args.common.quiet {
        return Ok(());
    }
    print(&as_text(args, &model, &pruned, &measured))
}

/// The rows of the file, with their targets if they are in it.
fn encode(args: &Compress, path: &std::path::Path, model: &Model) -> anyhow::Result<Encoded> {
    let data = Data { data: path.to_owned(), labels: None, text: Vec::new() };
    let rows = read(&data, Some(&model.encoder))?;
    let with_target = model.encoder.targets().all(|t| rows.get(&t.name).is_some());
    let encoded = model.encoder.encode(&rows, with_target)?;
    notes(&args.common, &encoded.warnings);
    Ok(encoded)
}

/// Standard normals in place of encoded rows.
fn made_up(model: &Model) -> Values {
    let width = model.fitted.input().len();
    let mut x = vec![0.0f32; (NUMBERS / width.max(1)).clamp(1, ROWS) * width];
    fill_normals(Key::new(model.seed).purpose(Purpose::Data), &mut x);
    Values::F32(x.into())
}

fn measure(
    args: &Compress,
    full: &Model,
    sparse: &Model,
    encoded: Option<&Encoded>,
    bytes: [u64; 2],
) -> anyhow::Result<Measured> {
    let x = encoded.map_or_else(|| made_up(full), |e| e.data.x.clone());
    let rows = x.len() / full.fitted.input().len().max(1);
    // Predictions of both models and of other draws are there at once.
    let how = how(full, args.draws, false, &args.common).by(Route::Draws);
    let [(before, slow), (after, fast)] = [full, sparse].map(|m| timed(|| m.fitted.predict(&x, &how)));
    let (before, after) = (before?, after?);
    let compare = |encoded: &Encoded| -> anyhow::Result<Comparison> {
        let (p, q) = (predicted(full, &before), predicted(full, &after));
        let mut other = how.clone();
        other.key = other.key.purpose(Purpose::Estimate);
        let by_draws = match args.draws > 1 {
            true => Some(difference(&p, &predicted(full, &full.fitted.predict(&x, &other)?))),
            false => None,
        };
        let scores = if encoded.data.targets > 0 { scores(full, encoded, &before, &after) } else { Vec::new() };
        Ok(Comparison { rows, difference: difference(&p, &q), by_draws, scores })
    };
    let comparison = encoded.map(compare).transpose()?;
    Ok(Measured { rows, bytes, seconds: [slow, fast], comparison })
}

/// What `work` gives, and the shortest time it took.
fn timed<T>(work: impl Fn() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    let mut shortest = start.elapsed().as_secs_f64();
    for _ in 1..RUNS {
        if start.elapsed().as_secs_f64() > 1.0 {
            break;
        }
        let again = Instant::now();
        work();
        shortest = shortest.min(again.elapsed().as_secs_f64());
    }
    (result, shortest)
}

/// Probabilities of all classes, or means in the user's units; of several targets in standard deviations of each.
fn predicted(model: &Model, predictive: &Predictive) -> Vec<f64> {
    match model.encoder.class_names() {
        [] if !model.encoder.also.is_empty() => {
            let scales = model.encoder.target_scales();
            predictive.real().mean.iter().zip(scales.iter().cycle()).map(|(m, (_, std))| m / std).collect()
        }
        [] => predictive.real().mean,
        _ => predictive.classes().probabilities,
    }
}

fn difference(a: &[f64], b: &[f64]) -> Difference {
    let apart = || a.iter().zip(b).map(|(a, b)| (a - b).abs());
    Difference { largest: apart().fold(0.0, f64::max), mean: apart().sum::<f64>() / a.len().max(1) as f64 }
}

fn scores(model: &Model, rows: &Encoded, before: &Predictive, after: &Predictive) -> Vec<(&'static str, f64, f64)> {
    let y = model.encoder.decode_target(&rows.data.y);
    let [before, after] = [before, after].map(|p| Scored::new(p, &y, model.likelihood().outcome()));
    METRICS.iter().filter(|m| m.short).filter_map(|m| Some((m.name, m.score(&before)?, m.score(&after)?))).collect()
}

fn warnings(pruned: &Pruned) -> Vec<String> {
    let emptied = pruned.layers.iter().filter(|l| l.kept == 0);
    let said = |l: &LayerReport| {
        format!(
            "all {} of {} were pruned, so that nothing passes them; keep more",
            count(l.parameters, "weight"),
            l.name
        )
    };
    emptied.map(said).collect()
}

fn as_json(args: &Compress, pruned: &Pruned, measured: &Measured) -> Value {
    let layer = |l: &LayerReport| {
        json!({
            "name": l.name,
            "parameters": l.parameters,
            "kept": l.kept,
            "sparsity": l.sparsity(),
            // Not a number where nothing is left: null.
            "compression": l.compression(),
        })
    };
    let total = pruned.total();
    let compared = measured.comparison.as_ref();
    let by_draws = compared.and_then(|c| c.by_draws.as_ref());
    let scores = compared.filter(|c| !c.scores.is_empty()).map(|c| {
        let column = |of: fn(&(&'static str, f64, f64)) -> f64| {
            c.scores.iter().map(|s| (s.0.to_owned(), json!(of(s)))).collect::<Map<_, _>>()
        };
        json!({ "before": column(|s| s.1), "after": column(|s| s.2) })
    });
    json!({
        "layers": pruned.layers.iter().map(layer).collect::<Vec<_>>(),
        "parameters": total.parameters,
        "kept": total.kept,
        "sparsity": total.sparsity(),
        "compression": total.compression(),
        "bytes_before": measured.bytes[0],
        "bytes_after": measured.bytes[1],
        "timed_rows": measured.rows,
        "draws": args.draws,
        "seconds_before": measured.seconds[0],
        "seconds_after": measured.seconds[1],
        "max_difference": compared.map(|c| c.difference.largest),
        "mean_difference": compared.map(|c| c.difference.mean),
        "max_difference_by_draws": by_draws.map(|d| d.largest),
        "mean_difference_by_draws": by_draws.map(|d| d.mean),
        "scores": scores,
        "model": args.out.display().to_string(),
    })
}

fn as_text(args: &Compress, model: &Model, pruned: &Pruned, measured: &Measured) -> String {
    let row = |l: &LayerReport| {
        let percent = format!("{:.2}", 100.0 * l.sparsity());
        vec![l.name.clone(), grouped(l.parameters), grouped(l.kept), percent, number(l.compression())]
    };
    let layers: Vec<_> = pruned.layers.iter().chain([&pruned.total()]).map(row).collect();
    let mut text = table(&["weights", "before", "kept", "pruned %", "compression"], &layers);
    let ([before, after], [slow, fast]) = (measured.bytes, measured.seconds);
    let smaller = number(before as f64 / after.max(1) as f64);
    let (large, small) = (grouped(before as usize), grouped(after as usize));
    let what = if measured.comparison.is_some() { "row" } else { "made-up row" };
    let draws = count(args.draws as usize, "draw");
    let rows = [
        ("file", format!("{large} → {small} bytes, {smaller} times smaller")),
        ("time", format!("{} → {} to predict {}, {draws}", seconds(slow), seconds(fast), count(measured.rows, what))),
    ];
    text += &format!("\n{}\n", facts(&rows));
    match &measured.comparison {
        None => text += "Predictions were not compared: give rows with --data.\n",
        Some(c) => text += &sentences(model, c),
    }
    text + &format!("\nmodel in {}\n", args.out.display())
}

/// How far predictions are apart, and the scores of both models.
fn sentences(model: &Model, compared: &Comparison) -> String {
    let unit = match model.encoder.class_names() {
        [] if !model.encoder.also.is_empty() => "standard deviations of the targets",
        [] => model.encoder.target.name.as_str(),
        _ => "probability",
    };
    let apart =
        |d: &Difference| format!("differ by at most {} in {unit}, {} on average", number(d.largest), number(d.mean));
    let mut text = format!("Predictions for {} {}.\n", count(compared.rows, "row"), apart(&compared.difference));
    if let Some(by_draws) = &compared.by_draws {
        text += &format!("Under other draws, those of the full model {}.\n", apart(by_draws));
    }
    if !compared.scores.is_empty() {
        let rows: Vec<_> = compared.scores.iter().map(|s| vec![s.0.to_owned(), number(s.1), number(s.2)]).collect();
        text += &format!("\n{}", table(&["score", "before", "after"], &rows));
    }
    text
}
