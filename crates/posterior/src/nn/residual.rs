//! A residual block: layers, and a path around them.
//!
//! out = x + inner(x), hence dL/dx = dL/d(out) + innerᵀ dL/d(out) (He et al. 2016). Cost: the inner layers', and one addition a
//! number each way.

use super::chain::Chain;
use super::layer::{Layer, LayerOps, LayerSpace, Pass, Shape};
use super::layout::BlockSpec;
use super::leaf::Leaf;
use super::noisy::{Gradient, Noisy, Weights};
use crate::Precision;
use crate::error::{Error, Result};
use crate::math::MatRef;
use crate::math::elementwise::axpy;
use crate::memory::product;
use std::sync::Arc;

/// Layers whose output is added to their input.
#[derive(Debug)]
pub struct Residual {
    inner: Chain,
    shape: Shape,
}

impl Residual {
    /// Layers in order; the last must give the shape that the first takes.
    pub fn new(layers: Vec<Arc<dyn Layer>>) -> Result<Residual> {
        let (Some(first), Some(last)) = (layers.first(), layers.last()) else {
            return Err(Error::setting("a residual block has no layers", "put at least one layer in it"));
        };
        for pair in layers.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            if a.output() != b.input() {
                return Err(Error::setting(
                    format!(
                        "in a residual block '{}' gives {} and '{}' takes {}",
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
                format!("a residual block takes {shape} and its layers give {}", last.output()),
                "choose sizes and padding that keep the shape, since the input is added to the output",
            ));
        }
        Ok(Residual { inner: Chain::new(layers), shape })
    }
}

impl Residual {
    fn pass_forward<R: Precision>(&self, w: Weights<'_, R>, x: MatRef<'_, R>, pass: &Pass, space: &mut LayerSpace<R>) {
        self.inner.forward(w, x, pass, &mut space.children);
        let out = &mut space.out[..x.data.len()];
        out.copy_from_slice(x.data);
        axpy(R::ONE, &space.children[self.inner.layers.len() - 1].out[..x.data.len()], out);
    }

    fn pass_backward<R: Precision>(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut LayerSpace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        mut dx: Option<&mut [R]>,
    ) {
        let n = x.data.len();
        space.children[self.inner.layers.len() - 1].delta[..n].copy_from_slice(&space.delta[..n]);
        self.inner.backward(w, x, pass, &mut space.children, grad, accumulate, dx.as_deref_mut());
        if let Some(dx) = dx {
            axpy(R::ONE, &space.delta[..n], &mut dx[..n]);
        }
    }
}

impl<R: Precision> LayerOps<R> for Residual {
    fn space(&self, rows: usize) -> LayerSpace<R> {
        LayerSpace { children: self.inner.spaces(rows), ..LayerSpace::with_output(rows * self.shape.len()) }
    }

    fn forward(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, space: &mut LayerSpace<R>) {
        self.pass_forward(w.into(), x, pass, space);
    }

    fn backward(
        &self,
        w: &[R],
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut LayerSpace<R>,
        grad: &mut [R],
        accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        self.pass_backward(w.into(), x, pass, space, grad.into(), accumulate, dx);
    }

    fn pull_back(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, space: &mut LayerSpace<R>, mut dx: Option<&mut [R]>) {
        let n = x.data.len();
        space.children[self.inner.layers.len() - 1].delta[..n].copy_from_slice(&space.delta[..n]);
        self.inner.pull_back(w, x, pass, &mut space.children, 0, dx.as_deref_mut());
        if let Some(dx) = dx {
            axpy(R::ONE, &space.delta[..n], &mut dx[..n]);
        }
    }

    fn leaf_inputs(&self, x: MatRef<'_, R>, space: &LayerSpace<R>, visit: &mut dyn FnMut(&[R])) {
        self.inner.leaf_inputs(x, &space.children, 0, visit);
    }

    fn leaf_deltas(&self, rows: usize, space: &LayerSpace<R>, visit: &mut dyn FnMut(&[R])) {
        self.inner.leaf_deltas(rows, &space.children, 0, visit);
    }

    fn forward_noisy(&self, w: Noisy<'_, R>, x: MatRef<'_, R>, pass: &Pass, space: &mut LayerSpace<R>) {
        self.pass_forward(Weights::Noisy(w), x, pass, space);
    }

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
        self.pass_backward(Weights::Noisy(w), x, pass, space, grad, accumulate, dx);
    }
}

impl Layer for Residual {
    fn describe(&self) -> String {
        let inner: Vec<String> = self.inner.layers.iter().map(|l| l.describe()).collect();
        format!("residual ({})", inner.join(", "))
    }

    fn input(&self) -> Shape {
        self.shape
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn with_dropout(&self, rate: f64) -> Result<Option<Arc<dyn Layer>>> {
        let inner = self.inner.with_dropout(|_| rate)?;
        Ok(Some(Arc::new(Residual::new(inner)?)))
    }

    fn space_numbers(&self, rows: usize) -> u128 {
        self.inner.space_numbers(rows).saturating_add(product(&[2, rows, self.shape.len()]))
    }

    fn leaves(&self) -> Option<Vec<Leaf>> {
        self.inner.leaves().ok()
    }

    /// The inner layers' blocks; their number within this block is appended to the path.
    fn blocks(&self) -> Vec<BlockSpec> {
        (0..self.inner.layers.len()).flat_map(|i| self.inner.blocks(i)).collect()
    }
}
