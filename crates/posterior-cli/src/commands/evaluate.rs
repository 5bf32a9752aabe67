//! `posterior evaluate MODEL DATA`: scores on rows whose outcome is known, with standard errors.

use super::{data_files, evaluate_report, how, read};
use crate::cli::Evaluate;
use crate::output::{check_writable, grouped, json, number, print, table};
use crate::progress::notes;
use posterior::apply::calibrate::Calibration;
use posterior::artifact;
use posterior::data::{Encoded, Target};
use posterior::likelihood::Outcome;
use posterior::model::Model;
use posterior::predict::Predictive;
use posterior::rng::Key;
use posterior::score::{
    Confusion, LEVELS, Needs, Rated, ScoreBuilder, Scored, pit_histogram, rate, reliability, risk_coverage_curve,
};
use serde_json::{Map, Value, json};

/// Parts of the histogram of probability integral transforms.
const PIT_BINS: usize = 20;
/// Most classes whose confusion matrix is shown as text; JSON has all.
const MOST_SHOWN: usize = 20;
/// Points of the risk–coverage curve.
const CURVE: usize = 100;

pub fn run(args: &Evaluate) -> anyhow::Result<()> {
    let inputs = data_files(&args.data.data, args.data.labels.as_ref()).into_iter().chain([args.model.clone()]);
    args.report.as_deref().map_or(Ok(()), |out| check_writable(out, inputs))?;
    let model = artifact::load(&args.model)?;
    let data = read(&args.data, Some(&model.encoder))?;
    let Encoded { data: encoded, kept_rows, warnings } = model.encoder.encode(&data, true)?;
    notes(&args.common, &warnings);
    // The table is as large as what was made of it, and only a page shows its columns.
    let table_of_page = args.report.is_some().then(|| data.select(&kept_rows));
    drop((data, kept_rows));
    let outcome = model.likelihood().outcome();
    let mut builder = ScoreBuilder::new(outcome, Needs::all()).with_room(encoded.y.len());
    let mut conformal = Conformal::of(&model);
    let each = encoded.targets;
    model.predict_blocks(&encoded.x, &how(&model, args.draws, args.moments, &args.common), |part, raw| {
        let y = model.encoder.decode_target(&encoded.y[part.start * each..part.end * each]);
        conformal.iter_mut().for_each(|c| c.add(&model, &raw, &y));
        builder.push(&model.calibrated(raw), &y);
        Ok(())
    })?;
    drop(encoded);
    let scored = builder.finish();
    // The rows are drawn anew in the same way whatever the draws of the posterior: two evaluations differ by these alone.
    let rated = rate(&scored, Key::new(model.seed));
    let targets = by_target(&model, &scored);
    notes(&args.common, &undefined(&rated));
    if let (Some(path), Some(table)) = (&args.report, &table_of_page) {
        let page = evaluate_report::page(args, &model, table, &scored, &rated, &targets);
        artifact::write_file(path, page.html().as_bytes())?;
    }
    let classes = model.encoder.class_names();
    let confusion = Confusion::new(&scored, classes.len()).map(|c| (c, classes));
    if args.common.json {
        let mut value = as_json(&scored, &rated, &targets, &conformal);
        if let Some((c, classes)) = &confusion {
            let each =
                |f: fn(&Confusion, usize) -> Option<f64>| (0..classes.len()).map(|k| f(c, k)).collect::<Vec<_>>();
            value["confusion"] = json!({
                "classes": classes,
                "counts": c.counts,
                "precision": each(Confusion::precision),
                "recall": each(Confusion::recall),
                "f1": each(Confusion::f1),
            });
        }
        return json(&value);
    }
    let mut rows: Vec<Vec<String>> = rated.iter().map(cells).collect();
    rows.extend(conformal.iter().map(|c| {
        let what = match model.likelihood().outcome() {
            Outcome::Class => format!("fraction of rows inside their conformal set; mean size {}", number(c.size())),
            _ => format!("fraction of rows inside their conformal interval; mean width {}", number(c.size())),
        };
        vec![format!("conformal_{:.0}", 100.0 * c.level), number(c.coverage()), number(c.error()), what]
    }));
    let head = ["score", "value", "± std error", "what it is"];
    print(&format!("{} rows\n{}", grouped(scored.rows()), table(&head, &rows)))?;
    if let Some((c, classes)) = confusion.filter(|(c, _)| c.counts.len() <= MOST_SHOWN) {
        let head: Vec<&str> = ["true class"]
            .into_iter()
            .chain(classes.iter().map(String::as_str))
            .chain(["precision", "recall", "F1"])
            .collect();
        let row = |(k, name): (usize, &String)| {
            let scores = [c.precision(k), c.recall(k), c.f1(k)].map(|v| v.map_or(String::new(), number));
            std::iter::once(name.clone()).chain(c.counts[k].iter().map(|n| grouped(*n))).chain(scores).collect()
        };
        let rows: Vec<Vec<String>> = classes.iter().enumerate().map(row).collect();
        print(&format!("\nRows by true class (down) and predicted class (across)\n{}", table(&head, &rows)))?;
    }
    if !targets.is_empty() {
        let (head, rows) = target_table(&targets);
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        print(&format!("\n{SEVERAL}\n\n{}", table(&head, &rows)))?;
    }
    args.report.as_ref().map_or(Ok(()), |path| print(&format!("page in {}\n", path.display())))
}

