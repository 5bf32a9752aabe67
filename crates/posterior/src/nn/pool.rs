//! Pooling: a window's largest number or its mean.
//!
//! out[i, j] = max or mean of x[i·s .. i·s + k, j·s .. j·s + k]. Windows that do not fit are left out, so a side of length h
//! gives ⌊(h − k)/s⌋ + 1. Cost: k² comparisons or additions per output.

use super::node::{Node, NodeOps, NodeSpace, Pass, Shape};
use crate::error::{Error, Result};
use crate::math::{MatRef, Real, Threads};
use crate::simd_fn;
use rayon::prelude::*;

/// Sizes of a pooling of one channel: `from` (height, width), `to` (height, width).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Windows {
    pub from: (usize, usize),
    pub to: (usize, usize),
    pub kernel: usize,
    pub stride: usize,
}

/// Positions in a window are kept in one byte.
const LARGEST_MAX_WINDOW: usize = 16;

impl Windows {
    /// Sizes of a maximum over windows, or why they cannot be had.
    pub fn largest(from: (usize, usize), kernel: usize, stride: usize) -> Result<Windows> {
        if kernel > LARGEST_MAX_WINDOW {
            return Err(Error::setting(
                format!("a max pool of {kernel} × {kernel} is too large"),
                format!("choose a size from 1 to {LARGEST_MAX_WINDOW}, or average pooling"),
            ));
        }
        Windows::new(from, kernel, stride)
    }

    fn new(from: (usize, usize), kernel: usize, stride: usize) -> Result<Windows> {
        if kernel == 0 || stride == 0 {
            return Err(Error::setting(
                format!("a pool of size {kernel} and stride {stride} is empty"),
                "give both as 1 or more",
            ));
        }
        if kernel > from.0 || kernel > from.1 {
            return Err(Error::setting(
                format!("a {kernel} × {kernel} pool does not fit on an image of {} × {}", from.0, from.1),
                "choose a smaller pool, or fewer pools and strides before it",
            ));
        }
        let side = |n: usize| (n - kernel) / stride + 1;
        Ok(Windows { from, to: (side(from.0), side(from.1)), kernel, stride })
    }

    /// Two by two, side by side: the common case, which has loops of its own.
    #[inline(always)]
    fn quarters(&self) -> bool {
        self.kernel == 2 && self.stride == 2
    }

    /// Numbers of a channel going in.
    #[inline(always)]
    pub fn area(&self) -> usize {
        self.from.0 * self.from.1
    }

    /// Numbers of a channel coming out.
    #[inline(always)]
    pub fn pooled(&self) -> usize {
        self.to.0 * self.to.1
    }
}

/// One channel: the maximum of every window, and its position in the window (row · k + column; the first of equals).
#[inline(always)]
pub(super) fn max_plane<R: Real>(p: &Windows, x: &[R], out: &mut [R], index: &mut [u8]) {
    let (width, cols) = (p.from.1, p.to.1);
    if p.quarters() {
        for i in 0..p.to.0 {
            let (upper, lower) = x[2 * i * width..][..2 * width].split_at(width);
            let (upper, lower) = (&upper.as_chunks::<2>().0[..cols], &lower.as_chunks::<2>().0[..cols]);
            let (out, index) = (&mut out[i * cols..][..cols], &mut index[i * cols..][..cols]);
            for j in 0..cols {
                let ([a, b], [c, d]) = (upper[j], lower[j]);
                let (first, second) = (a.max(b), c.max(d));
                let (k, l) = ((b > a) as u8, 2 + (d > c) as u8);
                out[j] = first.max(second);
                index[j] = if second > first { l } else { k };
            }
        }
        return;
    }
    for i in 0..p.to.0 {
        for j in 0..cols {
            let corner = &x[i * p.stride * width + j * p.stride..];
            let (mut best, mut at) = (corner[0], 0);
            for u in 0..p.kernel {
                for v in 0..p.kernel {
                    let a = corner[u * width + v];
                    if a > best {
                        (best, at) = (a, u * p.kernel + v);
                    }
                }
            }
            out[i * cols + j] = best;
            index[i * cols + j] = at as u8;
        }
    }
}

