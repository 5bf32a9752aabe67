//! Group normalisation: the numbers of a group of channels are brought to mean 0 and variance 1, row by row.
//!
//! y = (x − μ)/√(v + ε) with μ, v the mean and variance over the group (Wu & He 2018); dx = (δ − mean δ − y·mean(δ ⊙ y))/√(v + ε). There are no
//! weights: scale and shift are the next layer's business. One group is layer normalisation. It knows nothing of other rows, so a draw stays a
//! function of x. Cost: three passes over the numbers each way, sums in f64.

use super::node::{Node, NodeOps, NodeSpace, Pass, Shape};
use crate::error::{Error, Result};
use crate::math::{MatRef, Real};

/// Groups of channels, or of the numbers of a flat row.
#[derive(Debug, Clone)]
pub struct GroupNorm {
    shape: Shape,
    groups: usize,
    epsilon: f64,
}

impl GroupNorm {
    /// `groups` has to divide the channels; `epsilon` is added to variances.
    pub fn new(shape: Shape, groups: usize, epsilon: f64) -> Result<GroupNorm> {
        let channels = match shape {
            Shape::Flat(n) => n,
            Shape::Image { channels, .. } => channels,
        };
        if groups == 0 || channels == 0 || !channels.is_multiple_of(groups) || shape.is_empty() {
            return Err(Error::setting(
                format!("{shape} cannot be normalised in {groups} groups"),
                format!("choose a number that divides {channels}"),
            ));
        }
        if !(epsilon > 0.0 && epsilon.is_finite()) {
            let what = format!("group normalisation cannot add {epsilon} to variances");
            return Err(Error::setting(what, "choose an epsilon above 0, as 0.00001"));
        }
        Ok(GroupNorm { shape, groups, epsilon })
    }

    /// Numbers of a group.
    fn size(&self) -> usize {
        self.shape.len() / self.groups
    }
}

fn mean<R: Real>(values: impl Iterator<Item = R>, n: usize) -> f64 {
    values.map(|v| v.f64()).sum::<f64>() / n as f64
}

impl<R: Real> NodeOps<R> for GroupNorm {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        // 1/√(v + ε) of every group.
        let scratch = vec![vec![R::ZERO; rows * self.groups]];
        NodeSpace { scratch, ..NodeSpace::with_output(rows * self.shape.len()) }
    }

    fn forward(&self, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>) {
        let n = self.size();
        let groups = x[0].data.chunks_exact(n).zip(space.out.chunks_exact_mut(n)).zip(&mut space.scratch[0]);
        for ((x, out), scale) in groups {
            let centre = R::of(mean(x.iter().copied(), n));
            out.iter_mut().zip(x).for_each(|(out, x)| *out = *x - centre);
            let variance = mean(out.iter().map(|v| *v * *v), n);
            *scale = R::of(1.0 / (variance + self.epsilon).sqrt());
            out.iter_mut().for_each(|v| *v *= *scale);
        }
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let n = self.size();
        let groups = space.out.chunks_exact(n).zip(space.delta.chunks_exact(n)).zip(&space.scratch[0]);
        for (dx, ((y, delta), scale)) in dx[..x[0].data.len()].chunks_exact_mut(n).zip(groups) {
            let centre = R::of(mean(delta.iter().copied(), n));
            let along = R::of(mean(delta.iter().zip(y).map(|(d, y)| *d * *y), n));
            for i in 0..n {
                dx[i] = (delta[i] - centre - y[i] * along) * *scale;
            }
        }
    }
}

impl Node for GroupNorm {
    fn describe(&self) -> String {
        format!("group norm {}", self.groups)
    }
    fn inputs(&self) -> Vec<Shape> {
        vec![self.shape]
    }
    fn output(&self) -> Shape {
        self.shape
    }
    fn is_random(&self) -> bool {
        false
    }
}
