//! The channels of a pixel side by side: out[(y·W + x)·C + c] = in[c][y][x], a permutation, as a likelihood takes the outputs of sites.
//!
//! The vjp is the permutation back. Cost: a copy.

use super::node::{Node, NodeOps, NodeSpace, Pass, Shape};
use super::pool::image_of;
use super::resize::by_row;
use crate::error::Result;
use crate::math::{MatRef, Real};

/// An image pixel by pixel.
#[derive(Debug, Clone)]
pub struct ChannelsLast {
    image: (usize, usize, usize),
}

impl ChannelsLast {
    /// Of images alone.
    pub fn new(input: Shape) -> Result<ChannelsLast> {
        Ok(ChannelsLast { image: image_of(input, "a list of pixels")? })
    }

    /// Channels, and pixels of each.
    fn sizes(&self) -> (usize, usize) {
        (self.image.0, self.image.1 * self.image.2)
    }
}

impl<R: Real> NodeOps<R> for ChannelsLast {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        NodeSpace::with_output(rows * self.output().len())
    }

    fn forward(&self, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>) {
        let (n, (channels, pixels)) = (x[0].cols, self.sizes());
        by_row(pass, (x[0].data, &mut space.out[..x[0].rows * n]), (n, n), |x, out| {
            for (p, out) in out.chunks_exact_mut(channels).enumerate() {
                out.iter_mut().enumerate().for_each(|(c, out)| *out = x[c * pixels + p]);
            }
        });
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let (n, (channels, pixels)) = (x[0].cols, self.sizes());
        by_row(pass, (&space.delta[..x[0].rows * n], &mut dx[..x[0].rows * n]), (n, n), |delta, dx| {
            for (p, delta) in delta.chunks_exact(channels).enumerate() {
                delta.iter().enumerate().for_each(|(c, delta)| dx[c * pixels + p] = *delta);
            }
        });
    }
}

impl Node for ChannelsLast {
    fn describe(&self) -> String {
        "channels last".to_owned()
    }
    fn inputs(&self) -> Vec<Shape> {
        let (channels, height, width) = self.image;
        vec![Shape::Image { channels, height, width }]
    }
    fn output(&self) -> Shape {
        let (channels, height, width) = self.image;
        Shape::Flat(channels * height * width)
    }
    fn is_random(&self) -> bool {
        false
    }
}
