//! What is in a table, what will be done with each of its columns, and what looks wrong, before anything is fitted.
//!
//! A leak is a column that equals the target, follows a straight line with it (|r| > 1 − 10⁻⁹), or has one target for every value though values repeat.
//! Cost: O(rows · columns), and a sort of each column of numbers where the target is a class.

use super::dates;
use super::encode::Encoder;
use super::fit::{EncodeOptions, Fitted};
use super::recognise::counts_rows;
use super::schema::{FeatureKind, Inputs, TargetKind};
use super::table::{Column, Table, number_text, show};
use crate::error::{Error, Result};
use serde::Serialize;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Fewest rows from which one column that tells the target looks like a leak.
const LEAKS_FROM: usize = 20;
/// Share of missing values from which a column is nearly empty.
const NEARLY_EMPTY: f64 = 0.95;
/// Numbers that often stand for a missing value.
const STAND_INS: [f64; 7] = [-9999.0, -999.0, -99.0, 999.0, 9999.0, 99999.0, 999_999.0];
/// A class with fewer rows than this is hardly learnt.
const FEW_OF_A_CLASS: usize = 10;

/// What is known of a table before a fit.
#[derive(Debug, Serialize)]
pub struct TableCheck {
    /// Rows of the table.
    pub rows: usize,
    /// Numbers that a row becomes; 0 where the table is refused.
    pub inputs: usize,
    /// Its columns, in order.
    pub columns: Vec<ColumnCheck>,
    /// What looks wrong.
    pub problems: Vec<String>,
    /// What a fit would say.
    pub notes: Vec<String>,
    /// Why a fit would refuse the table.
    #[serde(skip)]
    pub refusal: Option<Error>,
}

/// What is known of a column.
#[derive(Debug, Clone, Serialize)]
pub struct ColumnCheck {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub holds: String,
    /// Rows without a value.
    pub missing: usize,
    /// Different values.
    pub distinct: usize,
    /// What a fit makes of it.
    pub becomes: String,
}

impl TableCheck {
    /// Looks at a table as a fit with these options would.
    pub fn new(table: &Table, options: &EncodeOptions) -> Result<TableCheck> {
        let target = table.column(&options.target)?;
        let (fitted, refusal) = match Encoder::fit(table, options) {
            Ok(fitted) => (Some(fitted), None),
            Err(e) => (None, Some(e)),
        };
        let mut columns = Vec::new();
        let mut problems = Vec::new();
        let targets: HashSet<&str> = options.target_names().collect();
        for (name, column) in table.columns() {
            let distinct = distinct(column);
            let missing = (0..column.len()).filter(|r| column.is_missing(*r)).count();
            let becomes = becomes(name, fitted.as_ref(), options);
            let holds = holds(column, distinct);
            if targets.contains(name) {
                problems.extend(of_target(name, column, fitted.as_ref()));
            } else {
                // What is left out already needs no more said of it than why.
                let used = !becomes.starts_with("left out");
                problems.extend(of_column(name, column, missing, distinct, used));
                if used {
                    problems.extend(leak(name, column, &options.target, target, distinct));
                }
            }
            columns.push(ColumnCheck { name: name.to_owned(), holds, missing, distinct, becomes });
        }
        problems.extend(repeats(table));
        let inputs = fitted.as_ref().map_or(0, |f| f.encoder.input_shape().len());
        let notes = fitted.map_or_else(Vec::new, |f| f.warnings);
        Ok(TableCheck { rows: table.rows(), inputs, columns, problems, notes, refusal })
    }
}

fn distinct(column: &Column) -> usize {
    match column {
        Column::Number(v) => v.iter().filter(|v| !v.is_nan()).map(|v| v.to_bits()).collect::<HashSet<_>>().len(),
        Column::Text(v) => v.iter().flatten().collect::<HashSet<_>>().len(),
        Column::Bool(v) => v.iter().flatten().collect::<HashSet<_>>().len(),
    }
}

