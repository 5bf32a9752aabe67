//! Convolution, with bias, activation and max pool in the same pass.
//!
//! out[o] = pool(φ(Σ_{c,u,v} w[o,c,u,v] · x[c, i·s + u − p, j·s + v − p] + b[o])), where pool is optional. A monotone φ and the maximum
//! change places: φ(max(raw) + b) needs φ once per window.
//!
//! A group of images becomes columns and one matrix product (2·out·patch·area operations an image; twice that backward,
//! and again for the gradient in x). Columns are made anew for the backward pass: cheaper than keeping them. The groups
//! of a batch form at most eight teams by a rule that knows only the number of rows; a team has a weight gradient of its own, and
//! these are added in order, so that any number of threads gives the same bits.

use super::activation::Activation;
use super::im2col::{Epilogue, Geometry, col2im, finish, im2col, through_activation, unfinish};
use super::layer::{Layer, LayerOps, LayerSpace, Pass, Shape};
use super::layout::{BlockSpec, Role};
use super::pool::{Windows, image_of};
use crate::error::{Error, Result};
use crate::math::elementwise::axpy;
use crate::math::{Mat, MatRef, Real, Threads, gemm};

/// Images in a group, unless they are large.
const GROUP: usize = 8;
/// Numbers of columns in a group, at most (one image may need more).
const COLUMNS: usize = 1 << 22;
/// Teams of a batch, at most.
const TEAMS: usize = 8;
/// Numbers of all teams' gradients together, at most (two teams may need more).
const GRADIENTS: usize = 1 << 23;

/// A convolution of images. `w` is the kernels `[out, in, kh, kw]`, then a bias for every output channel.
#[derive(Debug, Clone)]
pub struct Conv {
    geometry: Geometry,
    channels: usize,
    epilogue: Epilogue,
    group: usize,
    teams: usize,
}

impl Conv {
    /// A convolution with `channels` kernels of `kernel` (height, width), `stride` apart, on images with `padding` zeros around;
    /// then the activation; then, if asked for, the maximum over `pool × pool` windows side by side (what does not fill a
    /// window is dropped). With a pool the activation must be monotone.
    pub fn new(
        input: Shape,
        channels: usize,
        kernel: (usize, usize),
        stride: usize,
        padding: usize,
        activation: Activation,
        pool: Option<usize>,
    ) -> Result<Conv> {
        let (in_channels, height, width) = image_of(input, "a convolution")?;
        let (kh, kw) = kernel;
        if channels == 0 || kh == 0 || kw == 0 || stride == 0 {
            return Err(Error::setting(
                format!("a convolution of {channels} channels with a {kh} × {kw} kernel and stride {stride} is empty"),
                "give channels, kernel and stride as 1 or more",
            ));
        }
        let too_large = || {
            Error::setting(
                format!("a convolution of {channels} channels, kernel {kh} × {kw}, padding {padding} is too large"),
                "choose smaller numbers",
            )
        };
        let padded = |n: usize| padding.checked_mul(2).and_then(|p| p.checked_add(n)).ok_or_else(too_large);
        let (tall, wide) = (padded(height)?, padded(width)?);
        if kh > tall || kw > wide {
            return Err(Error::setting(
                format!("a {kh} × {kw} kernel is larger than the {height} × {width} image with padding {padding}"),
                "choose a smaller kernel or more padding",
            ));
        }
        let (out_height, out_width) = ((tall - kh) / stride + 1, (wide - kw) / stride + 1);
        let product = |sizes: &[usize]| {
            sizes.iter().try_fold(1usize, |a, b| a.checked_mul(*b)).filter(|n| *n < 1 << 48).ok_or_else(too_large)
        };
        let patch = product(&[in_channels, kh, kw])?;
        let columns = product(&[patch, out_height, out_width])?;
        product(&[channels, out_height, out_width])?;
        let parameters = product(&[channels, patch + 1])?;
        let pool = match pool {
            Some(_) if !activation.monotone() => {
                return Err(Error::setting(
                    format!("the activation {activation:?} rises and falls, so it cannot be fused with a max pool"),
                    "put the pool in a layer of its own",
                ));
            }
            Some(k) => Some(Windows::largest((out_height, out_width), k, k)?),
            None => None,
        };
        Ok(Conv {
            geometry: Geometry { channels: in_channels, height, width, kernel, stride, padding, out_height, out_width },
            channels,
            epilogue: Epilogue { area: out_height * out_width, activation, pool },
            group: (COLUMNS / columns).clamp(1, GROUP),
            teams: (GRADIENTS / parameters).clamp(2, TEAMS),
        })
    }

    /// Kernels without the bias.
    fn weights(&self) -> usize {
        self.channels * self.geometry.patch()
    }

    /// Rows of a team (all but the last have as many) and number of teams.
    fn split(&self, rows: usize) -> (usize, usize) {
        let team = rows.div_ceil(self.group).div_ceil(self.teams).max(1) * self.group;
        (team, rows.div_ceil(team))
    }

