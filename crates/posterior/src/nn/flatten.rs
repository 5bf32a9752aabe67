//! An image as a row of numbers, in the order in which it already stands in memory.
//!
//! out = x. Cost: one copy each way; a container may skip the layer, since nothing moves.

use super::layer::{Layer, LayerOps, LayerSpace, Pass, Shape};
use super::layout::BlockSpec;
use crate::math::{MatRef, Real};

/// Channels × height × width → so many numbers.
#[derive(Debug, Clone)]
pub struct Flatten {
    input: Shape,
}

impl Flatten {
    /// Any shape; a flat one stays as it is.
    pub fn new(input: Shape) -> Flatten {
        Flatten { input }
    }
}

impl Layer for Flatten {
    fn describe(&self) -> String {
        "flatten".into()
    }
    fn input(&self) -> Shape {
        self.input
    }
    fn output(&self) -> Shape {
        Shape::Flat(self.input.len())
    }
    fn blocks(&self) -> Vec<BlockSpec> {
        Vec::new()
    }
}

impl<R: Real> LayerOps<R> for Flatten {
    fn space(&self, rows: usize) -> LayerSpace<R> {
        let n = rows * self.input.len();
        LayerSpace { out: vec![R::ZERO; n], delta: vec![R::ZERO; n], ..LayerSpace::default() }
    }

    fn forward(&self, _w: &[R], x: MatRef<'_, R>, _pass: &Pass, space: &mut LayerSpace<R>) {
        space.out[..x.data.len()].copy_from_slice(x.data);
    }

    fn backward(
        &self,
        _w: &[R],
        x: MatRef<'_, R>,
        _pass: &Pass,
        space: &mut LayerSpace<R>,
        _grad: &mut [R],
        _accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        if let Some(dx) = dx {
            let n = x.data.len();
            dx[..n].copy_from_slice(&space.delta[..n]);
        }
    }
}
