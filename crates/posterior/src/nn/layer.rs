//! What a layer is: its parameters, and its forward and backward passes over a chunk of rows.

use super::dense::Dense;
use super::layout::BlockSpec;
use super::leaf::Leaf;
use super::noisy::{Gradient, Noisy};
use crate::error::Result;
use crate::math::{MatRef, Real, Threads};
use crate::memory::product;
use crate::rng::Key;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// Shape of one row's activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// So many numbers.
    Flat(usize),
    /// Channels × height × width, in this order in memory.
    Image {
        /// Channels.
        channels: usize,
        /// Rows of pixels.
        height: usize,
        /// Columns of pixels.
        width: usize,
    },
}

impl Shape {
    /// How many numbers.
    pub fn len(&self) -> usize {
        match *self {
            Shape::Flat(n) => n,
            Shape::Image { channels, height, width } => channels * height * width,
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Flat(n) => write!(f, "{n} numbers"),
            Shape::Image { channels, height, width } => write!(f, "an image of {channels} × {height} × {width}"),
        }
    }
}

/// How a network's random parts (dropout) behave in a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// No noise.
    Plain,
    /// Training: every row has a mask of its own, keyed by (key, layer, row).
    Train(Key),
    /// One draw from the posterior: the mask is the same for all rows, so that the draw is a function of x.
    Draw(Key),
}

/// What a layer keeps between forward and backward, sized once for a number of rows.
#[derive(Debug, Default)]
pub struct LayerSpace<R> {
    /// The layer's output, `rows × output().len()`.
    pub out: Vec<R>,
    /// dL/d(out) on entry to backward; backward may overwrite it.
    pub delta: Vec<R>,
    /// What the layer itself wants to keep or to scribble in: pre-activations, columns, partial gradients.
    pub scratch: Vec<Vec<R>>,
    /// Positions of maxima and the like.
    pub index: Vec<u8>,
    /// Spaces of layers inside this one.
    pub children: Vec<LayerSpace<R>>,
}

impl<R: Real> LayerSpace<R> {
    /// Room for an output of `len` numbers and its gradient.
    pub fn with_output(len: usize) -> Self {
        LayerSpace { out: vec![R::ZERO; len], delta: vec![R::ZERO; len], ..LayerSpace::default() }
    }
}

/// How a pass over a chunk of rows is run.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// Noise or not.
    pub mode: Mode,
    /// Which layer of the network this is, for keys.
    pub layer: u64,
    /// Number of the chunk's first row within the batch, for keys.
    pub first_row: u64,
    /// Whether to use the thread pool inside the layer.
    pub threads: Threads,
}

/// The arithmetic of a layer in one precision.
pub trait LayerOps<R: Real>: Send + Sync {
    /// Buffers for up to `rows` rows.
    fn space(&self, rows: usize) -> LayerSpace<R>;

    /// `space.out[..x.rows · output]` ← layer(x). `w` is this layer's own parameters.
    fn forward(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, space: &mut LayerSpace<R>);

    /// With `space.delta` = dL/d(out) and `space.out`, scratch as forward left them: dL/dw into `grad` (added when
    /// `accumulate`, else overwritten; `grad` is as long as `w`) and, if wanted, dL/dx into `dx` (overwritten).
    fn backward(
        &self,
        w: &[R],
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut LayerSpace<R>,
        grad: &mut [R],
        accumulate: bool,
        dx: Option<&mut [R]>,
    );

    /// As `backward`, without dL/dw: leaves the gradient in the layer's pre-activations in `space`, for
    /// [`LayerOps::leaf_deltas`], and writes dL/dx if wanted.
    fn pull_back(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, space: &mut LayerSpace<R>, dx: Option<&mut [R]>) {
        debug_assert!(w.is_empty(), "a layer with parameters has a pull-back of its own");
        self.backward(w, x, pass, space, &mut [], false, dx);
    }

    /// After `forward`: for every [`Leaf`] of the layer, in order, what its weights multiply, `(rows · area) × inputs`.
    fn leaf_inputs(&self, _x: MatRef<'_, R>, _space: &LayerSpace<R>, _visit: &mut dyn FnMut(&[R])) {}

    /// After `pull_back` over `rows` rows: for every [`Leaf`] of the layer, in order, dL/dz, `(rows · area) × units`.
    fn leaf_deltas(&self, _rows: usize, _space: &LayerSpace<R>, _visit: &mut dyn FnMut(&[R])) {}

    /// As `forward`, with a draw of the parameters for every row. A layer without parameters has nothing to draw.
    fn forward_noisy(&self, w: Noisy<'_, R>, x: MatRef<'_, R>, pass: &Pass, space: &mut LayerSpace<R>) {
        debug_assert!(w.mean.is_empty(), "a layer with parameters has noise of its own");
        self.forward(w.mean, x, pass, space);
    }

    /// As `backward` after `forward_noisy`.
    fn backward_noisy(
        &self,
        w: Noisy<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut LayerSpace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        self.backward(w.mean, x, pass, space, grad.centre, accumulate, dx);
    }
}

/// A layer: shapes, parameters, and its arithmetic in both precisions.
pub trait Layer: LayerOps<f32> + LayerOps<f64> + Debug {
    /// One short line, e.g. `dense 50 tanh`.
    fn describe(&self) -> String;
    /// Shape of a row that goes in.
    fn input(&self) -> Shape;
    /// Shape of a row that comes out.
    fn output(&self) -> Shape;
    /// The parameters in the order in which they stand in `w`.
    fn blocks(&self) -> Vec<BlockSpec>;
    /// Numbers that `space` of so many rows holds, at most: what memory is asked for before.
    fn space_numbers(&self, rows: usize) -> u128 {
        // Outputs and their gradients, and in a quarter of that or as much again what the layer keeps for itself.
        3 * product(&[rows, self.output().len()])
    }
    /// For a layer that holds others: the same with dropout before each of them that has parameters.
    fn with_dropout(&self, _rate: f64) -> Result<Option<Arc<dyn Layer>>> {
        Ok(None)
    }
    /// Its parameters as curvature sees them, by their places within the layer; none where it has parameters that cannot be seen so.
    fn leaves(&self) -> Option<Vec<Leaf>> {
        self.blocks().is_empty().then(Vec::new)
    }
    /// The layer itself where it is dense: what moments pass through.
    fn as_dense(&self) -> Option<&Dense> {
        None
    }
}