/// What scores of several targets are.
pub(super) const SEVERAL: &str = "Above, the log-likelihood is that of all targets together, and errors and widths are in standard deviations of each target; \
     below, every target on its own and in its own units.";

/// The scores of every target, where there are several.
fn by_target(model: &Model, scored: &Scored) -> Vec<(String, Vec<Rated>)> {
    if scored.targets() == 1 {
        return Vec::new();
    }
    let of = |(t, target): (usize, &Target)| (target.name.clone(), rate(&scored.of_target(t), Key::new(model.seed)));
    model.encoder.targets().enumerate().map(of).collect()
}

/// A row for every score and a column for every target.
pub(super) fn target_table(targets: &[(String, Vec<Rated>)]) -> (Vec<String>, Vec<Vec<String>>) {
    let head = std::iter::once("score".to_owned()).chain(targets.iter().map(|(name, _)| name.clone())).collect();
    let Some((_, first)) = targets.first() else { return (head, Vec::new()) };
    let cell = |r: &Rated| match (&r.value, r.standard_error) {
        (Ok(v), Some(error)) => format!("{} ± {}", number(*v), number(error)),
        (Ok(v), None) => number(*v),
        (Err(_), _) => String::new(),
    };
    let row = |(i, r): (usize, &Rated)| {
        let of = targets.iter().map(|(_, rated)| rated.get(i).map_or_else(String::new, cell));
        std::iter::once(r.metric.name.to_owned()).chain(of).collect()
    };
    (head, first.iter().enumerate().map(row).collect())
}

/// How the conformal intervals or sets of one level fare.
struct Conformal {
    level: f64,
    threshold: f64,
    rows: usize,
    inside: usize,
    /// Sum of widths, or of numbers of classes.
    sizes: f64,
}

impl Conformal {
    /// For a calibrated model; levels its rows cannot guarantee are left out.
    fn of(model: &Model) -> Vec<Conformal> {
        let Some(calibration) = &model.calibration else { return Vec::new() };
        let at = |level: &f64| {
            let threshold = calibration.threshold(*level)?;
            Some(Conformal { level: *level, threshold, rows: 0, inside: 0, sizes: 0.0 })
        };
        LEVELS.iter().filter_map(at).collect()
    }

