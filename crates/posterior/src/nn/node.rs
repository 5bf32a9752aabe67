//! A node without weights: its forward pass over a chunk of rows, and its vector-Jacobian product.
//!
//! Nodes with weights are [`super::Affine`]; a network is a graph of both ([`super::Graph`]).

use crate::math::{MatRef, Real, Threads};
use crate::memory::product;
use crate::rng::Key;
use std::fmt::{self, Debug};

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

/// What a node keeps between forward and backward, sized once for a number of rows.
#[derive(Debug, Default)]
pub struct NodeSpace<R> {
    /// The node's output, `rows × output().len()`.
    pub out: Vec<R>,
    /// dL/d(out) on entry to backward; backward may overwrite it.
    pub delta: Vec<R>,
    /// What the node itself wants to keep or to scribble in: pre-activations, columns, partial gradients.
    pub scratch: Vec<Vec<R>>,
    /// Positions of maxima and the like.
    pub index: Vec<u8>,
}

impl<R: Real> NodeSpace<R> {
    /// Room for an output of `len` numbers and its gradient.
    pub fn with_output(len: usize) -> Self {
        NodeSpace { out: vec![R::ZERO; len], delta: vec![R::ZERO; len], ..NodeSpace::default() }
    }
}

/// How a pass over a chunk of rows is run.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// Noise or not.
    pub mode: Mode,
    /// Which node of the network this is, for keys; the network fills it in.
    pub layer: u64,
    /// Number of the chunk's first row within the batch, for keys.
    pub first_row: u64,
    /// Whether to use the thread pool inside the node.
    pub threads: Threads,
}

/// The arithmetic of a node without weights, in one precision.
pub trait NodeOps<R: Real>: Send + Sync {
    /// Buffers for up to `rows` rows.
    fn space(&self, rows: usize) -> NodeSpace<R>;

    /// `space.out[..rows · output]` ← node(x), with one matrix for each of the node's inputs.
    fn forward(&self, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>);

    /// With `space.delta` = dL/d(out) and `space.out`, scratch as forward left them: dL/d(input number `input`) into `dx`
    /// (overwritten). Called at most once for every input; it may overwrite `space.delta` where the node has one input.
    fn vjp(&self, input: usize, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]);
}

/// A node without weights: shapes, and its arithmetic in both precisions.
pub trait Node: NodeOps<f32> + NodeOps<f64> + Debug {
    /// One short line, e.g. `max pool 2`.
    fn describe(&self) -> String;
    /// Shapes of a row of each input.
    fn inputs(&self) -> Vec<Shape>;
    /// Shape of a row that comes out.
    fn output(&self) -> Shape;
    /// Whether the output depends on [`Pass::mode`] (dropout): then the trained objective is not that of the plain network.
    fn is_random(&self) -> bool;
    /// Numbers that `space` of so many rows holds, at most: what memory is asked for before. Here outputs, their gradients, and as much again.
    fn space_numbers(&self, rows: usize) -> u128 {
        3 * product(&[rows, self.output().len()])
    }
}
