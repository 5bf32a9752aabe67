//! Arrays and columns of Python as tables of the library.
//!
//! A 2-D array of float32 or float64 is read where it stands, in either order, a block of rows at a time; so is a 4-D array of images (rows, channels, height,
//! width). Frames come as a list of columns, each a number array, or a list of texts or booleans with None where a value is missing.

use crate::error::to_python;
use numpy::ndarray::{ArrayView2, ArrayView4};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray4};
use posterior::data::{Column, Images, Table};
use posterior::nn::Shape;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::ops::Range;

enum Held<'py> {
    Wide(PyReadonlyArray2<'py, f64>),
    Narrow(PyReadonlyArray2<'py, f32>),
    Images(PyReadonlyArray4<'py, f32>),
    Columns(Vec<Column>),
}

/// Rows of inputs with the names of their columns.
pub struct Frame<'py> {
    names: Vec<String>,
    held: Held<'py>,
}

/// The same without the interpreter.
#[derive(Clone, Copy)]
pub enum View<'a> {
    Wide(&'a [String], ArrayView2<'a, f64>),
    Narrow(&'a [String], ArrayView2<'a, f32>),
    Images(ArrayView4<'a, f32>),
    Columns(&'a [String], &'a [Column]),
}

/// A column by its kind: `number`, `text` or `bool`.
pub fn column(kind: &str, values: &Bound<'_, PyAny>) -> PyResult<Column> {
    Ok(match kind {
        "number" => Column::Number(values.extract::<PyReadonlyArray1<'_, f64>>()?.as_array().to_vec()),
        "text" => Column::Text(values.extract()?),
        "bool" => Column::Bool(values.extract()?),
        other => return Err(PyTypeError::new_err(format!("there is no column of kind '{other}'"))),
    })
}

impl<'py> Frame<'py> {
    /// From an array, or a list of (kind, values).
    pub fn new(names: Vec<String>, x: &Bound<'py, PyAny>) -> PyResult<Frame<'py>> {
        let held = if let Ok(x) = x.extract() {
            Held::Wide(x)
        } else if let Ok(x) = x.extract() {
            Held::Narrow(x)
        } else if let Ok(x) = x.extract() {
            Held::Images(x)
        } else {
            let columns: Vec<(String, Bound<'py, PyAny>)> = x.extract()?;
            Held::Columns(columns.iter().map(|(kind, values)| column(kind, values)).collect::<PyResult<_>>()?)
        };
        Ok(Frame { names, held })
    }

    pub fn view(&self) -> View<'_> {
        match &self.held {
            Held::Wide(x) => View::Wide(&self.names, x.as_array()),
            Held::Narrow(x) => View::Narrow(&self.names, x.as_array()),
            Held::Images(x) => View::Images(x.as_array()),
            Held::Columns(columns) => View::Columns(&self.names, columns),
        }
    }

    /// All rows with a target.
    pub fn table(&self, target: (String, Column)) -> PyResult<Table> {
        let view = self.view();
        view.table(0..view.rows(), Some(target)).map_err(to_python)
    }
}

impl View<'_> {
    pub fn rows(&self) -> usize {
        match self {
            View::Wide(_, x) => x.nrows(),
            View::Narrow(_, x) => x.nrows(),
            View::Images(x) => x.shape()[0],
            View::Columns(_, columns) => columns.first().map_or(0, Column::len),
        }
    }

    /// Some rows that follow on each other, with a target of as many rows where there is one.
    pub fn table(&self, rows: Range<usize>, target: Option<(String, Column)>) -> posterior::Result<Table> {
        let named = |names: &[String], of: &dyn Fn(usize) -> Column| -> Vec<(String, Column)> {
            names.iter().enumerate().map(|(i, name)| (name.clone(), of(i))).collect()
        };
        let from = |i: usize| rows.start + i;
        let mut columns = match self {
            View::Wide(names, x) => {
                named(names, &|c| Column::Number((0..rows.len()).map(|i| x[[from(i), c]]).collect()))
            }
            View::Narrow(names, x) => {
                named(names, &|c| Column::Number((0..rows.len()).map(|i| f64::from(x[[from(i), c]])).collect()))
            }
            View::Columns(names, columns) => named(names, &|c| match &columns[c] {
                Column::Number(v) => Column::Number(v[rows.clone()].to_vec()),
                Column::Text(v) => Column::Text(v[rows.clone()].to_vec()),
                Column::Bool(v) => Column::Bool(v[rows.clone()].to_vec()),
            }),
            View::Images(x) => {
                let (_, channels, height, width) = x.dim();
                let part = x.slice(numpy::ndarray::s![rows.clone(), .., .., ..]);
                let shape = Shape::Image { channels, height, width };
                return Table::from_images(Images { shape, pixels: part.iter().copied().collect() }, target);
            }
        };
        columns.extend(target);
        Table::from_columns(columns)
    }
}
