//! Embedding: an index becomes a vector, z = W[c] for each of n indices c of a row; W of categories × size is shared by them.
//!
//! It is an affine map without bias whose input is one-hot, and the one-hot vector is never written out in a pass: forward gathers rows of W,
//! dL/dW[c] adds up what came back for c. An index is not differentiable, so dL/dx = 0. What is no index (negative, a fraction, too large,
//! NaN) is a category that was never seen: all of its one-hot vector is 0, and so is z. Row noise as in `noisy`, with x one-hot: local adds √V[c] ⊙ ζ,
//! exactly for one index a row; flipout adds s_c Δ[c] ⊙ r with signs s, r of the row, exactly for any number. Cost: one copy per number.

use super::activation::Activation;
use super::affine::{Affine, AffineBlock, AffineKind, AffineOps};
use super::layout::{BlockSpec, Role};
use super::mask::sign;
use super::node::{NodeSpace, Pass, Shape};
use super::noisy::{Gradient, Noisy, RowNoise, Weights, fill_factor, grow, local_one, noise_key};
use crate::error::{Error, Result};
use crate::math::elementwise::axpy;
use crate::math::{MatRef, Real};
use crate::rng::Normals;
use std::ops::Range;

/// Vectors of categories.
#[derive(Debug, Clone)]
pub struct Embedding {
    indices: usize,
    categories: usize,
    size: usize,
}

/// Weights of an embedding, at most: an index in f32 is exact up to 2²⁴.
const MOST_CATEGORIES: usize = 1 << 24;
const MOST_WEIGHTS: usize = 1 << 32;

/// Calls `f` with the place in a table of vectors and the place of the output, for every index that is a category.
#[inline(always)]
fn each<R: Real>(x: &[R], table: usize, size: usize, mut f: impl FnMut(Range<usize>, Range<usize>)) {
    for (i, x) in x.iter().enumerate() {
        if let Some(c) = category(x.f64(), table / size) {
            f(c * size..(c + 1) * size, i * size..(i + 1) * size);
        }
    }
}

/// What is no index is a category that was never seen.
#[inline(always)]
fn category(x: f64, categories: usize) -> Option<usize> {
    (x >= 0.0 && x.fract() == 0.0 && x < categories as f64).then_some(x as usize)
}

/// The vectors of the categories; 0 for what is none.
pub(super) fn gather<R: Real>(table: &[R], x: &[R], size: usize, out: &mut [R]) {
    out.fill(R::ZERO);
    each(x, table.len(), size, |from, to| out[to].copy_from_slice(&table[from]));
}

/// The transpose of `gather`, added.
pub(super) fn scatter<R: Real>(x: &[R], delta: &[R], size: usize, table: &mut [R]) {
    each(x, table.len(), size, |to, from| axpy(R::ONE, &delta[from], &mut table[to]));
}

impl Embedding {
    /// Every number of a flat row is the index of one of `categories`, and becomes `size` numbers.
    pub fn new(input: Shape, categories: usize, size: usize) -> Result<Embedding> {
        let Shape::Flat(indices) = input else {
            let what = format!("an embedding needs a row of indices, and got {input}");
            return Err(Error::setting(what, "select the columns that hold categories"));
        };
        let weights = categories.checked_mul(size).filter(|n| *n <= MOST_WEIGHTS);
        let outputs = indices.checked_mul(size).filter(|n| *n <= MOST_WEIGHTS);
        let fits = (1..=MOST_CATEGORIES).contains(&categories) && size > 0 && indices > 0;
        if !fits || weights.is_none() || outputs.is_none() {
            return Err(Error::setting(
                format!("an embedding of {categories} categories of {indices} columns in {size} numbers cannot be"),
                format!("choose from 1 to {MOST_CATEGORIES} categories and a size of 1 or more"),
            ));
        }
        Ok(Embedding { indices, categories, size })
    }