    /// Runs `run` on lanes of whole teams, one lane per thread; every lane has buffers of its own.
    fn lanes<R: Real, W: Work>(
        &self,
        rows: usize,
        pass: &Pass,
        work: W,
        buffers: &mut [Vec<R>],
        run: impl Fn(W, &mut [R]) + Sync,
    ) {
        let (team, teams) = self.split(rows);
        let threads = if pass.threads == Threads::Pool { rayon::current_num_threads() } else { 1 };
        let share = teams.div_ceil(threads.min(buffers.len()).max(1)).max(1);
        spread(work, &mut buffers[..teams.div_ceil(share)], share, team, &run);
    }
}

/// The slices of a batch, which can be cut after a number of teams and the rows that these have.
trait Work: Send + Sized {
    fn cut(self, teams: usize, rows: usize) -> (Self, Self);
}

fn spread<R: Real, W: Work>(
    work: W,
    buffers: &mut [Vec<R>],
    share: usize,
    team: usize,
    run: &(impl Fn(W, &mut [R]) + Sync),
) {
    match buffers {
        [] => {}
        [buffer] => run(work, buffer),
        _ => {
            let half = buffers.len() / 2;
            let (first, second) = buffers.split_at_mut(half);
            let (a, b) = work.cut(half * share, half * share * team);
            rayon::join(|| spread(a, first, share, team, run), || spread(b, second, share, team, run));
        }
    }
}

fn cut<T>(s: &[T], at: usize) -> (&[T], &[T]) {
    s.split_at(at.min(s.len()))
}

fn cut_mut<T>(s: &mut [T], at: usize) -> (&mut [T], &mut [T]) {
    let at = at.min(s.len());
    s.split_at_mut(at)
}

/// What forward reads and writes. `index` is empty without a pool, `pre` unless the slope needs the pre-activation.
struct Forward<'a, R> {
    sizes: (usize, usize),
    x: &'a [R],
    out: &'a mut [R],
    index: &'a mut [u8],
    pre: &'a mut [R],
}

impl<R: Real> Work for Forward<'_, R> {
    fn cut(self, _teams: usize, rows: usize) -> (Self, Self) {
        let (sizes, n) = (self.sizes, rows * self.sizes.1);
        let (x, x2) = cut(self.x, rows * sizes.0);
        let (out, out2) = cut_mut(self.out, n);
        let (index, index2) = cut_mut(self.index, n);
        let (pre, pre2) = cut_mut(self.pre, n);
        (Forward { sizes, x, out, index, pre }, Forward { sizes, x: x2, out: out2, index: index2, pre: pre2 })
    }
}

/// What backward reads and writes; `grads` has a weight and bias gradient for every team.
struct Backward<'a, R> {
    sizes: (usize, usize, usize),
    x: &'a [R],
    out: &'a [R],
    index: &'a [u8],
    pre: &'a [R],
    delta: &'a mut [R],
    dx: Option<&'a mut [R]>,
    grads: &'a mut [R],
}

impl<R: Real> Work for Backward<'_, R> {
    fn cut(self, teams: usize, rows: usize) -> (Self, Self) {
        let (sizes, n) = (self.sizes, rows * self.sizes.1);
        let (x, x2) = cut(self.x, rows * sizes.0);
        let (out, out2) = cut(self.out, n);
        let (index, index2) = cut(self.index, n);
        let (pre, pre2) = cut(self.pre, n);
        let (delta, delta2) = cut_mut(self.delta, n);
        let (dx, dx2) = self.dx.map(|d| cut_mut(d, rows * sizes.0)).unzip();
        let (grads, grads2) = cut_mut(self.grads, teams * sizes.2);
        (
            Backward { sizes, x, out, index, pre, delta, dx, grads },
            Backward { sizes, x: x2, out: out2, index: index2, pre: pre2, delta: delta2, dx: dx2, grads: grads2 },
        )
    }
}

impl<R: Real> LayerOps<R> for Conv {
    /// `scratch` holds the teams' gradients, the pre-activations if the slope needs them, then one buffer per lane for
    /// columns and product. Untouched memory costs nothing, and only as many lanes are touched as there are threads.
    fn space(&self, rows: usize) -> LayerSpace<R> {
        let n = rows * self.output().len();
        let lanes = rows.div_ceil(self.group).min(self.teams);
        let pre = if self.epilogue.activation.slope_needs_input() { n } else { 0 };
        let buffer = (self.geometry.patch() + self.channels) * self.geometry.area() * self.group.min(rows);
        let sizes = [lanes * (self.weights() + self.channels), pre].into_iter().chain((0..lanes).map(|_| buffer));
        LayerSpace {
            out: vec![R::ZERO; n],
            delta: vec![R::ZERO; n],
            scratch: sizes.map(|size| vec![R::ZERO; size]).collect(),
            index: vec![0; if self.epilogue.pool.is_some() { n } else { 0 }],
            children: Vec::new(),
        }
    }