/// The transpose of `max_plane` at the maxima it found: `dx` (overwritten) ← `delta` where the maximum was, 0 elsewhere.
#[inline(always)]
pub(super) fn max_plane_back<R: Real>(p: &Windows, delta: &[R], index: &[u8], dx: &mut [R]) {
    let (width, cols) = (p.from.1, p.to.1);
    if p.quarters() {
        if p.from.0 % 2 + width % 2 != 0 {
            dx.fill(R::ZERO);
        }
        for i in 0..p.to.0 {
            let (upper, lower) = dx[2 * i * width..][..2 * width].split_at_mut(width);
            let (upper, lower) = (&mut upper.as_chunks_mut::<2>().0[..cols], &mut lower.as_chunks_mut::<2>().0[..cols]);
            let (delta, index) = (&delta[i * cols..][..cols], &index[i * cols..][..cols]);
            for j in 0..cols {
                let (g, k) = (delta[j], index[j]);
                let at = |place: u8| if k == place { g } else { R::ZERO };
                upper[j] = [at(0), at(1)];
                lower[j] = [at(2), at(3)];
            }
        }
        return;
    }
    dx.fill(R::ZERO);
    for i in 0..p.to.0 {
        for j in 0..cols {
            let k = usize::from(index[i * cols + j]);
            let (y, x) = (i * p.stride + k / p.kernel, j * p.stride + k % p.kernel);
            dx[y * width + x] += delta[i * cols + j];
        }
    }
}

simd_fn! {
    fn max_image<R>(p: &Windows, x: &[R], out: &mut [R], index: &mut [u8]) {
        let planes = out.chunks_exact_mut(p.pooled()).zip(index.chunks_exact_mut(p.pooled()));
        for (x, (out, index)) in x.chunks_exact(p.area()).zip(planes) {
            max_plane(p, x, out, index);
        }
    }
}

simd_fn! {
    fn max_image_back<R>(p: &Windows, delta: &[R], index: &[u8], dx: &mut [R]) {
        let planes = delta.chunks_exact(p.pooled()).zip(index.chunks_exact(p.pooled()));
        for (dx, (delta, index)) in dx.chunks_exact_mut(p.area()).zip(planes) {
            max_plane_back(p, delta, index, dx);
        }
    }
}

simd_fn! {
    fn mean_image<R>(p: &Windows, x: &[R], out: &mut [R]) {
        let (width, cols, share) = (p.from.1, p.to.1, R::of(1.0 / (p.kernel * p.kernel) as f64));
        for (x, out) in x.chunks_exact(p.area()).zip(out.chunks_exact_mut(p.pooled())) {
            for i in 0..p.to.0 {
                for j in 0..cols {
                    let corner = &x[i * p.stride * width + j * p.stride..];
                    let mut sum = R::ZERO;
                    for u in 0..p.kernel {
                        for a in &corner[u * width..][..p.kernel] {
                            sum += *a;
                        }
                    }
                    out[i * cols + j] = sum * share;
                }
            }
        }
    }
}

simd_fn! {
    fn mean_image_back<R>(p: &Windows, delta: &[R], dx: &mut [R]) {
        let (width, cols, share) = (p.from.1, p.to.1, R::of(1.0 / (p.kernel * p.kernel) as f64));
        dx.fill(R::ZERO);
        for (dx, delta) in dx.chunks_exact_mut(p.area()).zip(delta.chunks_exact(p.pooled())) {
            for i in 0..p.to.0 {
                for j in 0..cols {
                    let g = delta[i * cols + j] * share;
                    let corner = &mut dx[i * p.stride * width + j * p.stride..];
                    for u in 0..p.kernel {
                        for a in &mut corner[u * width..][..p.kernel] {
                            *a += g;
                        }
                    }
                }
            }
        }
    }
}

/// Below this many numbers a pass stays on one thread.
const PARALLEL_FROM: usize = 1 << 16;

fn parallel(pass: &Pass, numbers: usize) -> bool {
    pass.threads == Threads::Pool && numbers >= PARALLEL_FROM
}

/// The image sizes of a shape that must be one.
pub(super) fn image_of(shape: Shape, who: &str) -> Result<(usize, usize, usize)> {
    match shape {
        Shape::Image { channels, height, width } if !shape.is_empty() => Ok((channels, height, width)),
        Shape::Image { .. } => {
            Err(Error::setting(format!("{who} got an image without pixels"), "give sizes of 1 or more"))
        }
        Shape::Flat(n) => Err(Error::setting(
            format!("{who} needs an image, and got {n} numbers in a row"),
            "use it on image data (IDX, or arrays of three or four axes), before any dense or flatten layer",
        )),
    }
}

