//! Learning from the training table how to encode it.

use super::cells::{kept, label, number, whole};
use super::encode::Encoder;
use super::scale::Scale;
use super::schema::{Feature, FeatureKind, Inputs, LabelKind, MISSING, Missing, Target, TargetKind};
use super::table::{Column, Table, number_text, show};
use crate::error::{Error, Result};
use crate::nn::Shape;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// Fewest rows one can learn from.
const FEWEST_ROWS: usize = 5;
/// Most categories of a text column, and most classes.
const MOST_CATEGORIES: usize = 1000;
/// Most distinct values of a target with fractions that is to be classified.
const MOST_FRACTIONS: usize = 100;
/// A text column whose values are all distinct is a name, not a category, if it is longer than this.
const LONGEST_DISTINCT: usize = 50;

/// What kind of target it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Numbers are regression; text, yes/no and the labels of images are classification.
    #[default]
    Auto,
    /// A real number.
    Regression,
    /// A class.
    Classification,
    /// A count 0, 1, 2 …
    Count,
}

/// What to encode, and how.
#[derive(Debug, Clone, Default)]
pub struct EncodeOptions {
    /// Name of the column to predict.
    pub target: String,
    /// What kind of target it is.
    pub task: Task,
    /// What to do with missing values.
    pub missing: Missing,
    /// Columns to leave out.
    pub ignore: Vec<String>,
}

/// An encoder and what was noticed while fitting it.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The encoder.
    pub encoder: Encoder,
    /// What a user should know.
    pub warnings: Vec<String>,
    /// Rows left out for missing values.
    pub dropped_rows: Vec<usize>,
}

impl Encoder {
    /// Learns the encoding of a training table.
    pub fn fit(table: &Table, options: &EncodeOptions) -> Result<Fitted> {
        let column = table.column(&options.target)?;
        for name in &options.ignore {
            table.column(name)?;
        }
        if options.ignore.contains(&options.target) {
            let what = format!("the target '{}' is also to be ignored", show(&options.target));
            return Err(Error::setting(what, "choose another target, or do not ignore it"));
        }
        let mut warnings = Vec::new();
        let mut unused = options.ignore.clone();
        let mut features = Vec::new();
        for (name, column) in table.columns() {
            if name == options.target || unused.iter().any(|n| n == name) {
                continue;
            }
            if table.images().is_some() {
                unused.push(name.to_owned());
            } else if (0..column.len()).all(|r| column.is_missing(r)) {
                warnings.push(format!("column '{}' has no values and is left out", show(name)));
                unused.push(name.to_owned());
            } else {
                features.push((name, column));
            }
        }
        let target = Some((options.target.as_str(), column));
        // Leaving out a column may complete rows, and leaving out rows may make a column constant.
        let (rows, fitted) = loop {
            let mut noted = Vec::new();
            let rows = kept(table, &features, target, options.missing, &mut noted)?;
            if rows.len() < FEWEST_ROWS {
                let left = if rows.len() < table.rows() { "complete " } else { "" };
                let what = format!("there are {} {left}rows and at least {FEWEST_ROWS} are needed", rows.len());
                return Err(table.locate(Error::data(what, "add rows")));
            }
            let kinds = features.iter().map(|(name, column)| feature_kind(table, name, column, &rows));
            let kinds = kinds.collect::<Result<Vec<_>>>()?;
            if kinds.iter().all(Option::is_some) {
                warnings.extend(noted);
                let named = features.iter().zip(kinds.into_iter().flatten());
                break (rows, named.map(|((n, _), kind)| Feature { name: (*n).to_owned(), kind }).collect::<Vec<_>>());
            }
            for ((name, _), _) in features.iter().zip(&kinds).filter(|(_, kind)| kind.is_none()) {
                warnings.push(format!("column '{}' has the same value in every row and is left out", show(name)));
                unused.push((*name).to_owned());
            }
            features = features.into_iter().zip(kinds).filter_map(|(f, kind)| kind.map(|_| f)).collect();
        };
        let target = Target {
            name: options.target.clone(),
            kind: target_kind(table, column, &rows, options)
                .map_err(|e| table.locate(e).in_column(&show(&options.target)))?,
        };
        let inputs = match table.images() {
            Some(images) => {
                let n = images.shape.len();
                let pixels = rows.iter().flat_map(|&r| &images.pixels[r * n..(r + 1) * n]);
                let Some(scale) = Scale::of_pixels(pixels.map(|p| f64::from(*p))) else {
                    let error =
                        Error::data("all pixels are the same", "there is nothing to learn from; check the file");
                    return Err(table.locate(error));
                };
                let Shape::Image { channels, height, width } = images.shape else {
                    return Err(table.locate(Error::data("the images have no shape", "write the file again")));
                };
                Inputs::Images { channels, height, width, scale }
            }
            None if fitted.is_empty() => {
                let fix = "add a column that varies from row to row";
                return Err(table.locate(Error::data("no column is left to predict from", fix)));
            }
            None => Inputs::Columns(fitted),
        };
        let mut is_kept = vec![false; table.rows()];
        rows.iter().for_each(|&r| is_kept[r] = true);
        let dropped_rows = (0..table.rows()).filter(|&r| !is_kept[r]).collect();
        let encoder = Encoder { inputs, target, missing: options.missing, unused };
        Ok(Fitted { encoder, warnings, dropped_rows })
    }
}

