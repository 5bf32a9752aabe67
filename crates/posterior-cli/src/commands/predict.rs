//! `posterior predict MODEL DATA`: a predictive distribution for every row, in the user's units.

use super::{data_files, how, read, tell_guarded};
use crate::cli::Predict;
use crate::output::{check_writable, for_terminal, json_text};
use crate::progress::notes;
use posterior::apply::calibrate::Calibration;
use posterior::artifact;
use posterior::data::{Column, Encoded, Table, Target, TargetKind, guarded};
use posterior::fitted::How;
use posterior::model::Model;
use posterior::predict::Predictive;
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows that one task turns into text.
const ROWS: usize = 1024;

enum Cell {
    Number(f64),
    Text(String),
    /// Class names, in JSON an array.
    Names(Vec<String>),
    /// A row that the model leaves out for a missing value.
    Empty,
}

pub fn run(args: &Predict) -> anyhow::Result<()> {
    let inputs = data_files(&args.data.data, args.data.labels.as_ref()).into_iter().chain([args.model.clone()]);
    args.out.as_deref().map_or(Ok(()), |out| check_writable(out, inputs))?;
    let model = artifact::load(&args.model)?;
    // What is passed through stays as it is written: 007 is no number.
    let mut data = args.data.clone();
    data.text.extend_from_slice(&args.keep);
    let table = read(&data, Some(&model.encoder))?;
    let kept = Kept::of(&args.keep, &table, &names(&model))?;
    let encoded = model.encoder.encode(&table, false)?;
    let rows = table.rows();
    drop(table);
    notes(&args.common, &encoded.warnings);
    if let Some(c) = model.calibration.as_ref().filter(|c| c.threshold(args.interval).is_none()) {
        let most = (c.highest_level() * 1e4).floor() / 1e4;
        let what = format!(
            "{} held-back rows guarantee levels up to {most}, not {}: conformal columns are left empty",
            c.rows, args.interval
        );
        notes(&args.common, &[what]);
    }
    if encoded.kept_rows.len() < rows {
        notes(
            &args.common,
            &["their predictions are empty, so that predictions and rows stay side by side".to_owned()],
        );
    }
    let job = Job {
        model: &model,
        encoded: &encoded,
        rows,
        how: how(&model, args.draws, args.moments, &args.common),
        interval: args.interval,
        names: args.keep.iter().cloned().chain(names(&model)).collect(),
        kept,
        json: args.common.json,
        raw: args.raw,
        terminal: args.out.is_none() && io::stdout().is_terminal(),
        guarded: AtomicUsize::new(0),
        beyond: AtomicUsize::new(0),
    };
    job.run(args)?;
    let (beyond, guarded) = (job.beyond.into_inner(), job.guarded.into_inner());
    if beyond > 0 {
        let what = format!(
            "{beyond} of {} rows have predictions too large to be told (inf or NaN in CSV, null in JSON): their inputs \
             probably lie far outside the training range",
            encoded.kept_rows.len()
        );
        notes(&args.common, &[what]);
    }
    tell_guarded(&args.common, guarded);
    Ok(())
}

/// Predictions on their way from the model to text, a block of rows at a time.
struct Job<'a> {
    model: &'a Model,
    encoded: &'a Encoded,
    /// Rows of the table, those that are left out included.
    rows: usize,
    how: How,
    interval: f64,
    /// Of all columns, those that are passed through first.
    names: Vec<String>,
    kept: Kept,
    json: bool,
    /// Whether text that a spreadsheet would run as a formula is left as it is.
    raw: bool,
    /// Whether a person reads it, so that what would steer a terminal is written out.
    terminal: bool,
    /// Texts that were guarded.
    guarded: AtomicUsize,
    /// Rows with a number that is not finite.
    beyond: AtomicUsize,
}