fn holds(column: &Column, distinct: usize) -> String {
    match column {
        _ if distinct == 0 => "nothing".to_owned(),
        Column::Bool(_) => "true and false".to_owned(),
        Column::Number(v) => {
            let known = || v.iter().copied().filter(|v| !v.is_nan());
            let kind = if known().all(|v| v.fract() == 0.0) { "whole numbers" } else { "numbers" };
            let (low, high) = known().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
            format!("{kind} from {} to {}", number_text(low), number_text(high))
        }
        Column::Text(_) if dates::recognise(column, &(0..column.len()).collect::<Vec<_>>()).is_some() => {
            "dates".to_owned()
        }
        Column::Text(_) => format!("text, {distinct} different"),
    }
}

fn becomes(name: &str, fitted: Option<&Fitted>, options: &EncodeOptions) -> String {
    let Some(fitted) = fitted else { return String::new() };
    let encoder = &fitted.encoder;
    if let Some(target) = encoder.targets().find(|t| t.name == name) {
        return match &target.kind {
            TargetKind::Real(_) => "the target: a real number".to_owned(),
            TargetKind::Count { .. } => "the target: a count".to_owned(),
            TargetKind::Class { names, .. } => format!("the target: {} classes", names.len()),
        };
    }
    if options.ignore.iter().any(|i| i == name) {
        return "left out as asked".to_owned();
    }
    let Inputs::Columns(features) = &encoder.inputs else { return String::new() };
    let parts: Vec<String> = features
        .iter()
        .filter(|f| f.name == name)
        .map(|f| match &f.kind {
            FeatureKind::Standard(_) => "a standardised number".to_owned(),
            FeatureKind::Bool(_) => "0 or 1, standardised".to_owned(),
            FeatureKind::OneHot { categories } => format!("{} inputs, one for each category", categories.len()),
            FeatureKind::Date(parts) => format!("{} inputs of a date", parts.width()),
            FeatureKind::Indicator => "a mark of missing values".to_owned(),
        })
        .collect();
    if parts.is_empty() { "left out".to_owned() } else { parts.join(", ") }
}

fn of_target(name: &str, column: &Column, fitted: Option<&Fitted>) -> Vec<String> {
    let mut told = Vec::new();
    let missing = (0..column.len()).filter(|r| column.is_missing(*r)).count();
    if missing > 0 {
        told.push(format!("the target '{}' is missing in {missing} rows", show(name)));
    }
    if let Some(TargetKind::Class { names, .. }) = fitted.map(|f| &f.encoder.target.kind) {
        let mut counts: HashMap<String, usize> = HashMap::new();
        (0..column.len()).filter_map(|r| column.text(r)).for_each(|t| *counts.entry(t).or_default() += 1);
        let few: Vec<&String> = names.iter().filter(|n| counts.get(*n).is_some_and(|c| *c < FEW_OF_A_CLASS)).collect();
        if let Some(first) = few.first() {
            told.push(format!(
                "{} of {} classes have fewer than {FEW_OF_A_CLASS} rows, such as '{}'",
                few.len(),
                names.len(),
                show(first)
            ));
        }
    }
    told
}

fn of_column(name: &str, column: &Column, missing: usize, distinct: usize, used: bool) -> Vec<String> {
    let (shown, rows) = (show(name), column.len());
    let mut told = Vec::new();
    if distinct == 1 && missing == 0 {
        told.push(format!("column '{shown}' has the same value in every row"));
    }
    if missing < rows && missing as f64 > NEARLY_EMPTY * rows as f64 {
        told.push(format!("column '{shown}' is nearly empty: {missing} of {rows} values are missing"));
    }
    if let Column::Number(values) = column {
        if used && rows >= LEAKS_FROM && counts_rows(values) {
            told.push(format!("column '{shown}' counts the rows: if it is an identifier, leave it out"));
        }
        for stand_in in STAND_INS {
            let is = |v: &f64| *v == stand_in;
            let (times, others) = (values.iter().filter(|v| is(v)).count(), values.iter().filter(|v| !is(v)));
            let beyond = others.fold(f64::NEG_INFINITY, |m, v| if stand_in < 0.0 { m.max(-v) } else { m.max(*v) });
            if times > 1 && stand_in.abs() > 2.0 * beyond.abs() {
                told.push(format!(
                    "column '{shown}' holds {} in {times} rows: if that stands for a missing value, leave those cells empty",
                    number_text(stand_in)
                ));
            }
        }
    }
    told
}