    /// Adds the noise to z and leaves dz/d(spread) of every number in `factor`.
    fn add_noise<R: Normals>(&self, w: Noisy<'_, R>, x: MatRef<'_, R>, pass: &Pass, z: &mut [R], factor: &mut [R]) {
        let (key, width) = (noise_key(pass.mode, pass.layer), self.indices * self.size);
        match (w.noise, key) {
            (_, None) => factor.fill(R::ZERO),
            (RowNoise::Local, key) => {
                fill_factor(w.noise, key, pass.first_row, width, factor);
                each(x.data, w.spread.len(), self.size, |from, at| {
                    let each = z[at.clone()].iter_mut().zip(&w.spread[from]).zip(&mut factor[at]);
                    each.for_each(|((z, v), factor)| local_one(z, *v, factor));
                });
            }
            (RowNoise::Flipout, Some(key)) => each(x.data, w.spread.len(), self.size, |from, at| {
                let key = key.derive(pass.first_row + (at.start / width) as u64);
                let (own, outer): (R, _) = (sign(key, (from.start / self.size) as u32), key.derive(1));
                let spread = &w.spread[from];
                for (j, i) in at.enumerate() {
                    factor[i] = own * sign(outer, j as u32);
                    z[i] += factor[i] * spread[j];
                }
            }),
        }
    }
}

impl<R: Normals> AffineOps<R> for Embedding {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        let scratch = vec![Vec::new(); 2];
        NodeSpace { scratch, ..NodeSpace::with_output(rows * self.indices * self.size) }
    }

    fn forward(&self, w: Weights<'_, R>, x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>) {
        let n = x.data.len() * self.size;
        gather(w.centre(), x.data, self.size, &mut space.out[..n]);
        if let Weights::Noisy(w) = w {
            let [factor, product] = &mut space.scratch[..] else { unreachable!("two buffers were made") };
            grow(factor, n);
            grow(product, n);
            self.add_noise(w, x, pass, &mut space.out[..n], &mut factor[..n]);
        }
    }

    fn backward(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        _pass: &Pass,
        space: &mut NodeSpace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        let n = x.data.len() * self.size;
        if !accumulate {
            grad.centre.fill(R::ZERO);
            grad.spread.fill(R::ZERO);
        }
        scatter(x.data, &space.delta[..n], self.size, grad.centre);
        if let Weights::Noisy(_) = w {
            let [factor, product] = &mut space.scratch[..] else { unreachable!("two buffers were made") };
            for i in 0..n {
                product[i] = space.delta[i] * factor[i];
            }
            scatter(x.data, product, self.size, grad.spread);
        }
        dx.into_iter().for_each(|dx| dx.fill(R::ZERO));
    }

    fn vjp(&self, _w: &[R], _x: MatRef<'_, R>, _pass: &Pass, _space: &mut NodeSpace<R>, dx: Option<&mut [R]>) {
        dx.into_iter().for_each(|dx| dx.fill(R::ZERO));
    }

    /// Here alone the one-hot vectors are written out.
    fn block_inputs(&self, x: MatRef<'_, R>, visit: &mut dyn FnMut(&[R])) {
        let mut hot = vec![R::ZERO; x.data.len() * self.categories];
        for (x, hot) in x.data.iter().zip(hot.chunks_exact_mut(self.categories)) {
            category(x.f64(), self.categories).into_iter().for_each(|c| hot[c] = R::ONE);
        }
        visit(&hot);
    }

    fn block_deltas(&self, rows: usize, space: &NodeSpace<R>, visit: &mut dyn FnMut(&[R])) {
        visit(&space.delta[..rows * self.indices * self.size]);
    }
}

impl Affine for Embedding {
    fn describe(&self) -> String {
        format!("embedding {} of {}", self.size, self.categories)
    }
    fn input(&self) -> Shape {
        Shape::Flat(self.indices)
    }
    fn output(&self) -> Shape {
        Shape::Flat(self.indices * self.size)
    }
    /// One input counts at a time: the fan-in is 1, whatever the number of categories.
    fn parameters(&self) -> Vec<BlockSpec> {
        vec![BlockSpec::new("weight", vec![self.categories, self.size], Role::Weight, 1)]
    }
    fn block(&self) -> AffineBlock {
        AffineBlock {
            kind: AffineKind::Embedding,
            start: 0,
            inputs: self.categories,
            units: self.size,
            positions: self.indices,
            bias: false,
            transposed: false,
            activation: Activation::Identity,
            layer: 0,
        }
    }
}
