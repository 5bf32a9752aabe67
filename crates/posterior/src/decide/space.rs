//! Where experiments may lie: numbers between bounds, whole numbers, categories.
//!
//! A point has one number a dimension: itself, or the number of its category. For a Gaussian process numbers lie in [0, 1] (in logarithms where asked), whole numbers are rounded
//! before that (Garrido-Merchán & Hernández-Lobato 2020), and a category is a one-hot code, so that two different ones are equally far apart.

use crate::data::{Column, Feature, FeatureKind, Inputs, Scale, Table};
use crate::error::{Error, Result};
use crate::rng::Stream;

/// One number a dimension, or the number of a category.
pub type Point = Vec<f64>;

/// What a dimension may be.
#[derive(Debug, Clone, PartialEq)]
pub enum Dimension {
    /// Any number between two.
    Real {
        /// The least.
        low: f64,
        /// The largest.
        high: f64,
        /// Whether ratios count, and not differences.
        log: bool,
    },
    /// Whole numbers from one to another.
    Integer {
        /// The least.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// One of several names.
    Category(Vec<String>),
}

/// Named dimensions.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    names: Vec<String>,
    dimensions: Vec<Dimension>,
}

impl Space {
    /// Checked: bounds in order, no category twice.
    pub fn new(dimensions: Vec<(String, Dimension)>) -> Result<Space> {
        if dimensions.is_empty() {
            return Err(Error::setting("a space has no dimension", "give one at least"));
        }
        for (name, dimension) in &dimensions {
            let wrong = |what: &str, fix: &str| Err(Error::setting(format!("'{name}' {what}"), fix));
            match dimension {
                Dimension::Real { low, high, log } => {
                    if !(low.is_finite() && high.is_finite() && low < high) {
                        return wrong("needs a lower bound below its upper bound", "give low and high");
                    }
                    if *log && *low <= 0.0 {
                        return wrong("is on a logarithmic scale, and its lower bound is not above 0", "raise it");
                    }
                }
                Dimension::Integer { low, high } => {
                    let whole = |v: f64| v.is_finite() && v == v.round() && v.abs() < 1e15;
                    if !(whole(*low) && whole(*high) && low <= high) {
                        return wrong("needs whole bounds in order", "give low and high as whole numbers");
                    }
                }
                Dimension::Category(values) => {
                    let twice = values.iter().enumerate().any(|(i, v)| values[..i].contains(v));
                    if values.is_empty() || twice {
                        return wrong("needs one value or more, none of them twice", "give its values");
                    }
                }
            }
        }
        let (names, dimensions) = dimensions.into_iter().unzip();
        Ok(Space { names, dimensions })
    }

    /// Names of the dimensions.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The dimensions.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Bounds and categories of the columns of tables: whole numbers where all are, else numbers. A column that never changes stays what it is.
    pub fn from_tables(tables: &[&Table], columns: &[String]) -> Result<Space> {
        let one = |name: &String| {
            let mut numbers: Vec<f64> = Vec::new();
            let mut names: Vec<String> = Vec::new();
            for table in tables {
                let column = table.column(name)?;
                for row in 0..table.rows() {
                    match column {
                        Column::Number(v) if v[row].is_finite() => numbers.push(v[row]),
                        Column::Number(_) => {}
                        other => names.extend(other.text(row)),
                    }
                }
            }
            if !names.is_empty() {
                names.extend(numbers.iter().map(|v| v.to_string()));
                names.sort();
                names.dedup();
                return Ok((name.clone(), Dimension::Category(names)));
            }
            let (low, high) =
                numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
            if !low.is_finite() {
                return Err(Error::data(
                    format!("the column '{name}' has no value"),
                    "give its range, or leave it out",
                ));
            }
            let whole = numbers.iter().all(|v| *v == v.round() && v.abs() < 1e15);
            let dimension = match whole || low == high {
                true if whole => Dimension::Integer { low, high },
                true => Dimension::Category(vec![low.to_string()]),
                false => Dimension::Real { low, high, log: false },
            };
            Ok((name.clone(), dimension))
        };
        Space::new(columns.iter().map(one).collect::<Result<_>>()?)
    }

    /// The point in a row of a table; none where a cell is empty. An error where it lies outside of the space and `inside` is asked.
    pub fn point(&self, table: &Table, row: usize, inside: bool) -> Result<Option<Point>> {
        let mut point = Vec::with_capacity(self.names.len());
        for (name, dimension) in self.names.iter().zip(&self.dimensions) {
            let column = table.column(name)?;
            if column.is_missing(row) {
                return Ok(None);
            }
            let wrong = |what: String, fix: &str| Err(Error::data(what, fix).at(table.place(row, name)));
            let value = match (dimension, column) {
                (Dimension::Category(values), column) => {
                    let text = column.text(row).unwrap_or_default();
                    match values.iter().position(|v| *v == text) {
                        Some(i) => i as f64,
                        None => {
                            return wrong(
                                format!("'{text}' is no value of '{name}' in the space"),
                                "add it to the space",
                            );
                        }
                    }
                }
                (_, Column::Number(v)) => v[row],
                _ => {
                    return wrong(
                        format!("'{name}' holds text, and the space says numbers"),
                        "give its values as categories",
                    );
                }
            };
            let bounds = match dimension {
                Dimension::Real { low, high, .. } | Dimension::Integer { low, high } => Some((*low, *high)),
                Dimension::Category(_) => None,
            };
            if let Some((low, high)) = bounds.filter(|(low, high)| inside && (value < *low || value > *high)) {
                return wrong(
                    format!("{value} lies outside of the range of '{name}', {low} to {high}"),
                    "widen the range, or leave the row out",
                );
            }
            point.push(value);
        }
        Ok(Some(point))
    }