/// How to encode a column; none if it does not vary.
fn feature_kind(table: &Table, name: &str, column: &Column, rows: &[usize]) -> Result<Option<FeatureKind>> {
    if let Column::Text(_) = column {
        return categories(column, rows).map_err(|e| table.locate(e).in_column(&show(name)));
    }
    let is_bool = matches!(column, Column::Bool(_));
    let value = |&r: &usize| number(column, r, is_bool).map_err(|e| e.at(table.place(r, name)));
    let values = rows.iter().map(value).collect::<Result<Vec<f64>>>()?;
    let scale = Scale::of(values.iter().copied().filter(|v| !v.is_nan()));
    Ok(scale.map(if is_bool { FeatureKind::Bool } else { FeatureKind::Standard }))
}

/// The categories of a text column; none if there is only one.
fn categories(column: &Column, rows: &[usize]) -> Result<Option<FeatureKind>> {
    let text = |r: &usize| column.text(*r).unwrap_or_else(|| MISSING.to_owned());
    let distinct: BTreeSet<String> = rows.iter().map(text).collect();
    let n = distinct.len();
    if n > MOST_CATEGORIES || (n == rows.len() && n > LONGEST_DISTINCT) {
        let what = format!("the text column has {n} different values in {} rows", rows.len());
        return Err(Error::data(what, "leave it out with --ignore COLUMN"));
    }
    Ok((n > 1).then(|| FeatureKind::OneHot { categories: distinct.into_iter().collect() }))
}

fn target_kind(table: &Table, column: &Column, rows: &[usize], options: &EncodeOptions) -> Result<TargetKind> {
    let is_number = matches!(column, Column::Number(_));
    let task = match options.task {
        Task::Auto if is_number && table.images().is_none() => Task::Regression,
        Task::Auto => Task::Classification,
        task => task,
    };
    if task == Task::Classification {
        return classes(column, rows);
    }
    if !is_number {
        let what = if matches!(column, Column::Text(_)) { "text" } else { "true and false" };
        let what = format!("the target holds {what}, not numbers");
        return Err(Error::data(what, "use --task classification, or choose another target"));
    }
    let value = |r: &usize| {
        let checked = number(column, *r, false).and_then(|v| if task == Task::Count { whole(v) } else { Ok(v) });
        checked.map_err(|e| e.at(table.place(*r, &options.target)))
    };
    let values = rows.iter().map(value).collect::<Result<Vec<f64>>>()?;
    match Scale::of(values.iter().copied()) {
        None => Err(constant(&number_text(values.first().copied().unwrap_or(0.0)))),
        Some(scale) if task == Task::Count => Ok(TargetKind::Count { mean: scale.mean }),
        Some(scale) => Ok(TargetKind::Real(scale)),
    }
}

fn constant(value: &str) -> Error {
    let what = format!("the target is '{}' in every row", show(value));
    Error::data(what, "there is nothing to learn; choose another target")
}

fn classes(column: &Column, rows: &[usize]) -> Result<TargetKind> {
    let kind = match column {
        Column::Number(_) => LabelKind::Number,
        Column::Text(_) => LabelKind::Text,
        Column::Bool(_) => LabelKind::Bool,
    };
    let mut counts: HashMap<String, usize> = HashMap::new();
    for &r in rows {
        *counts.entry(label(column, r, kind)).or_default() += 1;
    }
    let mut names: Vec<String> = counts.keys().cloned().collect();
    names.sort();
    let value = |name: &String| name.parse::<f64>().unwrap_or(f64::NAN);
    if kind == LabelKind::Number {
        names.sort_by(|a, b| value(a).total_cmp(&value(b)));
    }
    let fractions = kind == LabelKind::Number && names.iter().any(|n| value(n).fract() != 0.0);
    if names.len() > MOST_CATEGORIES || (fractions && names.len() > MOST_FRACTIONS) {
        let what = format!("the target has {} different values, too many for classes", names.len());
        let fix = if kind == LabelKind::Number { "use --task regression" } else { "choose another target" };
        return Err(Error::data(what, fix));
    }
    if let [only] = &names[..] {
        return Err(constant(only));
    }
    if let Some(lonely) = names.iter().find(|n| counts[*n] == 1) {
        let what = format!("class '{}' has one row", show(lonely));
        return Err(Error::data(what, "a class needs at least two: remove it or add rows"));
    }
    Ok(TargetKind::Class { names, kind })
}
