//! Images to columns and back, so that a convolution is one matrix product.
//!
//! col[(c, u, v)][n, i, j] = x[n][c][i·s + u·d − p][j·s + v·d − p], 0 outside the image; `col2im` is the transpose of this
//! linear map. Cost: one copy (one addition) per number of the columns, kh·kw times the image. After the product come bias,
//! activation and pool in one pass over it (`finish`), and its transpose on the way back (`unfinish`).

use super::activation::{Activation, with_activation};
use super::pool::{Windows, max_plane, max_plane_back};
use crate::math::Real;
use crate::simd_fn;

/// Sizes of a convolution: s is the stride, p the padding on every side, d the dilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    pub kernel: (usize, usize),
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
    pub out_height: usize,
    pub out_width: usize,
}

impl Geometry {
    /// Numbers in one image.
    #[inline(always)]
    pub fn image(&self) -> usize {
        self.channels * self.height * self.width
    }

    /// Rows of the column matrix: how many inputs one output looks at.
    #[inline(always)]
    pub fn patch(&self) -> usize {
        self.channels * self.kernel.0 * self.kernel.1
    }

    /// Positions of the kernel on one image.
    #[inline(always)]
    pub fn area(&self) -> usize {
        self.out_height * self.out_width
    }

    /// Those positions j of `count` for which pixel j·s + tap − p lies in 0..size; the range may be empty.
    #[inline(always)]
    fn inside(&self, tap: usize, size: usize, count: usize) -> (usize, usize) {
        let from = self.padding.saturating_sub(tap).div_ceil(self.stride).min(count);
        let reach = size + self.padding;
        let to = if reach > tap { ((reach - tap - 1) / self.stride + 1).min(count) } else { 0 };
        (from, to.max(from))
    }

    /// The channel of row `k` of the column matrix, and how far its two taps reach into the image.
    #[inline(always)]
    fn tap(&self, k: usize) -> (usize, usize, usize) {
        let (kh, kw) = self.kernel;
        (k / (kh * kw), k / kw % kh * self.dilation, k % kw * self.dilation)
    }
}

