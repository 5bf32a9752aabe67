//! f_w over one flat parameter vector, and the buffers of a pass. [`super::Graph`] is what implements it.

use super::affine::AffineBlock;
use super::layout::{Layout, Role};
use super::node::{NodeSpace, Pass, Shape};
use super::noisy::{Gradient, Weights};
use crate::error::Result;
use crate::math::{MatRef, Real};
use crate::rng::{Key, fill_normals};
use std::fmt::Debug;
use std::sync::Arc;

/// Buffers for passes over up to a fixed number of rows; sized once, so that a step allocates nothing.
#[derive(Debug)]
pub struct Workspace<R> {
    pub(super) nodes: Vec<NodeSpace<R>>,
    /// For the gradients of outputs that several nodes read.
    pub(super) spare: Vec<R>,
    /// The node whose output the last one takes.
    pub(super) last_input: Option<usize>,
    pub(super) rows: usize,
}

impl<R: Real> Workspace<R> {
    /// How many rows fit.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What went into the last node in the last forward pass; none where that is x.
    pub fn last_input(&self) -> Option<&[R]> {
        self.last_input.map(|i| &*self.nodes[i].out)
    }

    /// Where dL/d(output) goes before [`Network::backward`].
    pub fn output_and_delta(&mut self) -> (&[R], &mut [R]) {
        match self.nodes.last_mut() {
            Some(last) => (&last.out, &mut last.delta),
            None => (&[], &mut []),
        }
    }
}

/// f_w in one precision.
pub trait Network<R: Real>: Send + Sync {
    /// Buffers for up to `rows` rows.
    fn workspace(&self, rows: usize) -> Workspace<R>;

    /// f_w(x), `x.rows × outputs`, kept in the workspace.
    fn forward<'s>(&self, w: Weights<'_, R>, x: MatRef<'_, R>, pass: &Pass, ws: &'s mut Workspace<R>) -> MatRef<'s, R>;

    /// With dL/df in the workspace's output delta and the rest as `forward` left it: dL/dw into `grad` (added when
    /// `accumulate`, else overwritten) and, if wanted, dL/dx into `dx`.
    fn backward(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        ws: &mut Workspace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    );

    /// As `backward` under fixed weights, without dL/dw, and only down to layer `first`; dL/dx where that is the first of all.
    fn vjp(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, ws: &mut Workspace<R>, first: usize, dx: Option<&mut [R]>);

    /// After `forward`: for every affine block from layer `first` on, in order, what its weights multiply, `(rows · positions) × inputs`.
    fn block_inputs(&self, x: MatRef<'_, R>, ws: &Workspace<R>, first: usize, visit: &mut dyn FnMut(&[R]));

    /// After `vjp`: for every affine block from layer `first` on, in order, dL/dz, `(rows · positions) × units`.
    fn block_deltas(&self, rows: usize, ws: &Workspace<R>, first: usize, visit: &mut dyn FnMut(&[R]));
}

/// A network in both precisions, with its layout.
pub trait AnyNetwork: Network<f32> + Network<f64> + Debug {
    /// Named blocks of w.
    fn layout(&self) -> &Layout;
    /// Shape of one row's inputs.
    fn input(&self) -> Shape;
    /// Numbers per row in f.
    fn outputs(&self) -> usize;
    /// One short line per layer.
    fn describe(&self) -> Vec<String>;
    /// Numbers per row over all layers' activations: what a pass keeps.
    fn activations(&self) -> usize;
    /// Numbers that a workspace of so many rows holds, at most: what memory is asked for before it is made.
    fn space_numbers(&self, rows: usize) -> u128;
    /// The same network with dropout on the inputs of every layer that has parameters; the first of these has a rate of
    /// its own. The parameters and their order stay.
    fn with_dropout(&self, input_rate: f64, rate: f64) -> Result<Arc<dyn AnyNetwork>>;
    /// The parameters: every one belongs to an affine map, in the order of w.
    fn affine_blocks(&self) -> &[AffineBlock];
    /// The affine map that gives the outputs; none where something else comes last.
    fn output_block(&self) -> Option<&AffineBlock>;
    /// Whether every node takes the one before it and nothing else.
    fn is_chain(&self) -> bool;
    /// Whether a pass depends on [`Pass::mode`]: there are dropout layers.
    fn is_random(&self) -> bool;
    /// The number of the first layer that has a node without weights in it.
    fn first_without_weights(&self) -> Option<usize>;
}

/// Initial values: weights from N(0, gain/fan-in) (He et al. 2015 for relu, LeCun et al. 1998 else), biases 0; noise
/// parameters at `noise`.
pub fn initialise(layout: &Layout, noise: f64, key: Key, w: &mut [f32]) {
    for (i, block) in layout.blocks().iter().enumerate() {
        let w = &mut w[block.range.clone()];
        match block.role {
            Role::Weight => {
                let std = (block.gain / block.fan_in.max(1) as f64).sqrt() as f32;
                fill_normals(key.derive(i as u64), w);
                w.iter_mut().for_each(|v| *v *= std);
            }
            Role::Bias => w.fill(0.0),
            Role::Noise => w.fill(noise as f32),
        }
    }
}
