//! Learning from the training table how to encode it.

use super::cells::{MissingFix, kept, label, number, whole};
use super::dates::{self, DateOrder, DateParts};
use super::encode::Encoder;
use super::recognise::{holds_yes_and_no, look_like_counts, no_input};
use super::scale::Scale;
use super::schema::{Feature, FeatureKind, Inputs, LabelKind, MISSING, Missing, OTHER, Target, TargetKind};
use super::table::{Column, Table, number_text, show};
use crate::error::{Error, Result};
use crate::nn::Shape;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Fewest rows one can learn from.
const FEWEST_ROWS: usize = 5;
/// Most categories of a text column, and most classes.
const MOST_CATEGORIES: usize = 1000;
/// Most distinct values of a target with fractions that is to be classified.
const MOST_FRACTIONS: usize = 100;
/// What to do about a missing value before a model is fitted.
const FITTING: MissingFix = MissingFix {
    input: "fill it in, or use ⟨missing=auto⟩, ⟨missing=mean⟩ or ⟨missing=drop⟩",
    target: "a target must be there: fill it in, or use ⟨missing=auto⟩ or ⟨missing=drop⟩",
};

/// A category with fewer rows than this is rare: its weights would be the prior's, and an unseen category is like it.
const RARE: usize = 3;
/// With fewer rows every category is rare, and none is pooled.
const POOLED_FROM: usize = 50;

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
    /// Further columns to predict with it; then all of them are real numbers.
    pub also: Vec<String>,
    /// What kind of target it is.
    pub task: Task,
    /// What to do with missing values.
    pub missing: Missing,
    /// Columns to leave out.
    pub ignore: Vec<String>,
    /// Columns to take as inputs though they look like an index, an identifier or free text, which are left out.
    pub inputs: Vec<String>,
    /// Column of the rows' weights in the log-likelihood: 0 or more, and no input.
    pub weights: Option<String>,
}