    fn forward(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, space: &mut LayerSpace<R>) {
        let g = &self.geometry;
        let (image, outs, patch, area) = (g.image(), self.output().len(), g.patch(), g.area());
        let (weights, bias) = w.split_at(self.weights());
        let n = x.rows * outs;
        let (kept, buffers) = space.scratch.split_at_mut(2);
        let (index, pre) = (cut_mut(&mut space.index, n).0, cut_mut(&mut kept[1], n).0);
        let work = Forward { sizes: (image, outs), x: x.data, out: &mut space.out[..n], index, pre };
        self.lanes(x.rows, pass, work, buffers, |mut work, buffer| {
            while !work.x.is_empty() {
                let (now, later) = work.cut(0, self.group);
                work = later;
                let count = now.x.len() / image;
                let ld = count * area;
                let (col, y) = buffer.split_at_mut(patch * ld);
                let y = &mut y[..self.channels * ld];
                im2col(g, now.x, count, col);
                let shape = (self.channels, ld, patch);
                gemm(shape, y, false, Mat::rows_of(weights, patch), Mat::rows_of(col, ld), Threads::One);
                finish(&self.epilogue, y, bias, now.out, now.index, now.pre);
            }
        });
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
        let g = &self.geometry;
        let (image, outs, patch, area) = (g.image(), self.output().len(), g.patch(), g.area());
        let weights = &w[..self.weights()];
        let n = x.rows * outs;
        let (team, teams) = self.split(x.rows);
        let (kept, buffers) = space.scratch.split_at_mut(2);
        let [grads, pre] = kept else { return };
        let grads = &mut grads[..teams * w.len()];
        let work = Backward {
            sizes: (image, outs, w.len()),
            x: x.data,
            out: &space.out[..n],
            index: cut(&space.index, n).0,
            pre: cut(pre, n).0,
            delta: &mut space.delta[..n],
            dx: dx.map(|d| &mut d[..x.data.len()]),
            grads,
        };
        let one_group = |now: Backward<'_, R>, grad: &mut [R], first: bool, buffer: &mut [R]| {
            let count = now.x.len() / image;
            let ld = count * area;
            let (col, y) = buffer.split_at_mut(patch * ld);
            let y = &mut y[..self.channels * ld];
            let (grad, bias) = grad.split_at_mut(weights.len());
            if first {
                bias.fill(R::ZERO);
            }
            let pre = if now.pre.is_empty() { now.out } else { now.pre };
            through_activation(self.epilogue.activation, pre, now.out, now.delta);
            unfinish(&self.epilogue, now.delta, now.index, y, bias);
            im2col(g, now.x, count, col);
            let shape = (self.channels, patch, ld);
            gemm(shape, grad, !first, Mat::rows_of(y, ld), Mat::transposed(col, ld), Threads::One);
            if let Some(dx) = now.dx {
                let shape = (patch, ld, self.channels);
                gemm(shape, col, false, Mat::transposed(weights, patch), Mat::rows_of(y, ld), Threads::One);
                col2im(g, col, count, dx);
            }
        };
        self.lanes(x.rows, pass, work, buffers, |mut work, buffer| {
            while !work.x.is_empty() {
                let (mut now, later) = work.cut(1, team);
                work = later;
                let grad = std::mem::take(&mut now.grads);
                let mut first = true;
                while !now.x.is_empty() {
                    let (group, rest) = now.cut(0, self.group);
                    now = rest;
                    one_group(group, grad, first, buffer);
                    first = false;
                }
            }
        });
        if !accumulate {
            grad.fill(R::ZERO);
        }
        for team in space.scratch[0][..teams * w.len()].chunks_exact(w.len()) {
            axpy(R::ONE, team, grad);
        }
    }
}

impl Layer for Conv {
    fn describe(&self) -> String {
        let g = &self.geometry;
        let mut text = format!("conv {}@{}×{}", self.channels, g.kernel.0, g.kernel.1);
        if g.stride != 1 {
            text += &format!(" stride {}", g.stride);
        }
        if g.padding != 0 {
            text += &format!(" padding {}", g.padding);
        }
        if self.epilogue.activation != Activation::Identity {
            text += &format!(" {}", self.epilogue.activation.name());
        }
        if let Some(pool) = &self.epilogue.pool {
            text += &format!(" max pool {}", pool.kernel);
        }
        text
    }

    fn input(&self) -> Shape {
        let g = &self.geometry;
        Shape::Image { channels: g.channels, height: g.height, width: g.width }
    }

    fn output(&self) -> Shape {
        let (height, width) = self.epilogue.pool.map_or((self.geometry.out_height, self.geometry.out_width), |p| p.to);
        Shape::Image { channels: self.channels, height, width }
    }

    fn blocks(&self) -> Vec<BlockSpec> {
        let g = &self.geometry;
        let shape = vec![self.channels, g.channels, g.kernel.0, g.kernel.1];
        vec![
            BlockSpec::new("weight", shape, Role::Weight, g.patch()).gain(self.epilogue.activation.gain()),
            BlockSpec::new("bias", vec![self.channels], Role::Bias, g.patch()),
        ]
    }
}