/// The largest number of every window.
#[derive(Debug, Clone)]
pub struct MaxPool {
    channels: usize,
    windows: Windows,
}

/// The mean of every window.
#[derive(Debug, Clone)]
pub struct AvgPool {
    channels: usize,
    windows: Windows,
}

impl MaxPool {
    /// Windows of `kernel × kernel` (at most 16), `stride` apart.
    pub fn new(input: Shape, kernel: usize, stride: usize) -> Result<MaxPool> {
        let (channels, height, width) = image_of(input, "a max pool")?;
        Ok(MaxPool { channels, windows: Windows::largest((height, width), kernel, stride)? })
    }
}

impl AvgPool {
    /// Windows of `kernel × kernel`, `stride` apart.
    pub fn new(input: Shape, kernel: usize, stride: usize) -> Result<AvgPool> {
        let (channels, height, width) = image_of(input, "an average pool")?;
        Ok(AvgPool { channels, windows: Windows::new((height, width), kernel, stride)? })
    }
}

macro_rules! pool_shapes {
    ($name:ident, $word:literal) => {
        impl Node for $name {
            fn describe(&self) -> String {
                let p = &self.windows;
                let stride = if p.stride == p.kernel { String::new() } else { format!(" stride {}", p.stride) };
                format!(concat!($word, " pool {}{}"), p.kernel, stride)
            }
            fn inputs(&self) -> Vec<Shape> {
                let (height, width) = self.windows.from;
                vec![Shape::Image { channels: self.channels, height, width }]
            }
            fn output(&self) -> Shape {
                let (height, width) = self.windows.to;
                Shape::Image { channels: self.channels, height, width }
            }
            fn is_random(&self) -> bool {
                false
            }
        }
    };
}
pool_shapes!(MaxPool, "max");
pool_shapes!(AvgPool, "average");

impl<R: Real> NodeOps<R> for MaxPool {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        let n = rows * self.output().len();
        NodeSpace { out: vec![R::ZERO; n], delta: vec![R::ZERO; n], index: vec![0; n], ..NodeSpace::default() }
    }

    fn forward(&self, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>) {
        let x = x[0];
        let n = self.output().len();
        let (out, index) = (&mut space.out[..x.rows * n], &mut space.index[..x.rows * n]);
        if parallel(pass, x.data.len()) {
            out.par_chunks_exact_mut(n)
                .zip(index.par_chunks_exact_mut(n))
                .zip(x.data.par_chunks_exact(x.cols))
                .for_each(|((out, index), x)| max_image(&self.windows, x, out, index));
        } else {
            max_image(&self.windows, x.data, out, index);
        }
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let x = x[0];
        let n = self.output().len();
        let (delta, index, dx) = (&space.delta[..x.rows * n], &space.index[..x.rows * n], &mut dx[..x.data.len()]);
        if parallel(pass, x.data.len()) {
            dx.par_chunks_exact_mut(x.cols)
                .zip(delta.par_chunks_exact(n))
                .zip(index.par_chunks_exact(n))
                .for_each(|((dx, delta), index)| max_image_back(&self.windows, delta, index, dx));
        } else {
            max_image_back(&self.windows, delta, index, dx);
        }
    }
}

impl<R: Real> NodeOps<R> for AvgPool {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        let n = rows * self.output().len();
        NodeSpace { out: vec![R::ZERO; n], delta: vec![R::ZERO; n], ..NodeSpace::default() }
    }

    fn forward(&self, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>) {
        let x = x[0];
        let n = self.output().len();
        let out = &mut space.out[..x.rows * n];
        if parallel(pass, x.data.len()) {
            out.par_chunks_exact_mut(n)
                .zip(x.data.par_chunks_exact(x.cols))
                .for_each(|(out, x)| mean_image(&self.windows, x, out));
        } else {
            mean_image(&self.windows, x.data, out);
        }
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let x = x[0];
        let n = self.output().len();
        let (delta, dx) = (&space.delta[..x.rows * n], &mut dx[..x.data.len()]);
        if parallel(pass, x.data.len()) {
            dx.par_chunks_exact_mut(x.cols)
                .zip(delta.par_chunks_exact(n))
                .for_each(|(dx, delta)| mean_image_back(&self.windows, delta, dx));
        } else {
            mean_image_back(&self.windows, delta, dx);
        }
    }
}
