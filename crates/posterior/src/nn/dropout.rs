//! Dropout: every number is set to 0 with probability p, and the others grow so that the mean stays.
//!
//! out = x·m/(1 − p), m ~ Bernoulli(1 − p) (Srivastava et al. 2014; one mask per draw as in Gal & Ghahramani 2016). A bit of the
//! mask is a hash of (key, layer, row, position), so it depends on neither chunks nor threads. Cost: about two
//! multiplications of 32-bit words a number and round of the hash, in SIMD; backward reads the mask kept by forward.

use super::mask::{hash, threshold};
use super::node::{Mode, Node, NodeOps, NodeSpace, Pass, Shape};
use crate::error::{Error, Result};
use crate::math::{MatRef, Real};
use crate::rng::Key;
use crate::simd_fn;

/// Sets numbers to 0 at random while training and in a draw; passes them on unchanged in [`Mode::Plain`].
#[derive(Debug, Clone)]
pub struct Dropout {
    shape: Shape,
    rate: f64,
    /// Numbers that are kept or dropped together.
    unit: usize,
}

impl Dropout {
    /// `rate` is the probability of a number to be dropped: 0 ≤ rate < 1.
    pub fn new(shape: Shape, rate: f64) -> Result<Dropout> {
        if !(0.0..1.0).contains(&rate) {
            return Err(Error::setting(
                format!("a dropout rate of {rate} is not a probability below 1"),
                "choose a number from 0 up to, but not including, 1",
            ));
        }
        Ok(Dropout { shape, rate, unit: 1 })
    }

    /// Drops runs of `unit` numbers as wholes, such as the channels of an image.
    pub fn of_units(shape: Shape, rate: f64, unit: usize) -> Result<Dropout> {
        Ok(Dropout { unit: unit.max(1), ..Dropout::new(shape, rate)? })
    }

    /// Probability of a number to be dropped.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The mask of one row.
    fn fill_mask(&self, key: Key, mask: &mut [u8]) {
        if self.unit == 1 {
            return fill_mask(key, threshold(self.rate), mask);
        }
        for (u, unit) in mask.chunks_mut(self.unit).enumerate() {
            unit.fill(u8::from(hash(key, u as u32) >= threshold(self.rate)));
        }
    }
}

simd_fn! {
    /// 1 where a number is kept, 0 where it is dropped.
    fn fill_mask(key: Key, threshold: u32, mask: &mut [u8]) {
        for (i, m) in mask.iter_mut().enumerate() {
            *m = (hash(key, i as u32) >= threshold) as u8;
        }
    }
}

simd_fn! {
    fn apply<R>(mask: &[u8], scale: R, x: &[R], out: &mut [R]) {
        let (mask, x) = (&mask[..out.len()], &x[..out.len()]);
        for i in 0..out.len() {
            out[i] = if mask[i] != 0 { x[i] * scale } else { R::ZERO };
        }
    }
}

impl Dropout {
    /// out ← mask · x / (1 − p), row by row; in a draw all rows share the first mask.
    fn masked<R: Real>(&self, mode: Mode, mask: &[u8], x: &[R], out: &mut [R]) {
        let cols = self.shape.len();
        let scale = R::of(1.0 / (1.0 - self.rate));
        match mode {
            Mode::Plain => out.copy_from_slice(x),
            Mode::Train(_) => apply(mask, scale, x, out),
            Mode::Draw(_) => {
                for (x, out) in x.chunks_exact(cols.max(1)).zip(out.chunks_exact_mut(cols.max(1))) {
                    apply(mask, scale, x, out);
                }
            }
        }
    }
}

impl<R: Real> NodeOps<R> for Dropout {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        let n = rows * self.shape.len();
        NodeSpace { out: vec![R::ZERO; n], delta: vec![R::ZERO; n], index: vec![0; n], ..NodeSpace::default() }
    }

    fn forward(&self, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>) {
        let x = x[0];
        let (n, cols) = (x.data.len(), self.shape.len());
        let mask = &mut space.index[..n];
        match pass.mode {
            Mode::Plain => {}
            Mode::Train(key) => {
                for (row, mask) in mask.chunks_exact_mut(cols.max(1)).enumerate() {
                    let key = key.derive(pass.layer).derive(pass.first_row + row as u64);
                    self.fill_mask(key, mask);
                }
            }
            Mode::Draw(key) => self.fill_mask(key.derive(pass.layer), &mut mask[..cols.min(n)]),
        }
        self.masked(pass.mode, mask, x.data, &mut space.out[..n]);
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let x = x[0];
        let n = x.data.len();
        self.masked(pass.mode, &space.index[..n], &space.delta[..n], &mut dx[..n]);
    }
}

impl Node for Dropout {
    fn describe(&self) -> String {
        match self.unit {
            1 => format!("dropout {}", self.rate),
            n => format!("dropout {} of units of {n}", self.rate),
        }
    }
    fn inputs(&self) -> Vec<Shape> {
        vec![self.shape]
    }
    fn output(&self) -> Shape {
        self.shape
    }
    fn is_random(&self) -> bool {
        true
    }
}