impl Job<'_> {
    fn run(&self, args: &Predict) -> anyhow::Result<()> {
        let Some(path) = &args.out else {
            let mut out = io::BufWriter::new(io::stdout().lock());
            self.write(&mut out)?;
            return Ok(out.flush()?);
        };
        let mut failed = None;
        let written = artifact::write_with(path, |file| {
            let mut out = io::BufWriter::new(file);
            self.write(&mut out).map_err(|e| match e.downcast::<io::Error>() {
                Ok(e) => e,
                Err(e) => {
                    failed = Some(e);
                    io::Error::other("the prediction failed")
                }
            })?;
            out.flush()
        });
        failed.map_or_else(|| Ok(written?), Err)
    }

    /// Nothing is written before the first block is predicted.
    fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let head = match self.json {
            true => format!("{{\"interval\":{},\"rows\":[", json!(self.interval)).into_bytes(),
            false => self.csv_line(self.names.iter().map(|name| csv_text(name, self.raw))),
        };
        let (mut head, mut next, mut failed) = (Some(self.shown(head)), 0, None);
        let done = self.model.predict_blocks(&self.encoded.data.x, &self.how, |part, raw| {
            let mut cells = Vec::with_capacity(part.len());
            predict_block(self.model, raw, self.interval, &mut cells);
            let beyond = |row: &&Vec<Cell>| row.iter().any(|c| matches!(c, Cell::Number(v) if !v.is_finite()));
            self.beyond.fetch_add(cells.iter().filter(beyond).count(), Ordering::Relaxed);
            // Each prediction at its row of the table; rows that were left out get empty cells.
            let places = self.encoded.kept_rows.get(part).unwrap_or_default();
            let mut lines = Vec::with_capacity(cells.len());
            for (place, cells) in places.iter().zip(cells) {
                lines.extend((next..*place).map(|row| self.empty(row)));
                lines.push(self.kept.before(*place, cells));
                next = place + 1;
            }
            let head = head.take().unwrap_or_default();
            failed = out.write_all(&head).and_then(|()| self.put(out, &lines, next)).err();
            if failed.is_none() { Ok(()) } else { Err(posterior::ErrorKind::Interrupted.into()) }
        });
        failed.map_or(Ok(()), Err)?;
        done?;
        let rest: Vec<Vec<Cell>> = (next..self.rows).map(|row| self.empty(row)).collect();
        self.put(out, &rest, self.rows)?;
        if self.json {
            out.write_all(b"]}\n")?;
        }
        Ok(())
    }

    fn empty(&self, row: usize) -> Vec<Cell> {
        self.kept.before(row, self.names.iter().skip(self.kept.0.len()).map(|_| Cell::Empty).collect())
    }

    /// Text as whoever reads it may see it: names of classes come from files too.
    fn shown(&self, text: Vec<u8>) -> Vec<u8> {
        match self.terminal {
            true => for_terminal(&String::from_utf8_lossy(&text)).into_owned().into_bytes(),
            false => text,
        }
    }

    fn csv_line(&self, cells: impl Iterator<Item = (String, bool)>) -> Vec<u8> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let texts = cells.map(|(text, guarded)| {
            self.guarded.fetch_add(usize::from(guarded), Ordering::Relaxed);
            text
        });
        // Into memory, of one record: neither can fail.
        let _ = writer.write_record(texts);
        writer.into_inner().unwrap_or_default()
    }

    /// Writes rows, the last of which ends before row `end`: made in parallel, written in order.
    fn put(&self, out: &mut dyn Write, rows: &[Vec<Cell>], end: usize) -> io::Result<()> {
        let first = end - rows.len();
        let texts: Vec<Vec<u8>> = rows
            .par_chunks(ROWS)
            .enumerate()
            .map(|(chunk, rows)| {
                let mut text = Vec::new();
                for (i, row) in rows.iter().enumerate() {
                    if self.json {
                        text.extend_from_slice(if first + chunk * ROWS + i > 0 { b"," } else { b"" });
                        text.extend_from_slice(json_text(&json_row(&self.names, row).to_string()).as_bytes());
                    } else {
                        text.extend_from_slice(&self.csv_line(row.iter().map(|cell| csv_cell(cell, self.raw))));
                    }
                }
                self.shown(text)
            })
            .collect();
        texts.iter().try_for_each(|text| out.write_all(text))
    }
}

/// Columns of the table that are written before the predictions, as they are.
struct Kept(Vec<Column>);

impl Kept {
    fn of(names: &[String], table: &Table, predicted: &[String]) -> anyhow::Result<Kept> {
        for (i, name) in names.iter().enumerate() {
            if predicted.contains(name) || names[..i].contains(name) {
                anyhow::bail!(
                    "--keep {name}: the predictions would have two columns of this name; rename it in the data"
                );
            }
        }
        Ok(Kept(names.iter().map(|name| Ok(table.column(name)?.clone())).collect::<anyhow::Result<_>>()?))
    }

    fn before(&self, row: usize, cells: Vec<Cell>) -> Vec<Cell> {
        let kept = self.0.iter().map(|column| column.text(row).map_or(Cell::Empty, Cell::Text));
        if self.0.is_empty() { cells } else { kept.chain(cells).collect() }
    }
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
            if model.encoder.also.is_empty() {
                return out;
            }
            let of_target = |t: &Target| out.iter().map(|name| format!("{name}_{}", t.name)).collect::<Vec<_>>();
            model.encoder.targets().flat_map(of_target).collect()
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
        let targets = model.likelihood().targets();
        for row in 0..raw.rows() {
            let mut cells: Vec<Cell> = Vec::with_capacity(8 * targets);
            for n in row * targets..(row + 1) * targets {
                let (total, epistemic, aleatoric) = real.std(n);
                let numbers = [real.mean[n], total, epistemic, aleatoric, bounds[2 * n], bounds[2 * n + 1]];
                cells.extend(numbers.map(Cell::Number));
                match threshold {
                    Some(Some(t)) => {
                        let (low, high) = Calibration::interval(t, &real, n, model.likelihood().outcome());
                        cells.extend([Cell::Number(low), Cell::Number(high)]);
                    }
                    Some(None) => cells.extend([Cell::Empty, Cell::Empty]),
                    None => {}
                }
            }
            out.push(cells);
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

/// A cell, and whether its text was guarded against being run as a formula.
fn csv_cell(cell: &Cell, raw: bool) -> (String, bool) {
    match cell {
        Cell::Number(v) => (short(*v), false),
        Cell::Text(t) => csv_text(t, raw),
        Cell::Names(names) => csv_text(&names.join("|"), raw),
        Cell::Empty => (String::new(), false),
    }
}

fn csv_text(text: &str, raw: bool) -> (String, bool) {
    match guarded(text).filter(|_| !raw) {
        Some(safe) => (safe, true),
        None => (text.to_owned(), false),
    }
}

fn json_row(names: &[String], row: &[Cell]) -> Value {
    let cells = names.iter().zip(row).map(|(name, cell)| {
        let value = match cell {
            Cell::Number(v) => json!(v),
            Cell::Text(t) => json!(t),
            Cell::Names(names) => json!(names),
            Cell::Empty => Value::Null,
        };
        (name.clone(), value)
    });
    Value::Object(cells.collect::<Map<_, _>>())
}
