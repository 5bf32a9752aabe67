//! `posterior predict MODEL DATA`: a predictive distribution for every row, in the user's units.

use super::{predictor, read};
use crate::cli::Predict;
use crate::output::{check_writable, print};
use crate::progress::notes;
use posterior::apply::calibrate::Calibration;
use posterior::artifact;
use posterior::data::{Encoded, TargetKind};
use posterior::model::Model;
use posterior::predict::{Predictive, Predictor};
use serde_json::{Map, Value, json};

/// Rows times draws times outputs that are kept in memory at once.
const NUMBERS: usize = 1 << 26;

/// Predictions as columns.
struct Columns {
    names: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Columns {
    /// Puts each prediction at its row of the table; rows that were left out get empty cells.
    fn spread(&mut self, kept: &[usize], rows: usize) {
        let width = self.names.len();
        let mut all: Vec<Vec<Cell>> = (0..rows).map(|_| (0..width).map(|_| Cell::Empty).collect()).collect();
        for (row, cells) in kept.iter().zip(self.rows.drain(..)) {
            all[*row] = cells;
        }
        self.rows = all;
    }
}

enum Cell {
    Number(f64),
    Text(String),
    /// Class names, in JSON an array.
    Names(Vec<String>),
    /// A row that the model leaves out for a missing value.
    Empty,
}

pub fn run(args: &Predict) -> anyhow::Result<()> {
    args.out.as_deref().map_or(Ok(()), check_writable)?;
    let model = artifact::load(&args.model)?;
    let table = read(&args.data, Some(&model.encoder))?;
    let encoded = model.encoder.encode(&table, false)?;
    notes(&args.common, &encoded.warnings);
    let predictor = predictor(&model, args.draws, args.moments, &args.common)?;
    if let Some(c) = model.calibration.as_ref().filter(|c| c.threshold(args.interval).is_none()) {
        let most = (c.highest_level() * 1e4).floor() / 1e4;
        let what = format!(
            "{} held-back rows guarantee levels up to {most}, not {}: conformal columns are left empty",
            c.rows, args.interval
        );
        notes(&args.common, &[what]);
    }
    let mut columns = predict(&model, &*predictor, args.draws, &encoded, args.interval);
    let beyond = |row: &&Vec<Cell>| row.iter().any(|c| matches!(c, Cell::Number(v) if !v.is_finite()));
    let beyond = columns.rows.iter().filter(beyond).count();
    if beyond > 0 {
        let what = format!(
            "{beyond} of {} rows have predictions too large to be told (inf or NaN in CSV, null in JSON): their inputs \
             probably lie far outside the training range",
            columns.rows.len()
        );
        notes(&args.common, &[what]);
    }
    if encoded.kept_rows.len() < table.rows() {
        notes(
            &args.common,
            &["their predictions are empty, so that predictions and rows stay side by side".to_owned()],
        );
        columns.spread(&encoded.kept_rows, table.rows());
    }
    let text = if args.common.json { as_json(&columns, args.interval) } else { as_csv(&columns)? };
    match &args.out {
        None => print(&text),
        Some(path) => Ok(artifact::write_file(path, text.as_bytes())?),
    }
}

fn predict(model: &Model, predictor: &dyn Predictor, draws: u32, encoded: &Encoded, interval: f64) -> Columns {
    let per_row = draws as usize * model.network.outputs();
    let block = (NUMBERS / per_row.max(1)).max(1);
    let mut columns = Columns { names: names(model), rows: Vec::with_capacity(encoded.data.rows) };
    let all: Vec<usize> = (0..encoded.data.rows).collect();
    for rows in all.chunks(block) {
        let x = encoded.data.x.rows(rows, encoded.data.shape.len());
        predict_block(model, predictor.predict(&x), interval, &mut columns.rows);
    }
    columns
}

fn names(model: &Model) -> Vec<String> {
    let fixed = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let calibrated = model.calibration.is_some();
    match model.encoder.target_kind() {
        TargetKind::Class { names, .. } => {
            let mut out = fixed(&["predicted"]);
            out.extend(names.iter().map(|n| format!("p_{n}")));
            out.extend(fixed(&["entropy", "entropy_aleatoric", "mutual_information"]));
            out.extend(fixed(if calibrated { &["conformal_set"] } else { &[] }));
            out
        }
        _ => {
            let mut out = fixed(&["mean", "std", "std_epistemic", "std_aleatoric", "lower", "upper"]);
            out.extend(fixed(if calibrated { &["conformal_lower", "conformal_upper"] } else { &[] }));
            out
        }
    }
}

fn predict_block(model: &Model, raw: Predictive, interval: f64, out: &mut Vec<Vec<Cell>>) {
    let threshold = model.calibration.as_ref().map(|c| c.threshold(interval));
    if let TargetKind::Class { names, .. } = model.encoder.target_kind() {
        // Sets come from the model's own probabilities, which the guarantee is about; all else from those at its temperature.
        let own = threshold.map(|t| (t, raw.classes()));
        let predictive = model.calibrated(raw);
        let classes = predictive.classes();
        for n in 0..predictive.rows() {
            let mut row = vec![Cell::Text(names[classes.predicted(n)].clone())];
            row.extend(classes.row(n).iter().map(|p| Cell::Number(*p)));
            row.extend([classes.total[n], classes.aleatoric[n], classes.mutual_information(n)].map(Cell::Number));
            row.extend(own.as_ref().map(|(threshold, own)| match threshold {
                Some(t) => Cell::Names(Calibration::set(*t, own, n).iter().map(|c| names[*c].clone()).collect()),
                None => Cell::Empty,
            }));
            out.push(row);
        }
    } else {
        let real = raw.real();
        let bounds = raw.quantiles(&[0.5 - 0.5 * interval, 0.5 + 0.5 * interval]);
        for n in 0..raw.rows() {
            let (total, epistemic, aleatoric) = real.std(n);
            let row = [real.mean[n], total, epistemic, aleatoric, bounds[2 * n], bounds[2 * n + 1]];
            let mut row: Vec<Cell> = row.map(Cell::Number).into();
            match threshold {
                Some(Some(t)) => {
                    let (low, high) = Calibration::interval(t, &real, n, model.likelihood.outcome());
                    row.extend([Cell::Number(low), Cell::Number(high)]);
                }
                Some(None) => row.extend([Cell::Empty, Cell::Empty]),
                None => {}
            }
            out.push(row);
        }
    }
}

/// Twelve digits: the network has some seven, but a target may be a small spread around a large number.
fn short(v: f64) -> String {
    let rounded: f64 = format!("{v:.11e}").parse().unwrap_or(v);
    if (1e-5..1e15).contains(&v.abs()) || v == 0.0 || !v.is_finite() {
        format!("{rounded}")
    } else {
        format!("{rounded:e}")
    }
}

fn as_csv(columns: &Columns) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&columns.names)?;
    for row in &columns.rows {
        writer.write_record(row.iter().map(|cell| match cell {
            Cell::Number(v) => short(*v),
            Cell::Text(t) => t.clone(),
            Cell::Names(names) => names.join("|"),
            Cell::Empty => String::new(),
        }))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn as_json(columns: &Columns, interval: f64) -> String {
    let rows: Vec<Value> = columns
        .rows
        .iter()
        .map(|row| {
            let cells = columns.names.iter().zip(row).map(|(name, cell)| {
                let value = match cell {
                    Cell::Number(v) => json!(v),
                    Cell::Text(t) => json!(t),
                    Cell::Names(names) => json!(names),
                    Cell::Empty => Value::Null,
                };
                (name.clone(), value)
            });
            Value::Object(cells.collect::<Map<_, _>>())
        })
        .collect();
    format!("{}\n", json!({ "interval": interval, "rows": rows }))
}
