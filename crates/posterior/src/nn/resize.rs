//! Up-sampling (nearest, bilinear) and pixel shuffle of images.
//!
//! Up-sampling by f: out[y, x] reads the image at ((y + ½)/f − ½, (x + ½)/f − ½), clamped to it; nearest takes the pixel ⌊y/f⌋, ⌊x/f⌋, bilinear
//! the four around, as PyTorch's `Upsample` with align_corners=False. Pixel shuffle: out[c][y·f + i][x·f + j] = in[c·f² + i·f + j][y][x] (Shi et al.
//! 2016). All are linear, so the vjp is the transpose. Cost: one, four, one multiply-adds per number that comes out.

use super::node::{Node, NodeOps, NodeSpace, Pass, Shape};
use super::pool::image_of;
use crate::error::{Error, Result};
use crate::math::{MatRef, Real, Threads};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// How pixels between those of an image are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Interpolation {
    /// The nearest pixel.
    #[default]
    Nearest,
    /// Linear in both directions.
    Bilinear,
}

/// Times a side grows, at most.
const LARGEST_FACTOR: usize = 64;
/// Numbers of a row that comes out, at most.
const LARGEST_OUTPUT: usize = 1 << 32;
/// Below this many numbers a pass stays on one thread.
const PARALLEL_FROM: usize = 1 << 16;

fn check_factor(what: &str, factor: usize) -> Result<()> {
    if (1..=LARGEST_FACTOR).contains(&factor) {
        return Ok(());
    }
    let fix = format!("choose a whole number from 1 to {LARGEST_FACTOR}");
    Err(Error::setting(format!("{what} cannot have the factor {factor}"), fix))
}

/// Rows stand by themselves: `run` gets each row of `from` (read) and `to` (written), on all threads where it is worth it.
pub(super) fn by_row<R: Real>(
    pass: &Pass,
    (from, to): (&[R], &mut [R]),
    (width_from, width_to): (usize, usize),
    run: impl Fn(&[R], &mut [R]) + Sync,
) {
    if pass.threads == Threads::Pool && from.len().max(to.len()) >= PARALLEL_FROM {
        let rows = to.par_chunks_exact_mut(width_to).zip(from.par_chunks_exact(width_from));
        rows.for_each(|(to, from)| run(from, to));
    } else {
        to.chunks_exact_mut(width_to).zip(from.chunks_exact(width_from)).for_each(|(to, from)| run(from, to));
    }
}

/// One position between two pixels of a line: their numbers, and the share of the second.
#[derive(Debug, Clone, Copy)]
struct Tap {
    first: usize,
    second: usize,
    share: f64,
}

/// Where every pixel of a longer line comes from.
fn taps(size: usize, factor: usize, how: Interpolation) -> Vec<Tap> {
    let tap = |i: usize| match how {
        Interpolation::Nearest => Tap { first: i / factor, second: i / factor, share: 0.0 },
        Interpolation::Bilinear => {
            let at = ((i as f64 + 0.5) / factor as f64 - 0.5).clamp(0.0, (size - 1) as f64);
            let first = at as usize;
            Tap { first, second: (first + 1).min(size - 1), share: at - first as f64 }
        }
    };
    (0..size * factor).map(tap).collect()
}

/// Images `factor` times as high and wide.
#[derive(Debug, Clone)]
pub struct Upsample {
    image: (usize, usize, usize),
    factor: usize,
    how: Interpolation,
    rows: Vec<Tap>,
    columns: Vec<Tap>,
}

impl Upsample {
    /// Of images alone.
    pub fn new(input: Shape, factor: usize, how: Interpolation) -> Result<Upsample> {
        let image = image_of(input, "up-sampling")?;
        check_factor("up-sampling", factor)?;
        if input.len().checked_mul(factor * factor).is_none_or(|n| n > LARGEST_OUTPUT) {
            return Err(Error::setting(format!("{input} cannot grow {factor} times"), "choose a smaller factor"));
        }
        let (_, height, width) = image;
        Ok(Upsample { image, factor, how, rows: taps(height, factor, how), columns: taps(width, factor, how) })
    }

    /// Calls `f` with (pixel out, pixel in, weight) for every term of every output of one channel, in a fixed order.
    #[inline(always)]
    fn terms(&self, mut f: impl FnMut(usize, usize, f64)) {
        let width = self.image.2;
        for (y, row) in self.rows.iter().enumerate() {
            for (x, column) in self.columns.iter().enumerate() {
                let out = y * self.columns.len() + x;
                match self.how {
                    Interpolation::Nearest => f(out, row.first * width + column.first, 1.0),
                    Interpolation::Bilinear => {
                        let (down, right) = (row.share, column.share);
                        f(out, row.first * width + column.first, (1.0 - down) * (1.0 - right));
                        f(out, row.first * width + column.second, (1.0 - down) * right);
                        f(out, row.second * width + column.first, down * (1.0 - right));
                        f(out, row.second * width + column.second, down * right);
                    }
                }
            }
        }
    }
}

