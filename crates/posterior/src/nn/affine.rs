//! The one primitive that holds weights: an affine map applied at positions.
//!
//! z = x̃ W̃ at each of `positions`, with x̃ = (x, 1) and W̃ of (inputs + 1) × units whose last row is the bias: a dense layer has one
//! position, a convolution one for every place of its kernel (x is a patch), an embedding one for every index (x is one-hot and never
//! written out in a pass). Hence df/dW̃ = Σ_positions x̃ (df/dz)ᵀ, and everything about weights is written for [`AffineBlock`]: curvature,
//! linearised predictions, moments, dropout of units, import of foreign weights. No method has a default: a node with
//! weights that lacks row noise or factors does not compile.

use super::activation::Activation;
use super::layout::BlockSpec;
use super::node::{NodeSpace, Pass, Shape};
use super::noisy::{Gradient, Weights};
use crate::math::{MatRef, Real};
use crate::memory::product;
use std::fmt::Debug;

/// What the positions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AffineKind {
    /// One position: the whole row.
    Dense,
    /// Places of a kernel of so many `taps` on images of so many `pixels` a channel.
    Convolution {
        /// Numbers of a kernel for one channel.
        taps: usize,
        /// Numbers of one channel of the image that goes in.
        pixels: usize,
    },
    /// One position for every index of the row; the inputs are the categories.
    Embedding,
}

/// The parameters of one affine map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AffineBlock {
    /// What the positions are.
    pub kind: AffineKind,
    /// Where they begin in w.
    pub start: usize,
    /// Numbers that add up in one output, without the bias.
    pub inputs: usize,
    /// Outputs of a position.
    pub units: usize,
    /// Positions that share the weights.
    pub positions: usize,
    /// Whether there is a bias for every unit, behind the weights in w.
    pub bias: bool,
    /// Whether w holds the weights unit after unit (a convolution) rather than input after input.
    pub transposed: bool,
    /// What z goes through.
    pub activation: Activation,
    /// Number of the layer within the network, from 0.
    pub layer: usize,
}

impl AffineBlock {
    /// Rows of W̃: the inputs, and one for the bias where there is one.
    pub fn rows(&self) -> usize {
        self.inputs + usize::from(self.bias)
    }

    /// How many weights, without the biases.
    pub fn weights(&self) -> usize {
        self.inputs * self.units
    }

    /// How many parameters.
    pub fn len(&self) -> usize {
        self.rows() * self.units
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where W̃[input, unit] stands in w; the bias is input number `inputs`.
    pub fn index(&self, input: usize, unit: usize) -> usize {
        let at = match self.transposed && input < self.inputs {
            true => unit * self.inputs + input,
            false => input * self.units + unit,
        };
        self.start + at
    }

    /// The weights as `(outer, units, inner)`: those at `start + (o·units + u)·inner + i` meet input unit `u`, which is a number of a dense layer's
    /// input, a channel of a convolution's, a category of an embedding's.
    pub fn input_units(&self) -> (usize, usize, usize) {
        let taps = match self.kind {
            AffineKind::Dense | AffineKind::Embedding => 1,
            AffineKind::Convolution { taps, .. } => taps.max(1),
        };
        if self.transposed {
            (self.units, self.inputs / taps, taps)
        } else {
            (1, self.inputs / taps, taps * self.units)
        }
    }
}

/// The arithmetic of an affine map in one precision.
pub trait AffineOps<R: Real>: Send + Sync {
    /// Buffers for up to `rows` rows.
    fn space(&self, rows: usize) -> NodeSpace<R>;

    /// `space.out[..x.rows · output]` ← φ(x̃ W̃), under weights that all rows share or a draw for every row. `w` is the map's own parameters.
    fn forward(&self, w: Weights<'_, R>, x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>);

    /// With `space.delta` = dL/d(out) and `space.out`, scratch as forward under the same weights left them: dL/dw into `grad` (added when
    /// `accumulate`, else overwritten) and, if wanted, dL/dx into `dx` (overwritten).
    fn backward(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut NodeSpace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    );

    /// As `backward` under fixed weights, without dL/dw: leaves dL/dz in `space`, for [`AffineOps::block_deltas`], and writes dL/dx if wanted.
    fn vjp(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>, dx: Option<&mut [R]>);

    /// What the weights multiply, `(rows · positions) × inputs`.
    fn block_inputs(&self, x: MatRef<'_, R>, visit: &mut dyn FnMut(&[R]));

    /// After `vjp` over `rows` rows: dL/dz, `(rows · positions) × units`.
    fn block_deltas(&self, rows: usize, space: &NodeSpace<R>, visit: &mut dyn FnMut(&[R]));
}

/// An affine map: shapes, parameters, and its arithmetic in both precisions.
pub trait Affine: AffineOps<f32> + AffineOps<f64> + Debug {
    /// One short line, e.g. `dense 50 tanh`.
    fn describe(&self) -> String;
    /// Shape of a row that goes in.
    fn input(&self) -> Shape;
    /// Shape of a row that comes out.
    fn output(&self) -> Shape;
    /// The parameters in the order in which they stand in w: the weights, then the biases if there are any.
    fn parameters(&self) -> Vec<BlockSpec>;
    /// The parameters as one matrix, by their places within the map; the network fills in its start and layer.
    fn block(&self) -> AffineBlock;
    /// Numbers that `space` of so many rows holds, at most: what memory is asked for before. Here outputs, their gradients, and as much again.
    fn space_numbers(&self, rows: usize) -> u128 {
        3 * product(&[rows, self.output().len()])
    }
}
