//! Rows on demand: in memory, or read from where they are kept, a mini-batch at a time.
//!
//! A [`Source`] is all that mini-batch methods ask of data, so that these may be larger than memory. Methods that need every row at once ask for
//! [`Source::whole`] and refuse where there is none. Reading can fail, and so can a step's rows; the error says which row. Cost of a batch from a file: one
//! read for each run of neighbouring rows.

use super::dataset::{Dataset, Values};
use crate::error::{Error, Result};
use crate::nn::Shape;
use std::fmt::Debug;

/// Rows that can be asked for by number.
pub trait Source: Send + Sync + Debug {
    /// N.
    fn rows(&self) -> usize;

    /// Shape of one row's inputs.
    fn shape(&self) -> Shape;

    /// Outcomes per row.
    fn targets(&self) -> usize;

    /// Copies rows together: `into` is begun anew ([`Batch::begin`]) and filled row after row.
    fn gather(&self, rows: &[u32], into: &mut Batch) -> Result<()>;

    /// All rows, where they are in memory.
    fn whole(&self) -> Option<&Dataset>;
}

/// The rows of a mini-batch. Its buffers are used again.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    rows: usize,
    /// One of the two is filled.
    x32: Vec<f32>,
    x64: Vec<f64>,
    y: Vec<f64>,
    weights: Vec<f64>,
}

// Outside the tests, rows are read from disk by `NpyRows` alone.
#[cfg_attr(not(feature = "numpy"), allow(dead_code))]
impl Batch {
    /// No row.
    pub fn begin(&mut self) {
        self.rows = 0;
        self.x32.clear();
        self.x64.clear();
        self.y.clear();
        self.weights.clear();
    }

    /// One more row, in single precision; all rows of a batch are of one precision.
    pub fn push_f32(&mut self, x: &[f32], y: &[f64], weight: Option<f64>) {
        self.x32.extend_from_slice(x);
        self.push(y, weight);
    }

    /// One more row, in double precision.
    pub fn push_f64(&mut self, x: &[f64], y: &[f64], weight: Option<f64>) {
        self.x64.extend_from_slice(x);
        self.push(y, weight);
    }

    /// The inputs of one more row, whose outcomes follow by [`Batch::extend_y`].
    pub(super) fn extend_f32(&mut self, x: impl Iterator<Item = f32>) {
        self.x32.extend(x);
    }

    pub(super) fn extend_f64(&mut self, x: impl Iterator<Item = f64>) {
        self.x64.extend(x);
    }

    /// The outcomes of a row whose inputs are there.
    pub(super) fn extend_y(&mut self, y: impl Iterator<Item = f64>) {
        self.y.extend(y);
        self.rows += 1;
    }

    fn push(&mut self, y: &[f64], weight: Option<f64>) {
        self.y.extend_from_slice(y);
        self.weights.extend(weight);
        self.rows += 1;
    }

    /// How many rows it holds.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn x(&self) -> Inputs<'_> {
        if self.x32.is_empty() { Inputs::F64(&self.x64) } else { Inputs::F32(&self.x32) }
    }

    pub(crate) fn y(&self) -> &[f64] {
        &self.y
    }

    pub(crate) fn weights(&self) -> Option<&[f64]> {
        (!self.weights.is_empty()).then_some(&self.weights)
    }

    /// Whether it holds the rows that were asked for, as numbers.
    pub(crate) fn check(&self, asked: &[u32], width: usize, targets: usize, total: usize) -> Result<()> {
        let (x, weights) = (self.x32.len() + self.x64.len(), self.weights.len());
        let whole = self.rows == asked.len() && x == self.rows * width && self.y.len() == self.rows * targets;
        if !whole || (weights != 0 && weights != self.rows) || !(self.x32.is_empty() || self.x64.is_empty()) {
            let what = format!(
                "a batch of {} rows came with {} rows, {x} inputs, {} outcomes",
                asked.len(),
                self.rows,
                self.y.len()
            );
            return Err(Error::data(what, "make the source fill in every row that it is asked for"));
        }
        let bad_x =
            self.x32.iter().position(|v| !v.is_finite()).or_else(|| self.x64.iter().position(|v| !v.is_finite()));
        let bad_y = self.y.iter().position(|v| !v.is_finite());
        let bad_weight = self.weights.iter().position(|v| !v.is_finite() || *v < 0.0);
        let at = bad_x.map(|i| (i / width.max(1), "an input")).or(bad_y.map(|i| (i / targets.max(1), "an outcome")));
        match at.or(bad_weight.map(|i| (i, "the weight"))) {
            None => Ok(()),
            Some((row, what)) => {
                let what = format!("{what} of row {} of {total} is not a finite number", u64::from(asked[row]) + 1);
                Err(Error::data(what, "correct it, or leave the row out"))
            }
        }
    }
}

/// The inputs of a batch as they came.
pub(crate) enum Inputs<'b> {
    F32(&'b [f32]),
    F64(&'b [f64]),
}

impl Source for Dataset {
    fn rows(&self) -> usize {
        self.rows
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn targets(&self) -> usize {
        self.targets
    }

    fn gather(&self, rows: &[u32], into: &mut Batch) -> Result<()> {
        into.begin();
        let (width, targets) = (self.shape.len(), self.targets);
        for &row in rows {
            let row = row as usize;
            if row >= self.rows {
                let what = format!("row {row} was asked for, and there are {}", self.rows);
                return Err(Error::data(what, "ask for rows from 0 to one less than that"));
            }
            let (y, weight) = (&self.y[row * targets..(row + 1) * targets], self.weights.as_ref().map(|w| w[row]));
            let at = row * width..(row + 1) * width;
            match &self.x {
                Values::F32(x) => into.push_f32(&x[at], y, weight),
                Values::F64(x) => into.push_f64(&x[at], y, weight),
            }
        }
        Ok(())
    }

    fn whole(&self) -> Option<&Dataset> {
        Some(self)
    }
}