impl EncodeOptions {
    /// Names of the columns to predict, in their order.
    pub fn target_names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.target).chain(&self.also).map(String::as_str)
    }
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
        table.column(&options.target)?;
        for name in options.ignore.iter().chain(&options.inputs).chain(&options.weights) {
            table.column(name)?;
        }
        let names: Vec<&str> = options.target_names().collect();
        if let Some(name) = names.iter().find(|n| options.ignore.iter().any(|i| i == *n)) {
            let what = format!("the target '{}' is also to be ignored", show(name));
            return Err(Error::setting(what, "choose another target, or do not ignore it"));
        }
        if let Some(name) = names.iter().enumerate().find(|(i, n)| names[..*i].contains(n)).map(|(_, n)| n) {
            let what = format!("the target '{}' is named twice", show(name));
            return Err(Error::setting(what, "name every target once"));
        }
        if names.len() > 1 && matches!(options.task, Task::Classification | Task::Count) {
            let what = if options.task == Task::Count { "counts" } else { "classes" };
            let what = format!("several targets must all be real numbers, and {what} are asked for");
            return Err(Error::setting(what, "predict every target on its own"));
        }
        let targets = names.iter().map(|n| Ok((*n, table.column(n)?))).collect::<Result<Vec<(&str, &Column)>>>()?;
        let mut warnings = table.notes().to_vec();
        if let Some(name) = options.weights.as_ref().filter(|w| names.contains(&w.as_str())) {
            let what = format!("the target '{}' is also to be the weight of its rows", show(name));
            return Err(Error::setting(what, "choose another column for the weights"));
        }
        let mut unused: Vec<String> = options.ignore.iter().chain(&options.weights).cloned().collect();
        let ignored: HashSet<&str> = options.ignore.iter().chain(&options.weights).map(String::as_str).collect();
        let mut features = Vec::new();
        let all_rows: Vec<usize> = (0..table.rows()).collect();
        let wanted: HashSet<&str> = options.inputs.iter().map(String::as_str).collect();
        for (place, (name, column)) in table.columns().enumerate() {
            if names.contains(&name) || ignored.contains(name) {
                continue;
            }
            if table.images().is_some() {
                unused.push(name.to_owned());
            } else if (0..column.len()).all(|r| column.is_missing(r)) {
                warnings.push(format!("column '{}' has no values and is left out", show(name)));
                unused.push(name.to_owned());
            } else if let Some(why) = no_input(name, place, column).filter(|_| {
                let declared = wanted.contains(name) || table.is_declared_text(name);
                !declared && dates::recognise(column, &all_rows).is_none()
            }) {
                warnings.push(format!("column '{}' {why}, and is left out", show(name)));
                unused.push(name.to_owned());
            } else {
                features.push((name, column));
            }
        }
        if matches!(options.missing, Missing::Error | Missing::Mean) {
            kept(table, &features, &targets, options.missing, &FITTING, &mut Vec::new())?;
        }
        // Before rows are left out: a column that varies is not to be lost because another is mostly empty, and one that does
        // not vary is not to cost a row.
        features.retain(|(name, values)| {
            let varies = varies(values, &targets, options.missing);
            if !varies {
                warnings.push(format!("column '{}' has the same value in every row and is left out", show(name)));
                unused.push((*name).to_owned());
            }
            varies
        });
        let rows = kept(table, &features, &targets, options.missing, &FITTING, &mut warnings)?;
        if rows.len() < FEWEST_ROWS {
            let left = if rows.len() < table.rows() { "complete " } else { "" };
            let what = format!("there are {} {left}rows and at least {FEWEST_ROWS} are needed", rows.len());
            return Err(table.locate(Error::data(what, "add rows")));
        }
        let mut fitted = Vec::with_capacity(features.len());
        let mut gaps = Vec::new();
        for (name, values) in &features {
            let missing = rows.iter().filter(|r| values.is_missing(**r)).count();
            let marked = missing > 0 && options.missing == Missing::Auto;
            if marked {
                gaps.push(format!("'{}' ({missing})", show(name)));
            }
            let found = feature_kind(table, name, values, &rows, &mut warnings)?;
            let indicated = marked && !matches!(found, Some(FeatureKind::OneHot { .. }));
            let kind = match found {
                Some(kind) => kind,
                None if indicated => {
                    let what = "has one value where it has any: whether it has is the input";
                    warnings.push(format!("column '{}' {what}", show(name)));
                    fitted.push(Feature { name: (*name).to_owned(), kind: FeatureKind::Indicator });
                    continue;
                }
                None if options.missing != Missing::Drop => {
                    warnings.push(format!("column '{}' has values that hardly repeat and is left out", show(name)));
                    unused.push((*name).to_owned());
                    continue;
                }
                None => {
                    warnings.push(fixed(name, &features, values, rows.len()));
                    let known: Vec<usize> = (0..table.rows()).filter(|&r| !values.is_missing(r)).collect();
                    let Some(kind) = feature_kind(table, name, values, &known, &mut warnings)? else {
                        unused.push((*name).to_owned());
                        continue;
                    };
                    kind
                }
            };
            fitted.push(Feature { name: (*name).to_owned(), kind });
            if indicated {
                fitted.push(Feature { name: (*name).to_owned(), kind: FeatureKind::Indicator });
            }
        }
        if !gaps.is_empty() {
            let more = if gaps.len() > 5 { ", …" } else { "" };
            let shown = gaps[..gaps.len().min(5)].join(", ");
            warnings.push(format!(
                "missing values in {shown}{more}: numbers take the column's mean and an input that marks them, categories a level of their own"
            ));
        }
        let mut all = Vec::with_capacity(targets.len());
        for (name, column) in &targets {
            let found = target_kind(table, name, column, &rows, options)
                .and_then(|kind| if targets.len() > 1 { real(kind) } else { Ok(kind) });
            let kind = found.map_err(|e| table.locate(e).in_column(&show(name)))?;
            if let (Column::Number(v), Task::Auto, TargetKind::Real(_)) = (column, options.task, &kind)
                && look_like_counts(rows.iter().map(|r| v[*r]))
            {
                warnings.push(format!(
                    "the target '{}' holds whole numbers from 0 and is taken as an amount; for counts choose the task 'count' (a Poisson likelihood)",
                    show(name)
                ));
            }
            all.push(Target { name: (*name).to_owned(), kind });
        }
        let target = all.remove(0);
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
        let encoder =
            Encoder { inputs, target, also: all, missing: options.missing, unused, weights: options.weights.clone() };
        Ok(Fitted { encoder, warnings, dropped_rows })
    }
}

/// Whether a column varies among the rows that may be learnt from. Where missing values are replaced, a missing text is a value too; where they are
/// marked, so is any missing value.
fn varies(column: &Column, targets: &[(&str, &Column)], missing: Missing) -> bool {
    let with_target = |r: usize| !targets.iter().any(|(_, t)| t.is_missing(r));
    let counts = |r: &usize| match missing {
        Missing::Auto => with_target(*r),
        Missing::Mean if matches!(column, Column::Text(_)) => true,
        Missing::Drop => !column.is_missing(*r) && with_target(*r),
        _ => !column.is_missing(*r),
    };
    let mut rows = (0..column.len()).filter(counts);
    let Some(first) = rows.next() else { return false };
    rows.any(|r| match column {
        Column::Number(v) => v[r] != v[first] && !(v[r].is_nan() && v[first].is_nan()),
        Column::Text(v) => v[r] != v[first],
        Column::Bool(v) => v[r] != v[first],
    })
}

