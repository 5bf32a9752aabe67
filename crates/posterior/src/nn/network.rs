//! A network: layers one after another over one flat parameter vector, and the buffers of a pass.

use super::chain::Chain;
use super::dense::Dense;
use super::layer::{Layer, LayerSpace, Pass, Shape};
use super::layout::{Layout, Role};
use super::leaf::Leaf;
use super::noisy::{Gradient, Weights};
use crate::Precision;
use crate::error::Result;
use crate::math::{MatRef, Real};
use crate::rng::{Key, fill_normals};
use std::fmt::Debug;
use std::sync::Arc;

/// Buffers for passes over up to a fixed number of rows; sized once, so that a step allocates nothing.
#[derive(Debug)]
pub struct Workspace<R> {
    layers: Vec<LayerSpace<R>>,
    rows: usize,
}

impl<R: Real> Workspace<R> {
    /// How many rows fit.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What went into the last layer in the last forward pass; none where it is the only one, whose input is x.
    pub fn last_input(&self) -> Option<&[R]> {
        self.layers.len().checked_sub(2).map(|i| &*self.layers[i].out)
    }

    /// Where dL/d(output) goes before [`Network::backward`].
    pub fn output_and_delta(&mut self) -> (&[R], &mut [R]) {
        match self.layers.last_mut() {
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
    fn pull_back(
        &self,
        w: &[R],
        x: MatRef<'_, R>,
        pass: &Pass,
        ws: &mut Workspace<R>,
        first: usize,
        dx: Option<&mut [R]>,
    );

    /// After `forward`: for every leaf from layer `first` on, in order, what its weights multiply, `(rows · area) × inputs`.
    fn leaf_inputs(&self, x: MatRef<'_, R>, ws: &Workspace<R>, first: usize, visit: &mut dyn FnMut(&[R]));

    /// After `pull_back`: for every leaf from layer `first` on, in order, dL/dz, `(rows · area) × units`.
    fn leaf_deltas(&self, rows: usize, ws: &Workspace<R>, first: usize, visit: &mut dyn FnMut(&[R]));
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
    fn space_numbers(&self, rows: usize) -> u128 {
        3 * crate::memory::product(&[rows, self.activations()])
    }
    /// The same network with dropout on the inputs of every layer that has parameters; the first of these has a rate of
    /// its own. The parameters and their order stay.
    fn with_dropout(&self, input_rate: f64, rate: f64) -> Result<Arc<dyn AnyNetwork>>;
    /// The parameters layer by layer as curvature sees them, or the description of the first layer that cannot be seen so.
    fn leaves(&self) -> std::result::Result<Vec<Leaf>, String>;
    /// The layers where all of them are dense, or the description of the first that is not.
    fn dense_layers(&self) -> std::result::Result<Vec<&Dense>, String>;
}

/// Layers one after another.
#[derive(Debug)]
pub struct Sequential {
    chain: Chain,
    layout: Layout,
}

impl Sequential {
    /// From layers whose shapes follow on each other.
    ///
    /// # Panics
    /// If there is no layer or a shape does not fit: the builder in [`super::NetworkSpec`] has checked.
    pub fn new(layers: Vec<Arc<dyn Layer>>) -> Sequential {
        assert!(!layers.is_empty(), "a network has a layer");
        assert!(layers.windows(2).all(|l| l[0].output().len() == l[1].input().len()), "shapes follow on each other");
        let chain = Chain::new(layers);
        let mut layout = Layout::default();
        for i in 0..chain.layers.len() {
            chain.blocks(i).iter().for_each(|spec| layout.push(i, spec));
        }
        Sequential { chain, layout }
    }
}

impl<R: Precision> Network<R> for Sequential {
    fn workspace(&self, rows: usize) -> Workspace<R> {
        Workspace { layers: self.chain.spaces(rows), rows }
    }

    fn forward<'s>(&self, w: Weights<'_, R>, x: MatRef<'_, R>, pass: &Pass, ws: &'s mut Workspace<R>) -> MatRef<'s, R> {
        self.chain.forward(w, x, pass, &mut ws.layers);
        let (last, width) = (self.chain.layers.len() - 1, self.outputs());
        MatRef::new(&ws.layers[last].out[..x.rows * width], x.rows, width)
    }

    fn backward(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        ws: &mut Workspace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        self.chain.backward(w, x, pass, &mut ws.layers, grad, accumulate, dx);
    }

    fn pull_back(
        &self,
        w: &[R],
        x: MatRef<'_, R>,
        pass: &Pass,
        ws: &mut Workspace<R>,
        first: usize,
        dx: Option<&mut [R]>,
    ) {
        self.chain.pull_back(w, x, pass, &mut ws.layers, first, dx);
    }

    fn leaf_inputs(&self, x: MatRef<'_, R>, ws: &Workspace<R>, first: usize, visit: &mut dyn FnMut(&[R])) {
        self.chain.leaf_inputs(x, &ws.layers, first, visit);
    }

    fn leaf_deltas(&self, rows: usize, ws: &Workspace<R>, first: usize, visit: &mut dyn FnMut(&[R])) {
        self.chain.leaf_deltas(rows, &ws.layers, first, visit);
    }
}

impl AnyNetwork for Sequential {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn input(&self) -> Shape {
        self.chain.layers[0].input()
    }
    fn outputs(&self) -> usize {
        self.chain.layers[self.chain.layers.len() - 1].output().len()
    }
    fn describe(&self) -> Vec<String> {
        self.chain.layers.iter().map(|l| l.describe()).collect()
    }
    fn activations(&self) -> usize {
        self.chain.layers.iter().map(|l| l.output().len()).sum()
    }
    fn space_numbers(&self, rows: usize) -> u128 {
        self.chain.space_numbers(rows)
    }
    fn with_dropout(&self, input_rate: f64, rate: f64) -> Result<Arc<dyn AnyNetwork>> {
        let first = self.layout.blocks().first().map_or(0, |b| b.layer);
        let rates = |i| if i == first { input_rate } else { rate };
        Ok(Arc::new(Sequential::new(self.chain.with_dropout(rates)?)))
    }
    fn leaves(&self) -> std::result::Result<Vec<Leaf>, String> {
        self.chain.leaves()
    }
    fn dense_layers(&self) -> std::result::Result<Vec<&Dense>, String> {
        self.chain.layers.iter().map(|l| l.as_dense().ok_or_else(|| l.describe())).collect()
    }
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