/// A copy without a call: rows of images are short. Two pieces of constant length, which overlap, make up a row.
#[inline(always)]
fn copy_row<R: Real>(to: &mut [R], from: &[R]) {
    #[inline(always)]
    fn ends<R: Real, const K: usize>(to: &mut [R], from: &[R]) {
        let n = to.len();
        to[..K].copy_from_slice(&from[..K]);
        to[n - K..].copy_from_slice(&from[n - K..]);
    }
    let n = to.len();
    let from = &from[..n];
    match n {
        0 => {}
        1 => to[0] = from[0],
        2..4 => ends::<R, 2>(to, from),
        4..8 => ends::<R, 4>(to, from),
        8..16 => ends::<R, 8>(to, from),
        16..=32 => ends::<R, 16>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// to ← to + from
#[inline(always)]
fn add_row<R: Real>(to: &mut [R], from: &[R]) {
    let (a8, a_rest) = to.as_chunks_mut::<8>();
    let (b8, b_rest) = from.as_chunks::<8>();
    for (a, b) in a8.iter_mut().zip(b8) {
        for i in 0..8 {
            a[i] += b[i];
        }
    }
    let (a4, a_rest) = a_rest.as_chunks_mut::<4>();
    let (b4, b_rest) = b_rest.as_chunks::<4>();
    for (a, b) in a4.iter_mut().zip(b4) {
        for i in 0..4 {
            a[i] += b[i];
        }
    }
    for (a, b) in a_rest.iter_mut().zip(b_rest) {
        *a += *b;
    }
}

simd_fn! {
    /// Columns of `count` images, `patch × (count · area)`.
    pub(super) fn im2col<R>(g: &Geometry, images: &[R], count: usize, col: &mut [R]) {
        let (area, plane, image) = (g.area(), g.height * g.width, g.image());
        let plain = g.stride == 1 && g.padding == 0;
        for (k, row) in col.chunks_exact_mut(count * area).take(g.patch()).enumerate() {
            let (c, u, v) = g.tap(k);
            for (n, to) in row.chunks_exact_mut(area).enumerate() {
                let from = &images[n * image + c * plane..][..plane];
                if plain {
                    for (i, line) in to.chunks_exact_mut(g.out_width).enumerate() {
                        copy_row(line, &from[(i + u) * g.width + v..][..g.out_width]);
                    }
                } else {
                    gather(g, u, v, from, to);
                }
            }
        }
    }
}

simd_fn! {
    /// The transpose of `im2col`: `images` (overwritten) ← for every pixel the sum of the columns' entries it went to.
    pub(super) fn col2im<R>(g: &Geometry, col: &[R], count: usize, images: &mut [R]) {
        let (area, plane, image) = (g.area(), g.height * g.width, g.image());
        let plain = g.stride == 1 && g.padding == 0;
        images.fill(R::ZERO);
        // Images go inside taps: two additions to one pixel are then far apart, and no load waits for a store.
        for (k, row) in col.chunks_exact(count * area).take(g.patch()).enumerate() {
            let (c, u, v) = g.tap(k);
            for (n, from) in row.chunks_exact(area).enumerate() {
                let to = &mut images[n * image + c * plane..][..plane];
                if plain {
                    for (i, line) in from.chunks_exact(g.out_width).enumerate() {
                        add_row(&mut to[(i + u) * g.width + v..][..g.out_width], line);
                    }
                } else {
                    scatter(g, u, v, from, to);
                }
            }
        }
    }
}

/// One channel under one tap, with stride and padding.
#[inline(always)]
fn gather<R: Real>(g: &Geometry, u: usize, v: usize, from: &[R], to: &mut [R]) {
    let (top, bottom) = g.inside(u, g.height, g.out_height);
    let (left, right) = g.inside(v, g.width, g.out_width);
    for (i, line) in to.chunks_exact_mut(g.out_width).enumerate() {
        if i < top || i >= bottom || left == right {
            line.fill(R::ZERO);
            continue;
        }
        let pixels = &from[(i * g.stride + u - g.padding) * g.width..][..g.width];
        let start = left * g.stride + v - g.padding;
        line[..left].fill(R::ZERO);
        line[right..].fill(R::ZERO);
        if g.stride == 1 {
            copy_row(&mut line[left..right], &pixels[start..]);
        } else {
            for (j, a) in line[left..right].iter_mut().enumerate() {
                *a = pixels[start + j * g.stride];
            }
        }
    }
}

/// The transpose of `gather`, added.
#[inline(always)]
fn scatter<R: Real>(g: &Geometry, u: usize, v: usize, from: &[R], to: &mut [R]) {
    let (top, bottom) = g.inside(u, g.height, g.out_height);
    let (left, right) = g.inside(v, g.width, g.out_width);
    if left == right {
        return;
    }
    let start = left * g.stride + v - g.padding;
    for i in top..bottom {
        let line = &from[i * g.out_width..][left..right];
        let pixels = &mut to[(i * g.stride + u - g.padding) * g.width..][..g.width];
        if g.stride == 1 {
            add_row(&mut pixels[start..][..line.len()], line);
        } else {
            for (j, a) in line.iter().enumerate() {
                pixels[start + j * g.stride] += *a;
            }
        }
    }
}

/// What happens to the product: a bias for every channel, the activation, and perhaps a max pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epilogue {
    /// Numbers of a channel before the pool.
    pub area: usize,
    pub activation: Activation,
    pub pool: Option<Windows>,
}

impl Epilogue {
    /// Numbers of a channel after the pool.
    #[inline(always)]
    pub fn out_area(&self) -> usize {
        self.pool.map_or(self.area, |p| p.pooled())
    }
}

simd_fn! {
    /// From the product y [channel][image, area] to the output [image][channel, area]: bias, activation, pool.
    pub(super) fn finish<R>(e: &Epilogue, y: &[R], bias: &[R], out: &mut [R], index: &mut [u8], pre: &mut [R]) {
        let (area, n) = (e.area, e.out_area());
        let count = out.len() / (n * bias.len());
        for image in 0..count {
            for (channel, b) in bias.iter().enumerate() {
                let y = &y[(channel * count + image) * area..][..area];
                let at = (image * bias.len() + channel) * n;
                let out = &mut out[at..][..n];
                if let Some(windows) = &e.pool {
                    max_plane(windows, y, out, &mut index[at..][..n]);
                    with_activation!(e.activation, A => for a in out {
                        *a = A.value::<R, F>(*a + *b);
                    });
                } else if e.activation.slope_needs_input() {
                    let pre = &mut pre[at..][..n];
                    with_activation!(e.activation, A => for i in 0..n {
                        pre[i] = y[i] + *b;
                        out[i] = A.value::<R, F>(pre[i]);
                    });
                } else {
                    with_activation!(e.activation, A => for i in 0..n {
                        out[i] = A.value::<R, F>(y[i] + *b);
                    });
                }
            }
        }
    }
}

simd_fn! {
    /// delta ← delta · φ′
    pub(super) fn through_activation<R>(activation: Activation, pre: &[R], out: &[R], delta: &mut [R]) {
        let (pre, out) = (&pre[..delta.len()], &out[..delta.len()]);
        if activation != Activation::Identity {
            with_activation!(activation, A => for i in 0..delta.len() {
                delta[i] *= A.slope::<R, F>(pre[i], out[i]);
            });
        }
    }
}

simd_fn! {
    /// The transpose of `finish` after the activation: y ← delta in the product's order, bias gradient added to.
    pub(super) fn unfinish<R>(e: &Epilogue, delta: &[R], index: &[u8], y: &mut [R], bias: &mut [R]) {
        let (area, n) = (e.area, e.out_area());
        let count = delta.len() / (n * bias.len());
        let channels = bias.len();
        for (channel, b) in bias.iter_mut().enumerate() {
            for image in 0..count {
                let at = (image * channels + channel) * n;
                let delta = &delta[at..][..n];
                let y = &mut y[(channel * count + image) * area..][..area];
                match &e.pool {
                    Some(windows) => max_plane_back(windows, delta, &index[at..][..n], y),
                    None => y.copy_from_slice(delta),
                }
                let (eights, rest) = delta.as_chunks::<8>();
                let mut lanes = [R::ZERO; 8];
                for eight in eights {
                    for i in 0..8 {
                        lanes[i] += eight[i];
                    }
                }
                *b += lanes.into_iter().sum::<R>() + rest.iter().copied().sum::<R>();
            }
        }
    }
}
