//! Dropout read as a posterior: every input unit of a layer is there or not (Gal & Ghahramani 2016).
//!
//! q(w) = Π_units [π δ(0) + (1 − π) δ(θ/(1 − π))]: a draw sets the weights that meet a dropped unit to 0 and lets the others grow,
//! so that θ is the mean. A unit is one input of a dense layer or one input channel of a convolution. Dropout layers that the network has itself
//! stay active, with one mask for all rows: a draw is a function.

use super::{Draw, Form, Posterior, Tensor, take};
use crate::error::{Error, Result};
use crate::nn::mask::{hash, threshold};
use crate::nn::{AnyNetwork, Mode};
use crate::rng::Key;

/// Weights `start + (o·units + u)·inner + i` meet unit `u`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DropoutBlock {
    pub start: usize,
    pub outer: usize,
    pub units: usize,
    pub inner: usize,
    pub rate: f64,
}

impl DropoutBlock {
    fn len(&self) -> Option<usize> {
        self.outer.checked_mul(self.units)?.checked_mul(self.inner)
    }

    /// Multiplies the weights of every unit by 0 or 1/(1 − π).
    fn apply(&self, key: Key, w: &mut [f32]) {
        let (least, scale) = (threshold(self.rate), (1.0 / (1.0 - self.rate)) as f32);
        let run = self.inner;
        for (r, part) in w[self.start..][..self.outer * self.units * run].chunks_exact_mut(run.max(1)).enumerate() {
            let factor = if hash(key, (r % self.units) as u32) >= least { scale } else { 0.0 };
            part.iter_mut().for_each(|w| *w *= factor);
        }
    }
}

/// The weights of a network by the input units they meet, with a rate for the first layer that has weights and one for the others.
pub(crate) fn dropout_blocks(network: &dyn AnyNetwork, input_rate: f64, rate: f64) -> Vec<DropoutBlock> {
    let affines = network.affine_blocks();
    let first = affines.first().map_or(0, |b| b.layer);
    affines
        .iter()
        .map(|b| {
            let (outer, units, inner) = b.input_units();
            DropoutBlock { start: b.start, outer, units, inner, rate: if b.layer == first { input_rate } else { rate } }
        })
        .filter(|b| b.rate > 0.0)
        .collect()
}

/// Multiplies weights by the mask of a key: each block has a key of its own.
pub(crate) fn drop_units(blocks: &[DropoutBlock], key: Key, w: &mut [f32]) {
    for (i, block) in blocks.iter().enumerate() {
        block.apply(key.derive(i as u64), w);
    }
}

/// What MC dropout gives.
#[derive(Debug, Clone, PartialEq)]
pub struct DropoutPosterior {
    mean: Vec<f32>,
    blocks: Vec<DropoutBlock>,
}

/// Indices are stored in two parts: a 32-bit float is exact up to 2²⁴.
const HALF: usize = 1 << 20;

impl DropoutPosterior {
    pub(crate) fn new(mean: Vec<f32>, blocks: Vec<DropoutBlock>) -> Self {
        DropoutPosterior { mean, blocks }
    }

    /// θ
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    pub(super) fn restore(
        dim: usize,
        _: Option<f64>,
        tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<Box<dyn Posterior>> {
        let damaged = |what: &str| Error::setting(what, "the file is damaged: fit the model again");
        let table = tensors("dropout").ok_or_else(|| damaged("the tensor 'dropout' is missing"))?;
        let whole = |v: f32| (v >= 0.0 && v.fract() == 0.0 && v < 16_777_216.0).then_some(v as usize);
        let mut blocks = Vec::new();
        for row in table.chunks(6) {
            let block = match row {
                [high, low, outer, units, inner, rate] if (0.0..1.0).contains(rate) => {
                    let start = whole(*high).zip(whole(*low)).map(|(h, l)| h * HALF + l);
                    let sizes = whole(*outer).zip(whole(*units)).zip(whole(*inner));
                    start.zip(sizes).map(|(start, ((outer, units), inner))| DropoutBlock {
                        start,
                        outer,
                        units,
                        inner,
                        rate: f64::from(*rate),
                    })
                }
                _ => None,
            };
            let fits = |b: &DropoutBlock| b.len().and_then(|n| n.checked_add(b.start)).is_some_and(|end| end <= dim);
            blocks.push(block.filter(fits).ok_or_else(|| damaged("a row of the tensor 'dropout' makes no sense"))?);
        }
        Ok(Box::new(DropoutPosterior { mean: take("mean", dim, tensors)?, blocks }))
    }
}

impl Posterior for DropoutPosterior {
    fn kind(&self) -> &'static str {
        "dropout"
    }
    fn dim(&self) -> usize {
        self.mean.len()
    }
    fn form(&self) -> Form<'_> {
        Form::Dropout(self)
    }
    fn draw_into(&self, key: Key, draw: &mut Draw) {
        draw.w.copy_from_slice(&self.mean);
        drop_units(&self.blocks, key.derive(0), &mut draw.w);
        draw.mode = Mode::Draw(key.derive(1));
    }
    /// None: q is a sum of point masses.
    fn log_density(&self, _w: &[f32]) -> Option<f64> {
        None
    }
    fn tensors(&self) -> Vec<Tensor> {
        let rows = self.blocks.iter().flat_map(|b| {
            let sizes = [b.start / HALF, b.start % HALF, b.outer, b.units, b.inner].map(|v| v as f32);
            sizes.into_iter().chain([b.rate as f32])
        });
        let table: Vec<f32> = rows.collect();
        vec![
            Tensor { name: "mean".into(), shape: vec![self.mean.len()], data: self.mean.clone() },
            Tensor { name: "dropout".into(), shape: vec![table.len() / 6, 6], data: table },
        ]
    }
    fn log_evidence(&self) -> Option<f64> {
        None
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}