/// Whether a column tells the target by itself.
fn leak(name: &str, column: &Column, target_name: &str, target: &Column, distinct: usize) -> Option<String> {
    let rows: Vec<usize> = (0..column.len()).filter(|r| !column.is_missing(*r) && !target.is_missing(*r)).collect();
    if rows.len() < LEAKS_FROM || distinct < 2 {
        return None;
    }
    let told = |what: &str| {
        let fix = "leave it out unless it is known before the target is";
        Some(format!("column '{}' {what} '{}': {fix}", show(name), show(target_name)))
    };
    if rows.iter().all(|r| column.text(*r) == target.text(*r)) {
        return told("equals the target");
    }
    if let (Column::Number(x), Column::Number(y)) = (column, target) {
        let r = correlation(rows.iter().map(|r| (x[*r], y[*r])));
        if r.abs() > 1.0 - 1e-9 {
            return told("is a linear function of the target");
        }
    }
    if let (Column::Number(x), Column::Text(_) | Column::Bool(_)) = (column, target) {
        let mut order = rows.clone();
        order.sort_by(|a, b| x[*a].total_cmp(&x[*b]));
        let classes: HashSet<String> = rows.iter().filter_map(|r| target.text(*r)).collect();
        let changes = order.windows(2).filter(|w| target.text(w[0]) != target.text(w[1]));
        let (mut number, mut between) = (0, true);
        for w in changes {
            number += 1;
            between &= x[w[0]] < x[w[1]];
        }
        if between && classes.len() > 1 && number == classes.len() - 1 {
            return told("alone separates the classes of the target");
        }
    }
    // Values that repeat, each with one target.
    if 2 * distinct > rows.len() {
        return None;
    }
    let mut of: HashMap<String, String> = HashMap::new();
    for r in &rows {
        let (value, y) = (column.text(*r)?, target.text(*r)?);
        if of.entry(value).or_insert_with(|| y.clone()) != &y {
            return None;
        }
    }
    told("determines the target")
}

fn correlation(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let n = pairs.clone().count() as f64;
    let (sx, sy) = pairs.clone().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    let (mx, my) = (sx / n, sy / n);
    let (xx, yy, xy) = pairs.fold((0.0, 0.0, 0.0), |(a, b, c), (x, y)| {
        (a + (x - mx).powi(2), b + (y - my).powi(2), c + (x - mx) * (y - my))
    });
    if xx > 0.0 && yy > 0.0 { xy / (xx * yy).sqrt() } else { 0.0 }
}

/// Rows that stand in the table more than once.
fn repeats(table: &Table) -> Option<String> {
    let columns: Vec<&Column> = table.columns().map(|(_, c)| c).collect();
    if table.images().is_some() || columns.is_empty() {
        return None;
    }
    let same = |a: usize, b: usize| columns.iter().all(|c| c.text(a) == c.text(b));
    let mut first: HashMap<u64, usize> = HashMap::new();
    let (mut count, mut example) = (0, None);
    for row in 0..table.rows() {
        let mut hash = DefaultHasher::new();
        columns.iter().for_each(|c| c.text(row).hash(&mut hash));
        match first.entry(hash.finish()) {
            Entry::Occupied(before) if same(*before.get(), row) => {
                count += 1;
                example.get_or_insert((table.line(*before.get()), table.line(row)));
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(place) => {
                place.insert(row);
            }
        }
    }
    let (a, b) = example?;
    Some(format!(
        "{count} rows repeat others in every column, such as lines {a} and {b}: scores on rows held back will look better than they are"
    ))
}
