//! `posterior attack MODEL DATA --epsilon E`: how little must the inputs change to fool the model, and does it notice?

use super::{data_files, how, read, tell_guarded};
use crate::cli::Attack as Args;
use crate::output::{check_writable, grouped, json, number, print, table};
use crate::progress::notes;
use posterior::apply::attack::{Attack, PerturbationBudget, perturb};
use posterior::apply::detect::{Detection, UncertaintyScore, detect, fooled, uncertainty_scores};
use posterior::artifact;
use posterior::data::{Dataset, Table, Values};
use posterior::fitted::Route;
use posterior::likelihood::Outcome;
use posterior::model::Model;
use posterior::score::{Scored, find};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Scores that are shown for every ε; those that the outcome does not have are left out.
const SCORES: [&str; 3] = ["accuracy", "rmse", "log_likelihood"];

/// What the two columns are that only classes have.
const FOOLED: &str =
    "fooled: rows classified correctly before and wrongly now; of these: fraction detected by the best measure\n";

/// What the model makes of rows.
struct Seen {
    epsilon: f64,
    scores: Vec<(&'static str, f64)>,
    uncertainty_scores: Vec<UncertaintyScore>,
    /// The class of every row, where there are classes.
    predicted: Option<Vec<usize>>,
    out: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = artifact::load(&args.model)?;
    let data = read(&args.data, Some(&model.encoder))?;
    let encoded = model.encoder.encode(&data, true)?;
    notes(&args.common, &encoded.warnings);
    let images = data.images().is_some();
    let places: Vec<PathBuf> = args.epsilon.iter().map(|e| place(args, *e, images)).collect();
    let inputs = || data_files(&args.data.data, args.data.labels.as_ref()).into_iter().chain([args.model.clone()]);
    places.iter().try_for_each(|p| check_writable(p, inputs()))?;
    let kind = Attack::find(&args.attack).unwrap_or(Attack::Fgsm);
    let how = how(&model, args.draws, false, &args.common).by(Route::Draws);
    let y = model.encoder.decode_target(&encoded.data.y);
    let look = |x: &Values, epsilon: f64, out: Option<PathBuf>| -> posterior::Result<Seen> {
        let predictive = model.predict(x, &how)?;
        let scored = Scored::new(&predictive, &y, model.likelihood().outcome());
        let scores = SCORES.iter().filter_map(|name| Some((*name, find(name)?.score(&scored)?))).collect();
        let classes = (model.likelihood().outcome() == Outcome::Class).then(|| predictive.classes());
        let predicted = classes.map(|c| (0..predictive.rows()).map(|n| c.predicted(n)).collect());
        Ok(Seen {
            epsilon,
            scores,
            uncertainty_scores: uncertainty_scores(&predictive, model.likelihood().outcome()),
            predicted,
            out,
        })
    };
    let clean = look(&encoded.data.x, 0.0, None)?;
    let budget = PerturbationBudget::new(&model.encoder, &encoded.data);
    if budget.unit.iter().all(|u| *u == 0.0) {
        anyhow::bail!(
            "{}: no column of numbers could be changed; attacks leave text and true/false alone",
            args.data.data.display()
        );
    }
    let rows = data.select(&encoded.kept_rows);
    let mut seen = vec![clean];
    for (epsilon, path) in args.epsilon.iter().zip(places) {
        let x = perturb(&*model.fitted, &encoded.data, &budget, kind, *epsilon, how.draws, how.key)?;
        write(args, &model, &x, &rows, &path)?;
        seen.push(look(&x, *epsilon, Some(path))?);
    }
    if args.common.json {
        return json(&as_json(args, &model, &encoded.data, &seen));
    }
    print(&as_text(args, &model, &encoded.data, &seen))
}

/// Where the rows changed by ε go.
fn place(args: &Args, epsilon: f64, images: bool) -> PathBuf {
    let ending = if images { "npz" } else { "csv" };
    let given = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("adversarial.{ending}")));
    if args.epsilon.len() == 1 {
        return given;
    }
    let stem = given.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let ending = given.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
    given.with_file_name(format!("{stem}-{epsilon}{ending}"))
}

fn write(args: &Args, model: &Model, x: &Values, rows: &Table, path: &Path) -> anyhow::Result<()> {
    let mut changed = model.encoder.decode_inputs(x, rows)?;
    if !args.raw && changed.images().is_none() {
        let (safe, count) = changed.guarded();
        tell_guarded(&args.common, count);
        changed = safe;
    }
    Ok(artifact::write_file(path, &changed.to_bytes()?)?)
}

