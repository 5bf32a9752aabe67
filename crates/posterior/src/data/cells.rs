//! Single cells: as numbers, as labels, and missing ones.

use super::recognise::yes_or_no;
use super::schema::{LabelKind, Missing};
use super::table::{CORRECT, Column, Table, number_text, show, text_among_numbers};
use crate::error::{Error, Result};
use crate::nn::Shape;

/// Beyond this a number's square is at the edge of what a double holds.
const LARGEST: f64 = 1e150;

/// A cell as a number; NaN where it is missing. Where `is_bool`, true and false, yes and no, are 1 and 0, and nothing else will do.
pub(super) fn number(column: &Column, row: usize, is_bool: bool) -> Result<f64> {
    let bit = |b: bool| f64::from(u8::from(b));
    let value = match column {
        Column::Number(v) => v[row],
        Column::Text(v) => match v[row].as_deref().map(str::trim) {
            None => f64::NAN,
            Some(cell) => match cell.parse::<f64>() {
                _ if is_bool && yes_or_no(cell).is_some() => bit(yes_or_no(cell) == Some(true)),
                Ok(v) if v.is_finite() => v,
                _ if is_bool => return Err(not_bool(cell)),
                _ => return Err(text_among_numbers(cell, CORRECT)),
            },
        },
        Column::Bool(v) => match v[row] {
            None => f64::NAN,
            Some(b) if is_bool => bit(b),
            Some(b) => return Err(text_among_numbers(&b.to_string(), CORRECT)),
        },
    };
    if is_bool && !value.is_nan() && value != 0.0 && value != 1.0 {
        return Err(not_bool(&number_text(value)));
    }
    if value.abs() > LARGEST {
        let what = format!("the number {value:e} is too large");
        return Err(Error::data(what, "correct the cell, or give the column in another unit"));
    }
    Ok(value)
}

fn not_bool(cell: &str) -> Error {
    Error::data(format!("'{}' in a column of true and false", show(cell)), "correct the cell")
}

/// A number that must be a count; `fix` is what to do where it is none.
pub(super) fn whole(value: f64, fix: &str) -> Result<f64> {
    if value >= 0.0 && value.fract() == 0.0 && value <= 9_007_199_254_740_992.0 {
        return Ok(value);
    }
    let what = format!("{} is not a count", number_text(value));
    Err(Error::data(what, format!("counts are whole numbers from 0; {fix}")))
}

/// A cell as a class label, written as it was in training: 3.0 and "3" are one label where labels are numbers.
pub(super) fn label(column: &Column, row: usize, kind: LabelKind) -> String {
    let text = column.text(row).unwrap_or_default();
    match kind {
        LabelKind::Number => text.trim().parse().map_or(text, number_text),
        LabelKind::Bool => text.to_lowercase(),
        LabelKind::Text => text,
    }
}

/// What to do about a missing value: of an input, and of a target.
pub(super) struct MissingFix {
    pub(super) input: &'static str,
    pub(super) target: &'static str,
}

/// The rows to keep: all, under [`Missing::Auto`] those with a target, or under [`Missing::Drop`] those that are complete.
pub(super) fn kept(
    table: &Table,
    features: &[(&str, &Column)],
    targets: &[(&str, &Column)],
    policy: Missing,
    fix: &MissingFix,
    warnings: &mut Vec<String>,
) -> Result<Vec<usize>> {
    let all = 0..table.rows();
    let refused = |(name, column): (&str, &Column), fix: &str| match all.clone().find(|&r| column.is_missing(r)) {
        Some(row) => Err(Error::data("the value is missing", fix).at(table.place(row, name))),
        None => Ok(()),
    };
    if matches!(policy, Missing::Error | Missing::Mean) {
        if policy == Missing::Error {
            features.iter().try_for_each(|f| refused(*f, fix.input))?;
        }
        targets.iter().try_for_each(|t| refused(*t, fix.target))?;
        return Ok(all.collect());
    }
    let (needed, lack) = match policy {
        Missing::Auto => (&[][..], "without a target"),
        _ => (features, "with missing values"),
    };
    let complete = |r: &usize| !needed.iter().chain(targets).any(|(_, c)| c.is_missing(*r));
    let kept: Vec<usize> = all.clone().filter(complete).collect();
    match table.rows() - kept.len() {
        0 => {}
        1 => warnings.push(format!("1 row {lack} is left out")),
        n => warnings.push(format!("{n} rows {lack} are left out")),
    }
    Ok(kept)
}

/// The first five names, for messages.
pub(super) fn few(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(5).map(|n| show(n)).collect();
    format!("{}{}", shown.join(", "), if names.len() > 5 { ", …" } else { "" })
}

/// "1 × 28 × 28"
pub(super) fn size_text(shape: Shape) -> String {
    match shape {
        Shape::Flat(n) => format!("{n} numbers"),
        Shape::Image { channels, height, width } => format!("{channels} × {height} × {width}"),
    }
}