/// A column that varies, but not in the rows that are left: what that means, and which column costs the others.
fn fixed(name: &str, features: &[(&str, &Column)], column: &Column, rows: usize) -> String {
    let lost = |other: &Column| (0..other.len()).filter(|&r| other.is_missing(r) && !column.is_missing(r)).count();
    let most = features.iter().filter(|(n, _)| *n != name).max_by_key(|(_, c)| lost(c)).filter(|(_, c)| lost(c) > 0);
    let why = most.map_or(String::new(), |(n, c)| {
        format!(": leave out column '{}', which is missing in {} of the others, to learn it", show(n), lost(c))
    });
    format!(
        "column '{}' has one value in the {rows} complete rows, so nothing is learnt of what else it does{why}",
        show(name)
    )
}

/// How to encode a column; none if it does not vary.
fn feature_kind(
    table: &Table,
    name: &str,
    column: &Column,
    rows: &[usize],
    warnings: &mut Vec<String>,
) -> Result<Option<FeatureKind>> {
    let words = holds_yes_and_no(column, rows);
    if let (Column::Text(cells), false) = (column, words) {
        let found = dates::recognise(column, rows).filter(|_| !table.is_declared_text(name));
        let Some((order, is_certain)) = found else { return Ok(categories(name, column, rows, warnings)) };
        let known = rows.iter().filter_map(|r| cells[*r].as_deref());
        let moments: Vec<f64> = known.filter_map(|cell| dates::moment(cell, order)).collect();
        if !is_certain {
            let order = if order == DateOrder::DayMonthYear { "day/month/year" } else { "month/day/year" };
            let what = "its days and months cannot be told apart";
            warnings.push(format!("column '{}' holds dates that are read as {order}: {what}", show(name)));
        }
        return Ok(DateParts::of(order, &moments).map(FeatureKind::Date));
    }
    let is_bool = words || matches!(column, Column::Bool(_));
    let value = |&r: &usize| number(column, r, is_bool).map_err(|e| e.at(table.place(r, name)));
    let values = rows.iter().map(value).collect::<Result<Vec<f64>>>()?;
    let scale = Scale::of(values.iter().copied().filter(|v| !v.is_nan()));
    Ok(scale.map(if is_bool { FeatureKind::Bool } else { FeatureKind::Standard }))
}

/// The categories of a text column, rare ones as one; none if there is only one.
fn categories(name: &str, column: &Column, rows: &[usize], warnings: &mut Vec<String>) -> Option<FeatureKind> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for &row in rows {
        *counts.entry(column.text(row).unwrap_or_else(|| MISSING.to_owned())).or_default() += 1;
    }
    let pooled = |count: usize, least: usize| count < least && rows.len() >= POOLED_FROM;
    let mut least = RARE;
    while counts.iter().filter(|(text, count)| *text == MISSING || !pooled(**count, least)).count() >= MOST_CATEGORIES {
        least += 1;
    }
    let before = counts.len();
    counts.retain(|text, count| text == MISSING || !pooled(*count, least));
    if counts.len() < before {
        warnings.push(format!(
            "column '{}': {} of {before} categories have fewer than {least} rows and share the level '{OTHER}'",
            show(name),
            before - counts.len()
        ));
        counts.insert(OTHER.to_owned(), 0);
    }
    (counts.len() > 1).then(|| FeatureKind::OneHot { categories: counts.into_keys().collect() })
}

/// One of several targets: they share a likelihood, which is one of real numbers.
fn real(kind: TargetKind) -> Result<TargetKind> {
    let holds = match kind {
        TargetKind::Real(_) => return Ok(kind),
        TargetKind::Count { .. } => "counts",
        TargetKind::Class { .. } => "classes",
    };
    let what = format!("several targets must all be real numbers, and this one holds {holds}");
    Err(Error::data(what, "predict it on its own"))
}

fn target_kind(
    table: &Table,
    name: &str,
    column: &Column,
    rows: &[usize],
    options: &EncodeOptions,
) -> Result<TargetKind> {
    let is_number = matches!(column, Column::Number(_));
    let task = match options.task {
        Task::Auto if is_number && table.images().is_none() => Task::Regression,
        Task::Auto if dates::recognise(column, rows).is_some() => Task::Regression,
        Task::Auto => Task::Classification,
        task => task,
    };
    if task == Task::Classification {
        return classes(column, rows);
    }
    if !is_number && dates::recognise(column, rows).is_some() {
        let fix = "give a number in its place, such as the days since a date, or choose another target";
        return Err(Error::data("the target holds dates, which cannot be predicted", fix));
    }
    if !is_number {
        let what = if matches!(column, Column::Text(_)) { "text" } else { "true and false" };
        let what = format!("the target holds {what}, not numbers");
        return Err(Error::data(what, "use ⟨task=classification⟩, or choose another target"));
    }
    let value = |r: &usize| {
        let fix = "correct the cell, or use ⟨task=regression⟩";
        let checked = number(column, *r, false).and_then(|v| if task == Task::Count { whole(v, fix) } else { Ok(v) });
        checked.map_err(|e| e.at(table.place(*r, name)))
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
        let fix = if kind == LabelKind::Number { "use ⟨task=regression⟩" } else { "choose another target" };
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