fn detections(changed: &[UncertaintyScore], clean: &Seen) -> Vec<Detection> {
    clean.uncertainty_scores.iter().zip(changed).filter_map(|(known, other)| detect(known, other)).collect()
}

/// How many rows fooled the model, and how well those are found, where there are classes.
fn detections_of_fooled(seen: &Seen, clean: &Seen, y: &[f64]) -> Option<(usize, Vec<Detection>)> {
    let rows = fooled(y, clean.predicted.as_ref()?, seen.predicted.as_ref()?);
    let of_rows: Vec<UncertaintyScore> = seen.uncertainty_scores.iter().map(|d| d.of_rows(&rows)).collect();
    Some((rows.len(), detections(&of_rows, clean)))
}

fn unit(model: &Model) -> &'static str {
    if matches!(model.encoder.inputs, posterior::data::Inputs::Images { .. }) {
        "brightness of a pixel"
    } else {
        "standard deviations of a column"
    }
}

fn as_json(args: &Args, model: &Model, data: &Dataset, seen: &[Seen]) -> Value {
    let rows = seen.iter().map(|s| {
        let mut row = Map::from_iter([("epsilon".to_owned(), json!(s.epsilon))]);
        row.extend(s.scores.iter().map(|(name, v)| ((*name).to_owned(), json!(v))));
        if let Some(path) = &s.out {
            row.insert("file".to_owned(), json!(path.display().to_string()));
            let found = detections(&s.uncertainty_scores, &seen[0]);
            let by = |found: &[Detection], value: &dyn Fn(&Detection) -> f64| {
                let of = |d: &Detection| (d.measure.to_owned(), json!((!d.constant).then(|| value(d))));
                Value::Object(found.iter().map(of).collect())
            };
            row.insert("tpr_at_fpr5".to_owned(), by(&found, &|d| d.tpr_at_fpr5));
            row.insert("auroc".to_owned(), by(&found, &|d| d.auroc));
            if let Some((rows, found)) = detections_of_fooled(s, &seen[0], &data.y) {
                row.insert("fooled".to_owned(), json!(rows));
                row.insert("tpr_at_fpr5_of_fooled".to_owned(), by(&found, &|d| d.tpr_at_fpr5));
            }
        }
        Value::Object(row)
    });
    json!({ "attack": args.attack, "unit": unit(model), "n": data.rows, "rows": rows.collect::<Vec<_>>() })
}

fn as_text(args: &Args, model: &Model, data: &Dataset, seen: &[Seen]) -> String {
    let mut head = vec!["epsilon".to_owned()];
    head.extend(seen[0].scores.iter().map(|(name, _)| (*name).to_owned()));
    head.extend(seen[0].uncertainty_scores.iter().map(|d| format!("by {}", d.measure)));
    if seen[0].predicted.is_some() {
        head.extend(["fooled".to_owned(), "of these".to_owned()]);
    }
    let rows: Vec<Vec<String>> = seen
        .iter()
        .map(|s| {
            let scores = s.scores.iter().map(|(_, v)| number(*v));
            let found: Vec<String> = match s.out {
                Some(_) => {
                    let said = |d: &Detection| if d.constant { String::new() } else { number(d.tpr_at_fpr5) };
                    let all = detections(&s.uncertainty_scores, &seen[0]);
                    let of_fooled = detections_of_fooled(s, &seen[0], &data.y).map(|(rows, found)| {
                        let useful = found.iter().filter(|d| !d.constant).map(|d| d.tpr_at_fpr5);
                        [grouped(rows), useful.reduce(f64::max).map_or_else(String::new, number)]
                    });
                    all.iter().map(said).chain(of_fooled.into_iter().flatten()).collect()
                }
                None => Vec::new(),
            };
            [number(s.epsilon)].into_iter().chain(scores).chain(found).collect()
        })
        .collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let files: Vec<String> = seen.iter().filter_map(|s| Some(s.out.as_ref()?.display().to_string())).collect();
    let what = if model.likelihood().outcome() == Outcome::Class { "fooled" } else { "led astray" };
    format!(
        "{} rows, {} by {}; epsilon in {}\n{}by …: fraction of the changed rows detected at a false positive rate of 5 % on the unchanged ones\n{}changed rows in {}\n",
        grouped(data.rows),
        what,
        args.attack,
        unit(model),
        table(&head, &rows),
        if seen[0].predicted.is_some() { FOOLED } else { "" },
        files.join(", ")
    )
}
