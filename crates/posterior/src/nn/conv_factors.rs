//! A convolution as curvature sees it: patches, and gradients in the pre-activations position by position.

use super::affine::Affine;
use super::conv::Conv;
use super::conv_pass::KEPT;
use super::im2col::{col2im, im2col, through_activation, unfinish};
use super::node::NodeSpace;
use crate::math::{Mat, MatRef, Real, Threads, gemm};

/// `[outer, inner]` numbers per image, image after image in the second index of `from`, to one row per (image, inner).
fn turn<R: Real>(from: &[R], outer: usize, columns: usize, to: &mut [R]) {
    for (o, line) in from.chunks_exact(columns).take(outer).enumerate() {
        for (c, v) in line.iter().enumerate() {
            to[c * outer + o] = *v;
        }
    }
}

impl Conv {
    /// The gradient in the pre-activations after the pool, in place, and dL/dx; on this thread, group by group.
    pub(super) fn vjp_groups<R: Real>(
        &self,
        w: &[R],
        x: MatRef<'_, R>,
        space: &mut NodeSpace<R>,
        dx: Option<&mut [R]>,
    ) {
        let g = &self.geometry;
        let (patch, out, n) = (g.patch(), self.output().len(), x.rows * self.output().len());
        let (kept, buffers) = space.scratch.split_at_mut(KEPT);
        let pre = if kept[1].is_empty() { &space.out[..n] } else { &kept[1][..n] };
        through_activation(self.epilogue.activation, pre, &space.out[..n], &mut space.delta[..n]);
        let (Some(dx), Some(buffer)) = (dx, buffers.first_mut()) else { return };
        let mut unused = vec![R::ZERO; self.channels];
        for (i, dx) in dx[..x.data.len()].chunks_mut(self.group * g.image()).enumerate() {
            let (count, from) = (dx.len() / g.image(), i * self.group * out);
            let ld = count * g.area();
            let (col, rest) = buffer.split_at_mut(patch * ld);
            let y = &mut rest[..self.channels * ld];
            let index = if space.index.is_empty() { &[][..] } else { &space.index[from..from + count * out] };
            unfinish(&self.epilogue, &space.delta[from..from + count * out], index, y, &mut unused);
            let weight_t = Mat::transposed(&w[..self.weights()], patch);
            gemm((patch, ld, self.channels), col, false, weight_t, Mat::rows_of(&*y, ld), Threads::One);
            col2im(g, col, count, dx);
        }
    }

    /// What the kernels see, one row per position of every image.
    pub(super) fn patches<R: Real>(&self, x: MatRef<'_, R>) -> Vec<R> {
        let g = &self.geometry;
        let (patch, area) = (g.patch(), g.area());
        let mut out = vec![R::ZERO; x.rows * area * patch];
        let mut col = vec![R::ZERO; patch * area];
        for (image, out) in x.data.chunks_exact(g.image()).zip(out.chunks_exact_mut(area * patch)) {
            im2col(g, image, 1, &mut col);
            turn(&col, patch, area, out);
        }
        out
    }

    /// The gradient in the pre-activations before the pool, one row of channels per position of every image.
    pub(super) fn spread_deltas<R: Real>(&self, rows: usize, space: &NodeSpace<R>) -> Vec<R> {
        let (area, n) = (self.geometry.area(), self.output().len());
        let mut out = vec![R::ZERO; rows * area * self.channels];
        let (mut y, mut unused) = (vec![R::ZERO; self.channels * area], vec![R::ZERO; self.channels]);
        for (i, out) in out.chunks_exact_mut(area * self.channels).enumerate() {
            let at = i * n..(i + 1) * n;
            let index = if space.index.is_empty() { &[][..] } else { &space.index[at.clone()] };
            unfinish(&self.epilogue, &space.delta[at], index, &mut y, &mut unused);
            turn(&y, self.channels, area, out);
        }
        out
    }
}