    /// The next rows, with predictions before calibration.
    fn add(&mut self, model: &Model, raw: &Predictive, y: &[f64]) {
        let outcome = model.likelihood().outcome();
        let mut put = |inside: bool, size: f64| {
            self.rows += 1;
            self.inside += usize::from(inside);
            self.sizes += size;
        };
        if outcome == Outcome::Class {
            let classes = raw.classes();
            for (i, y) in y.iter().enumerate() {
                let set = Calibration::set(self.threshold, &classes, i);
                put(set.contains(&(*y as usize)), set.len() as f64);
            }
        } else {
            // A row is inside where all its targets are; the width is their mean, of several in standard deviations of each.
            let (real, scales) = (raw.real(), model.encoder.target_scales());
            let unit = |t: usize| if scales.len() > 1 { scales[t].1 } else { 1.0 };
            for (i, y) in y.chunks_exact(scales.len()).enumerate() {
                let (mut inside, mut width) = (true, 0.0);
                for (t, y) in y.iter().enumerate() {
                    let (low, high) = Calibration::interval(self.threshold, &real, i * scales.len() + t, outcome);
                    inside &= low <= *y && *y <= high;
                    width += (high - low) / unit(t) / scales.len() as f64;
                }
                put(inside, width);
            }
        }
    }

    fn coverage(&self) -> f64 {
        self.inside as f64 / self.rows as f64
    }

    /// Standard error of the coverage.
    fn error(&self) -> f64 {
        (self.coverage() * (1.0 - self.coverage()) / self.rows as f64).sqrt()
    }

    /// Mean width, or mean number of classes.
    fn size(&self) -> f64 {
        self.sizes / self.rows as f64
    }
}

/// A line for every score that has no value.
fn undefined(rated: &[Rated]) -> Vec<String> {
    let why = |r: &Rated| Some(format!("{} is not defined here: {}", r.metric.name, r.value.as_ref().err()?));
    rated.iter().filter_map(why).collect()
}

/// The row of a score in a table.
pub(super) fn cells(r: &Rated) -> Vec<String> {
    let error = r.standard_error.map_or(String::new(), number);
    vec![
        r.metric.name.to_owned(),
        r.value.as_ref().map_or(String::new(), |v| number(*v)),
        error,
        r.metric.summary.to_owned(),
    ]
}

/// Values, standard errors and what is not defined, by the names of the scores.
fn rated_json(rated: &[Rated]) -> Map<String, Value> {
    let mut object = Map::new();
    object.extend(rated.iter().map(|r| (r.metric.name.to_owned(), json!(r.value.as_ref().ok()))));
    let errors: Map<String, Value> =
        rated.iter().map(|r| (r.metric.name.to_owned(), json!(r.standard_error))).collect();
    object.insert("standard_errors".to_owned(), Value::Object(errors));
    let why: Map<String, Value> =
        rated.iter().filter_map(|r| Some((r.metric.name.to_owned(), json!(r.value.as_ref().err()?)))).collect();
    if !why.is_empty() {
        object.insert("undefined".to_owned(), Value::Object(why));
    }
    object
}

fn as_json(scored: &Scored, rated: &[Rated], targets: &[(String, Vec<Rated>)], conformal: &[Conformal]) -> Value {
    let mut object = Map::from_iter([("n".to_owned(), json!(scored.rows()))]);
    object.extend(rated_json(rated));
    if !targets.is_empty() {
        let of = |(name, rated): &(String, Vec<Rated>)| (name.clone(), Value::Object(rated_json(rated)));
        object.insert("targets".to_owned(), Value::Object(targets.iter().map(of).collect()));
    }
    if !conformal.is_empty() {
        let one = |c: &Conformal| json!({ "level": c.level, "coverage": c.coverage(), "size": c.size() });
        object.insert("conformal".to_owned(), conformal.iter().map(one).collect());
    }
    if let Some(pit) = pit_histogram(scored, PIT_BINS) {
        object.insert("pit".to_owned(), json!(pit));
    }
    if let Some(bins) = reliability(scored) {
        let bin =
            |b: &posterior::score::Bin| json!({ "rows": b.rows, "confidence": b.confidence, "accuracy": b.accuracy });
        object.insert("reliability".to_owned(), bins.iter().map(bin).collect());
    }
    if let Some(curve) = risk_coverage_curve(scored, CURVE) {
        let point = |(coverage, risk): &(f64, f64)| json!({ "coverage": coverage, "risk": risk });
        object.insert("risk_coverage".to_owned(), curve.iter().map(point).collect());
    }
    Value::Object(object)
}
