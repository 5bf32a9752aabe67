//! Layers one after another: what a network and a residual block have in common.

use super::dropout::Dropout;
use super::layer::{Layer, LayerSpace, Pass};
use super::layout::BlockSpec;
use super::leaf::Leaf;
use super::noisy::{Gradient, Weights};
use crate::Precision;
use crate::error::Result;
use crate::math::MatRef;
use crate::rng::Key;
use std::ops::Range;
use std::sync::Arc;

/// Layers whose shapes follow on each other, and where each one's parameters stand.
#[derive(Debug)]
pub(super) struct Chain {
    pub layers: Vec<Arc<dyn Layer>>,
    ranges: Vec<Range<usize>>,
}

impl Chain {
    pub fn new(layers: Vec<Arc<dyn Layer>>) -> Chain {
        let mut end = 0;
        let ranges = layers.iter().map(|layer| {
            let start = end;
            end += layer.blocks().iter().map(BlockSpec::len).sum::<usize>();
            start..end
        });
        Chain { ranges: ranges.collect(), layers }
    }

    /// The layers with dropout, by the layer's number, before each that has parameters.
    pub fn with_dropout(&self, rate: impl Fn(usize) -> f64) -> Result<Vec<Arc<dyn Layer>>> {
        let mut layers: Vec<Arc<dyn Layer>> = Vec::new();
        for (i, layer) in self.layers.iter().enumerate() {
            if let Some(inside) = layer.with_dropout(rate(i))? {
                layers.push(inside);
                continue;
            }
            if let Some(weights) = layer.blocks().first().filter(|_| rate(i) > 0.0) {
                // A convolution's weights meet channels, a dense layer's meet numbers, be it those of an image.
                let convolves = weights.shape.len() > 2;
                let make = if convolves { Dropout::of_units } else { Dropout::new };
                layers.push(Arc::new(make(layer.input(), rate(i))?));
            }
            layers.push(layer.clone());
        }
        Ok(layers)
    }

    /// The blocks of layer `i`, with its number in their path.
    pub fn blocks(&self, i: usize) -> Vec<BlockSpec> {
        let mut blocks = self.layers[i].blocks();
        blocks.iter_mut().for_each(|b| b.path.push(i.to_string()));
        blocks
    }

    pub fn space_numbers(&self, rows: usize) -> u128 {
        self.layers.iter().fold(0, |sum: u128, l| sum.saturating_add(l.space_numbers(rows)))
    }

    pub fn spaces<R: Precision>(&self, rows: usize) -> Vec<LayerSpace<R>> {
        self.layers.iter().map(|l| R::layer(&**l).space(rows)).collect()
    }

    /// The pass of layer `i`, with a number for keys that no other layer has, however deep.
    fn pass(pass: &Pass, i: usize) -> Pass {
        Pass { layer: Key::new(pass.layer).derive(i as u64).0[0], ..*pass }
    }

    /// What goes into layer `i`: the output of the one before it.
    fn input<'a, R: Precision>(&self, i: usize, x: MatRef<'a, R>, before: Option<&'a [R]>) -> MatRef<'a, R> {
        let width = self.layers[i].input().len();
        before.map_or(x, |out| MatRef::new(&out[..x.rows * width], x.rows, width))
    }

    pub fn forward<R: Precision>(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        spaces: &mut [LayerSpace<R>],
    ) {
        for (i, (layer, range)) in self.layers.iter().zip(&self.ranges).enumerate() {
            let (before, after) = spaces.split_at_mut(i);
            let input = self.input(i, x, before.last().map(|s| &*s.out));
            let (layer, pass, space) = (R::layer(&**layer), Chain::pass(pass, i), &mut after[0]);
            match w.slice(range.clone()) {
                Weights::Fixed(w) => layer.forward(w, input, &pass, space),
                Weights::Noisy(w) => layer.forward_noisy(w, input, &pass, space),
            }
        }
    }

    pub fn backward<R: Precision>(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        spaces: &mut [LayerSpace<R>],
        mut grad: Gradient<'_, R>,
        accumulate: bool,
        mut dx: Option<&mut [R]>,
    ) {
        for (i, (layer, range)) in self.layers.iter().zip(&self.ranges).enumerate().rev() {
            let (before, after) = spaces.split_at_mut(i);
            // The gradient in a layer's input is the gradient in the output of the one before it.
            let (out, d_input) = match before.last_mut() {
                Some(LayerSpace { out, delta, .. }) => (Some(&**out), Some(&mut delta[..x.rows * layer.input().len()])),
                None => (None, dx.take()),
            };
            let input = self.input(i, x, out);
            let (layer, pass, space) = (R::layer(&**layer), Chain::pass(pass, i), &mut after[0]);
            let grad = grad.slice(range.clone());
            match w.slice(range.clone()) {
                Weights::Fixed(w) => layer.backward(w, input, &pass, space, grad.centre, accumulate, d_input),
                Weights::Noisy(w) => layer.backward_noisy(w, input, &pass, space, grad, accumulate, d_input),
            }
        }
    }

    /// The gradient in every layer's pre-activations from the last layer down to layer `first`, without dL/dw; dL/dx of layer 0 into
    /// `dx`, if wanted.
    pub fn pull_back<R: Precision>(
        &self,
        w: &[R],
        x: MatRef<'_, R>,
        pass: &Pass,
        spaces: &mut [LayerSpace<R>],
        first: usize,
        mut dx: Option<&mut [R]>,
    ) {
        for (i, (layer, range)) in self.layers.iter().zip(&self.ranges).enumerate().skip(first).rev() {
            let (before, after) = spaces.split_at_mut(i);
            let (out, d_input) = match before.last_mut() {
                Some(LayerSpace { out, delta, .. }) => (Some(&**out), Some(&mut delta[..x.rows * layer.input().len()])),
                None => (None, dx.take()),
            };
            let input = self.input(i, x, out);
            let d_input = d_input.filter(|_| i > first || first == 0);
            R::layer(&**layer).pull_back(&w[range.clone()], input, &Chain::pass(pass, i), &mut after[0], d_input);
        }
    }

    pub fn leaf_inputs<R: Precision>(
        &self,
        x: MatRef<'_, R>,
        spaces: &[LayerSpace<R>],
        first: usize,
        visit: &mut dyn FnMut(&[R]),
    ) {
        for (i, layer) in self.layers.iter().enumerate().skip(first) {
            let before = i.checked_sub(1).map(|j| &*spaces[j].out);
            R::layer(&**layer).leaf_inputs(self.input(i, x, before), &spaces[i], visit);
        }
    }

    pub fn leaf_deltas<R: Precision>(
        &self,
        rows: usize,
        spaces: &[LayerSpace<R>],
        first: usize,
        visit: &mut dyn FnMut(&[R]),
    ) {
        for (layer, space) in self.layers.iter().zip(spaces).skip(first) {
            R::layer(&**layer).leaf_deltas(rows, space, visit);
        }
    }

    /// The layers' leaves, by their places within the chain and with the layer's number; or the description of the first layer
    /// that has parameters but no leaves.
    pub fn leaves(&self) -> std::result::Result<Vec<Leaf>, String> {
        let mut all = Vec::new();
        for (i, (layer, range)) in self.layers.iter().zip(&self.ranges).enumerate() {
            let own = layer.leaves().ok_or_else(|| layer.describe())?;
            all.extend(own.into_iter().map(|l| Leaf { start: l.start + range.start, layer: i, ..l }));
        }
        Ok(all)
    }
}