    /// As text, dimension by dimension.
    pub fn text(&self, point: &[f64]) -> Vec<String> {
        let of = |(d, v): (&Dimension, &f64)| match d {
            Dimension::Category(values) => values[*v as usize].clone(),
            _ => v.to_string(),
        };
        self.dimensions.iter().zip(point).map(of).collect()
    }

    /// A table of points.
    pub fn table(&self, points: &[Point]) -> Result<Table> {
        let column = |(d, dimension): (usize, &Dimension)| {
            let column = match dimension {
                Dimension::Category(values) => {
                    Column::Text(points.iter().map(|p| Some(values[p[d] as usize].clone())).collect())
                }
                _ => Column::Number(points.iter().map(|p| p[d]).collect()),
            };
            (self.names[d].clone(), column)
        };
        Table::from_columns(self.dimensions.iter().enumerate().map(column).collect())
    }

    /// Numbers that a point is encoded by.
    pub fn width(&self) -> usize {
        let of = |d: &Dimension| if let Dimension::Category(v) = d { v.len() } else { 1 };
        self.dimensions.iter().map(of).sum()
    }

    /// The columns as a kernel takes them.
    pub(super) fn inputs(&self) -> Inputs {
        let feature = |(name, d): (&String, &Dimension)| Feature {
            name: name.clone(),
            kind: match d {
                Dimension::Category(values) => FeatureKind::OneHot { categories: values.clone() },
                _ => FeatureKind::Standard(Scale { mean: 0.0, std: 1.0 }),
            },
        };
        Inputs::Columns(self.names.iter().zip(&self.dimensions).map(feature).collect())
    }

    /// A number in [0, 1], with its whole numbers rounded; a category stays its number.
    pub(super) fn unit(&self, d: usize, value: f64) -> f64 {
        match &self.dimensions[d] {
            Dimension::Real { low, high, log: false } => (value - low) / (high - low),
            Dimension::Real { low, high, log: true } => (value / low).ln() / (high / low).ln(),
            Dimension::Integer { low, high } => (value.round() - low) / (high - low).max(1.0),
            Dimension::Category(_) => value,
        }
    }

    /// Back from [0, 1].
    pub(super) fn value(&self, d: usize, unit: f64) -> f64 {
        match &self.dimensions[d] {
            Dimension::Real { low, high, log: false } => (low + unit * (high - low)).clamp(*low, *high),
            Dimension::Real { low, high, log: true } => (low * (unit * (high / low).ln()).exp()).clamp(*low, *high),
            Dimension::Integer { low, high } => (low + unit * (high - low)).round().clamp(*low, *high),
            Dimension::Category(values) => unit.round().clamp(0.0, (values.len() - 1) as f64),
        }
    }

    /// What a Gaussian process sees of a point, into `out`.
    pub(super) fn encode(&self, point: &[f64], out: &mut Vec<f64>) {
        for (d, dimension) in self.dimensions.iter().enumerate() {
            match dimension {
                Dimension::Category(values) => {
                    out.extend((0..values.len()).map(|i| f64::from(u8::from(i == point[d] as usize))));
                }
                _ => out.push(self.unit(d, point[d])),
            }
        }
    }

    /// A point from a number in [0, 1) for every dimension.
    pub(super) fn at(&self, u: &[f64]) -> Point {
        let of = |(d, u): (usize, &f64)| match &self.dimensions[d] {
            Dimension::Category(values) => (u * values.len() as f64).floor().min((values.len() - 1) as f64),
            Dimension::Integer { low, high } => (low + (u * (high - low + 1.0)).floor()).min(*high),
            Dimension::Real { .. } => self.value(d, *u),
        };
        u.iter().enumerate().map(of).collect()
    }

    /// A point anywhere.
    pub(super) fn random(&self, stream: &mut Stream) -> Point {
        let u: Vec<f64> = self.dimensions.iter().map(|_| stream.uniform()).collect();
        self.at(&u)
    }

    /// How many points there are; none where there is a dimension of any number.
    pub fn points(&self) -> Option<f64> {
        let of = |d: &Dimension| match d {
            Dimension::Real { .. } => None,
            Dimension::Integer { low, high } => Some(high - low + 1.0),
            Dimension::Category(v) => Some(v.len() as f64),
        };
        self.dimensions.iter().map(of).product()
    }
}
