//! The rows of an evaluation: all of them, or a mini-batch copied together.

use crate::Precision;
use crate::data::{Batch, BatchInputs, Dataset};
use crate::math::MatRef;
use std::sync::Arc;

/// Which rows an evaluation is over.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// All N.
    All,
    /// A mini-batch; its sum is scaled by N/|B|.
    Batch(&'a [u32]),
    /// A mini-batch of rows that a [`Source`](crate::data::Source) has read.
    Read(&'a Batch),
}

/// Inputs, targets and weights in one precision, with room for a mini-batch.
pub(super) struct RowData<R> {
    x: Arc<[R]>,
    y: Arc<[R]>,
    weights: Option<Arc<[R]>>,
    gathered: Gathered<R>,
    /// N, numbers per row in x, numbers per row in y.
    shape: (usize, usize, usize),
}

/// A mini-batch's rows, copied together.
struct Gathered<R> {
    x: Vec<R>,
    y: Vec<R>,
    weights: Vec<R>,
}

/// Rows as one evaluation sees them.
pub(super) struct View<'a, R> {
    pub x: MatRef<'a, R>,
    pub y: &'a [R],
    pub weights: Option<&'a [R]>,
    pub scale: f64,
}

impl<R: Precision> RowData<R> {
    /// Of a data set, for mini-batches of up to `max_rows` rows.
    pub fn new(data: &Dataset, max_rows: usize) -> RowData<R> {
        let gathered = if max_rows < data.rows { max_rows } else { 0 };
        let zeros = |n: usize| vec![R::ZERO; n];
        RowData {
            x: data.x.to::<R>(),
            y: data.y.iter().map(|v| R::of(*v)).collect(),
            weights: data.weights.as_ref().map(|w| w.iter().map(|v| R::of(*v)).collect()),
            gathered: Gathered {
                x: zeros(gathered * data.shape.len()),
                y: zeros(gathered * data.targets),
                weights: zeros(if data.weights.is_some() { gathered } else { 0 }),
            },
            shape: (data.rows, data.shape.len(), data.targets),
        }
    }

    /// The rows of an evaluation, side by side.
    pub fn view(&mut self, rows: Rows<'_>) -> View<'_, R> {
        let (all, width, targets) = self.shape;
        match rows {
            Rows::All => {
                View { x: MatRef::new(&self.x, all, width), y: &self.y, weights: self.weights.as_deref(), scale: 1.0 }
            }
            Rows::Batch(rows) => {
                let n = rows.len();
                let g = &mut self.gathered;
                gather(&self.x, rows, width, &mut g.x);
                gather(&self.y, rows, targets, &mut g.y);
                if let Some(weights) = &self.weights {
                    gather(weights, rows, 1, &mut g.weights);
                }
                View {
                    x: MatRef::new(&g.x[..n * width], n, width),
                    y: &g.y[..n * targets],
                    weights: self.weights.as_ref().map(|_| &g.weights[..n]),
                    scale: all as f64 / n as f64,
                }
            }
            Rows::Read(batch) => {
                let (n, g) = (batch.rows(), &mut self.gathered);
                match batch.x() {
                    BatchInputs::F32(x) => fill(x.iter().map(|v| f64::from(*v)), &mut g.x),
                    BatchInputs::F64(x) => fill(x.iter().copied(), &mut g.x),
                }
                fill(batch.y().iter().copied(), &mut g.y);
                let weights = batch.weights().map(|w| fill(w.iter().copied(), &mut g.weights));
                View {
                    x: MatRef::new(&g.x[..n * width], n, width),
                    y: &g.y[..n * targets],
                    weights: weights.map(|()| &g.weights[..n]),
                    scale: all as f64 / n as f64,
                }
            }
        }
    }
}

/// In this precision, as [`Values::to`](crate::data::Values::to) has it.
fn fill<R: Precision>(from: impl Iterator<Item = f64>, to: &mut Vec<R>) {
    to.clear();
    to.extend(from.map(R::of));
}

/// Copies rows together. The buffer is long enough but for a first batch of more rows than were announced.
fn gather<R: Precision>(from: &[R], rows: &[u32], width: usize, to: &mut Vec<R>) {
    if to.len() < rows.len() * width {
        to.resize(rows.len() * width, R::ZERO);
    }
    if width == 1 {
        for (to, &r) in to.iter_mut().zip(rows) {
            *to = from[r as usize];
        }
    } else {
        for (to, &r) in to.chunks_exact_mut(width.max(1)).zip(rows) {
            to.copy_from_slice(&from[r as usize * width..(r as usize + 1) * width]);
        }
    }
}