impl<R: Real> NodeOps<R> for Upsample {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        NodeSpace::with_output(rows * self.output().len())
    }

    fn forward(&self, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>) {
        let (n, area) = (self.output().len(), self.image.1 * self.image.2);
        by_row(pass, (x[0].data, &mut space.out[..x[0].rows * n]), (x[0].cols, n), |x, out| {
            out.fill(R::ZERO);
            for (x, out) in x.chunks_exact(area).zip(out.chunks_exact_mut(area * self.factor * self.factor)) {
                self.terms(|to, from, weight| out[to] += x[from] * R::of(weight));
            }
        });
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let (n, area) = (self.output().len(), self.image.1 * self.image.2);
        by_row(pass, (&space.delta[..x[0].rows * n], &mut dx[..x[0].data.len()]), (n, x[0].cols), |delta, dx| {
            dx.fill(R::ZERO);
            for (dx, delta) in dx.chunks_exact_mut(area).zip(delta.chunks_exact(area * self.factor * self.factor)) {
                self.terms(|from, to, weight| dx[to] += delta[from] * R::of(weight));
            }
        });
    }
}

impl Node for Upsample {
    fn describe(&self) -> String {
        match self.how {
            Interpolation::Nearest => format!("upsample {}", self.factor),
            Interpolation::Bilinear => format!("upsample {} bilinear", self.factor),
        }
    }
    fn inputs(&self) -> Vec<Shape> {
        let (channels, height, width) = self.image;
        vec![Shape::Image { channels, height, width }]
    }
    fn output(&self) -> Shape {
        let (channels, height, width) = self.image;
        Shape::Image { channels, height: height * self.factor, width: width * self.factor }
    }
    fn is_random(&self) -> bool {
        false
    }
}

/// f² channels become one that is f times as high and wide.
#[derive(Debug, Clone)]
pub struct PixelShuffle {
    image: (usize, usize, usize),
    factor: usize,
}

impl PixelShuffle {
    /// Of images whose channels are a multiple of `factor²`.
    pub fn new(input: Shape, factor: usize) -> Result<PixelShuffle> {
        let image = image_of(input, "a pixel shuffle")?;
        check_factor("a pixel shuffle", factor)?;
        if !image.0.is_multiple_of(factor * factor) {
            return Err(Error::setting(
                format!("{} channels cannot be shuffled by the factor {factor}", image.0),
                format!("give a multiple of {} channels", factor * factor),
            ));
        }
        Ok(PixelShuffle { image, factor })
    }

    /// Calls `f` with (place out, place in) for every number of a row.
    #[inline(always)]
    fn places(&self, mut f: impl FnMut(usize, usize)) {
        let ((channels, height, width), r) = (self.image, self.factor);
        for c in 0..channels {
            let (plane, i, j) = (c / (r * r), c / r % r, c % r);
            for y in 0..height {
                for x in 0..width {
                    let out = (plane * height * r + y * r + i) * width * r + x * r + j;
                    f(out, (c * height + y) * width + x);
                }
            }
        }
    }
}

impl<R: Real> NodeOps<R> for PixelShuffle {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        NodeSpace::with_output(rows * self.output().len())
    }

    fn forward(&self, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>) {
        let n = x[0].cols;
        by_row(pass, (x[0].data, &mut space.out[..x[0].rows * n]), (n, n), |x, out| {
            self.places(|to, from| out[to] = x[from]);
        });
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let n = x[0].cols;
        by_row(pass, (&space.delta[..x[0].rows * n], &mut dx[..x[0].rows * n]), (n, n), |delta, dx| {
            self.places(|from, to| dx[to] = delta[from]);
        });
    }
}

impl Node for PixelShuffle {
    fn describe(&self) -> String {
        format!("pixel shuffle {}", self.factor)
    }
    fn inputs(&self) -> Vec<Shape> {
        let (channels, height, width) = self.image;
        vec![Shape::Image { channels, height, width }]
    }
    fn output(&self) -> Shape {
        let ((channels, height, width), r) = (self.image, self.factor);
        Shape::Image { channels: channels / (r * r), height: height * r, width: width * r }
    }
    fn is_random(&self) -> bool {
        false
    }
}
