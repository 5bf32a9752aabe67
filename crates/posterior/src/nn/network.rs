//! A network: layers one after another over one flat parameter vector, and the buffers of a pass.

use super::layer::{Layer, LayerSpace, Pass, Shape};
use super::layout::{Layout, Role};
use crate::Precision;
use crate::math::{MatRef, Real};
use crate::rng::{Key, fill_normals};
use std::fmt::Debug;
use std::ops::Range;

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
    fn forward<'s>(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, ws: &'s mut Workspace<R>) -> MatRef<'s, R>;

    /// With dL/df in the workspace's output delta and the rest as `forward` left it: dL/dw into `grad` (added when
    /// `accumulate`, else overwritten) and, if wanted, dL/dx into `dx`.
    fn backward(
        &self,
        w: &[R],
        x: MatRef<'_, R>,
        pass: &Pass,
        ws: &mut Workspace<R>,
        grad: &mut [R],
        accumulate: bool,
        dx: Option<&mut [R]>,
    );
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
}

/// Layers one after another.
#[derive(Debug)]
pub struct Sequential {
    layers: Vec<Box<dyn Layer>>,
    ranges: Vec<Range<usize>>,
    layout: Layout,
    input: Shape,
}

impl Sequential {
    /// From layers whose shapes follow on each other.
    ///
    /// # Panics
    /// If there is no layer or a shape does not fit: the builder in [`super::NetworkSpec`] has checked.
    pub fn new(layers: Vec<Box<dyn Layer>>) -> Sequential {
        assert!(!layers.is_empty(), "a network has a layer");
        assert!(layers.windows(2).all(|l| l[0].output().len() == l[1].input().len()), "shapes follow on each other");
        let mut layout = Layout::default();
        let mut ranges = Vec::new();
        for (i, layer) in layers.iter().enumerate() {
            let start = layout.len();
            for mut spec in layer.blocks() {
                spec.path.push(i.to_string());
                layout.push(i, &spec);
            }
            ranges.push(start..layout.len());
        }
        let input = layers[0].input();
        Sequential { layers, ranges, layout, input }
    }
}

impl<R: Precision> Network<R> for Sequential {
    fn workspace(&self, rows: usize) -> Workspace<R> {
        Workspace { layers: self.layers.iter().map(|l| R::layer(&**l).space(rows)).collect(), rows }
    }

    fn forward<'s>(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, ws: &'s mut Workspace<R>) -> MatRef<'s, R> {
        for (i, (layer, range)) in self.layers.iter().zip(&self.ranges).enumerate() {
            let (before, after) = ws.layers.split_at_mut(i);
            let input = input_of(before.last(), x, layer.input());
            R::layer(&**layer).forward(&w[range.clone()], input, &Pass { layer: i as u64, ..*pass }, &mut after[0]);
        }
        let last = self.layers.len() - 1;
        let width = self.layers[last].output().len();
        MatRef::new(&ws.layers[last].out[..x.rows * width], x.rows, width)
    }

    fn backward(
        &self,
        w: &[R],
        x: MatRef<'_, R>,
        pass: &Pass,
        ws: &mut Workspace<R>,
        grad: &mut [R],
        accumulate: bool,
        mut dx: Option<&mut [R]>,
    ) {
        for (i, (layer, range)) in self.layers.iter().zip(&self.ranges).enumerate().rev() {
            let (before, after) = ws.layers.split_at_mut(i);
            // The gradient in the layer's input is the gradient in the output of the one before it.
            let (kept, d_input) = match before.last_mut() {
                Some(LayerSpace { out, delta, .. }) => (Some(&*out), Some(&mut delta[..x.rows * layer.input().len()])),
                None => (None, dx.take()),
            };
            let width = layer.input().len();
            let input = kept.map_or(x, |out| MatRef::new(&out[..x.rows * width], x.rows, width));
            let pass = Pass { layer: i as u64, ..*pass };
            let (w, grad) = (&w[range.clone()], &mut grad[range.clone()]);
            R::layer(&**layer).backward(w, input, &pass, &mut after[0], grad, accumulate, d_input);
        }
    }
}

fn input_of<'a, R: Real>(before: Option<&'a LayerSpace<R>>, x: MatRef<'a, R>, shape: Shape) -> MatRef<'a, R> {
    before.map_or(x, |space| MatRef::new(&space.out[..x.rows * shape.len()], x.rows, shape.len()))
}

impl AnyNetwork for Sequential {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn input(&self) -> Shape {
        self.input
    }
    fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].output().len()
    }
    fn describe(&self) -> Vec<String> {
        self.layers.iter().map(|l| l.describe()).collect()
    }
    fn activations(&self) -> usize {
        self.layers.iter().map(|l| l.output().len()).sum()
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
