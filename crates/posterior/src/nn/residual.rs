//! A residual block: layers, and a path around them.
//!
//! out = x + inner(x), hence dL/dx = dL/d(out) + innerᵀ dL/d(out) (He et al. 2016). Cost: the inner layers', and one addition a
//! number each way.

use super::layer::{Layer, LayerOps, LayerSpace, Pass, Shape};
use super::layout::BlockSpec;
use crate::error::{Error, Result};
use crate::math::elementwise::axpy;
use crate::math::{MatRef, Real};
use crate::rng::Key;

/// Layers whose output is added to their input.
#[derive(Debug)]
pub struct Residual {
    layers: Vec<Box<dyn Layer>>,
    /// Parameters of each layer.
    counts: Vec<usize>,
    shape: Shape,
}

impl Residual {
    /// Layers in order; the last must give the shape that the first takes.
    pub fn new(layers: Vec<Box<dyn Layer>>) -> Result<Residual> {
        let (Some(first), Some(last)) = (layers.first(), layers.last()) else {
            return Err(Error::setting("a residual block has no layers", "put at least one layer in it"));
        };
        for pair in layers.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            if a.output() != b.input() {
                return Err(Error::setting(
                    format!(
                        "in a residual block '{}' gives {:?} and '{}' takes {:?}",
                        a.describe(),
                        a.output(),
                        b.describe(),
                        b.input()
                    ),
                    "make the shapes agree",
                ));
            }
        }
        let shape = first.input();
        if last.output() != shape {
            return Err(Error::setting(
                format!("a residual block takes {shape:?} and its layers give {:?}", last.output()),
                "choose sizes and padding that keep the shape, since the input is added to the output",
            ));
        }
        let counts = layers.iter().map(|l| l.blocks().iter().map(BlockSpec::len).sum()).collect();
        Ok(Residual { layers, counts, shape })
    }

    /// The pass of inner layer `i`, with a key number that no other layer has.
    fn inner(pass: &Pass, i: usize) -> Pass {
        Pass { layer: Key::new(pass.layer).derive(i as u64).0[0], ..*pass }
    }

    /// Forward through the inner layers; `L` is `dyn Layer`, which is known to compute in `R` only where R is named.
    fn forward_in<R: Real, L: LayerOps<R> + ?Sized>(
        &self,
        layers: &[Box<L>],
        w: &[R],
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut LayerSpace<R>,
    ) {
        let (n, mut at) = (x.data.len(), 0);
        for (i, layer) in layers.iter().enumerate() {
            let (done, rest) = space.children.split_at_mut(i);
            let x = self.input_of(i, x, done);
            layer.forward(&w[at..at + self.counts[i]], x, &Self::inner(pass, i), &mut rest[0]);
            at += self.counts[i];
        }
        let out = &mut space.out[..n];
        out.copy_from_slice(x.data);
        axpy(R::ONE, &space.children[layers.len() - 1].out[..n], out);
    }

    fn backward_in<R: Real, L: LayerOps<R> + ?Sized>(
        &self,
        layers: &[Box<L>],
        w: &[R],
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut LayerSpace<R>,
        grad: &mut [R],
        accumulate: bool,
        mut dx: Option<&mut [R]>,
    ) {
        let (n, mut end) = (x.data.len(), w.len());
        space.children[layers.len() - 1].delta[..n].copy_from_slice(&space.delta[..n]);
        for (i, layer) in layers.iter().enumerate().rev() {
            let range = end - self.counts[i]..end;
            end = range.start;
            let (done, rest) = space.children.split_at_mut(i);
            // The layer below needs its input's numbers and has its own buffer for their gradient, so the two part here.
            let mut below = done.last_mut().map(|s| std::mem::take(&mut s.delta));
            let into = if i == 0 { dx.as_deref_mut() } else { below.as_deref_mut() };
            let x = self.input_of(i, x, done);
            let pass = Self::inner(pass, i);
            layer.backward(&w[range.clone()], x, &pass, &mut rest[0], &mut grad[range], accumulate, into);
            if let (Some(delta), Some(space)) = (below, done.last_mut()) {
                space.delta = delta;
            }
        }
        if let Some(dx) = dx {
            axpy(R::ONE, &space.delta[..n], &mut dx[..n]);
        }
    }

    /// What goes into inner layer `i`.
    fn input_of<'a, R: Real>(&self, i: usize, x: MatRef<'a, R>, done: &'a [LayerSpace<R>]) -> MatRef<'a, R> {
        match done.last() {
            Some(space) => {
                let cols = self.layers[i].input().len();
                MatRef::new(&space.out[..x.rows * cols], x.rows, cols)
            }
            None => x,
        }
    }
}

macro_rules! residual_ops {
    ($R:ty) => {
        impl LayerOps<$R> for Residual {
            fn space(&self, rows: usize) -> LayerSpace<$R> {
                let n = rows * self.shape.len();
                LayerSpace {
                    out: vec![0.0; n],
                    delta: vec![0.0; n],
                    children: self.layers.iter().map(|l| l.space(rows)).collect(),
                    ..LayerSpace::default()
                }
            }

            fn forward(&self, w: &[$R], x: MatRef<'_, $R>, pass: &Pass, space: &mut LayerSpace<$R>) {
                self.forward_in(&self.layers, w, x, pass, space);
            }

            fn backward(
                &self,
                w: &[$R],
                x: MatRef<'_, $R>,
                pass: &Pass,
                space: &mut LayerSpace<$R>,
                grad: &mut [$R],
                accumulate: bool,
                dx: Option<&mut [$R]>,
            ) {
                self.backward_in(&self.layers, w, x, pass, space, grad, accumulate, dx);
            }
        }
    };
}
residual_ops!(f32);
residual_ops!(f64);

impl Layer for Residual {
    fn describe(&self) -> String {
        let inner: Vec<String> = self.layers.iter().map(|l| l.describe()).collect();
        format!("residual ({})", inner.join(", "))
    }

    fn input(&self) -> Shape {
        self.shape
    }

    fn output(&self) -> Shape {
        self.shape
    }

    /// The inner layers' blocks; their number within this block is appended to the path.
    fn blocks(&self) -> Vec<BlockSpec> {
        let mut all = Vec::new();
        for (i, layer) in self.layers.iter().enumerate() {
            for mut block in layer.blocks() {
                block.path.push(i.to_string());
                all.push(block);
            }
        }
        all
    }
}
