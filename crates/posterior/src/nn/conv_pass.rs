//! The passes of a convolution: columns, products, teams.
//!
//! A group of images becomes columns and one matrix product (2·out·patch·area operations an image; twice that backward,
//! and again for the gradient in x; all of it twice with row noise). Columns are made anew for the backward pass: cheaper
//! than keeping them. The groups of a batch form a few teams by a rule that knows only the number of rows; a team has a
//! weight gradient of its own, and these are added in order, so that any number of threads gives the same bits.

use super::affine::{Affine, AffineOps};
use super::conv::Conv;
use super::im2col::{col2im, finish, im2col, through_activation, unfinish};
use super::node::{NodeSpace, Pass};
use super::noisy::{
    Gradient, Noisy, Weights, add_columns_gradient, add_noise, change_columns, fill_channels, grow, multiply_and_sum,
    noise_key,
};
use crate::math::elementwise::axpy;
use crate::math::{Mat, MatRef, Real, Threads, gemm};
use crate::rng::{Key, Normals};

impl Conv {
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

    /// Numbers of the product of `count` images.
    fn products(&self, count: usize) -> usize {
        self.channels * self.geometry.area() * count
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

/// Numbers of one row in the slices that are cut.
#[derive(Clone, Copy)]
struct Sizes {
    input: usize,
    output: usize,
    /// Before the pool.
    product: usize,
    /// Gradients of a team.
    team: usize,
}

/// What forward reads and writes. `index` is empty without a pool, `pre` unless the slope needs the pre-activation,
/// `factor` without row noise. `row` is the number of the first row.
struct Forward<'a, R> {
    sizes: Sizes,
    row: u64,
    x: &'a [R],
    out: &'a mut [R],
    index: &'a mut [u8],
    pre: &'a mut [R],
    factor: &'a mut [R],
}

impl<R: Real> Work for Forward<'_, R> {
    fn cut(self, _teams: usize, rows: usize) -> (Self, Self) {
        let (sizes, n, row) = (self.sizes, rows * self.sizes.output, self.row);
        let (x, x2) = cut(self.x, rows * sizes.input);
        let (out, out2) = cut_mut(self.out, n);
        let (index, index2) = cut_mut(self.index, n);
        let (pre, pre2) = cut_mut(self.pre, n);
        let (factor, factor2) = cut_mut(self.factor, rows * sizes.product);
        let later = row + rows as u64;
        (
            Forward { sizes, row, x, out, index, pre, factor },
            Forward { sizes, row: later, x: x2, out: out2, index: index2, pre: pre2, factor: factor2 },
        )
    }
}

/// What backward reads and writes; `grads` has a gradient for every team.
struct Backward<'a, R> {
    sizes: Sizes,
    row: u64,
    x: &'a [R],
    out: &'a [R],
    index: &'a [u8],
    pre: &'a [R],
    factor: &'a [R],
    delta: &'a mut [R],
    dx: Option<&'a mut [R]>,
    grads: &'a mut [R],
}

impl<R: Real> Work for Backward<'_, R> {
    fn cut(self, teams: usize, rows: usize) -> (Self, Self) {
        let (sizes, n, row) = (self.sizes, rows * self.sizes.output, self.row);
        let (x, x2) = cut(self.x, rows * sizes.input);
        let (out, out2) = cut(self.out, n);
        let (index, index2) = cut(self.index, n);
        let (pre, pre2) = cut(self.pre, n);
        let (factor, factor2) = cut(self.factor, rows * sizes.product);
        let (delta, delta2) = cut_mut(self.delta, n);
        let (dx, dx2) = self.dx.map(|d| cut_mut(d, rows * sizes.input)).unzip();
        let (grads, grads2) = cut_mut(self.grads, teams * sizes.team);
        let first = Backward { sizes, row, x, out, index, pre, factor, delta, dx, grads };
        let (x, out, index, pre, factor) = (x2, out2, index2, pre2, factor2);
        let (delta, dx, grads, row) = (delta2, dx2, grads2, row + rows as u64);
        (first, Backward { sizes, row, x, out, index, pre, factor, delta, dx, grads })
    }
}

impl Conv {
    fn pass_forward<R: Normals>(&self, w: Weights<'_, R>, x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>) {
        let g = &self.geometry;
        let (image, patch, area) = (g.image(), g.patch(), g.area());
        let (weights, bias) = w.centre().split_at(self.weights());
        self.make_room(&w, x.rows, space);
        let n = x.rows * self.output().len();
        let (kept, buffers) = space.scratch.split_at_mut(KEPT);
        let [_, pre, factor] = kept else { return };
        let noisy = if let Weights::Noisy(w) = w { Some(w) } else { None };
        let work = Forward {
            sizes: self.sizes(w.centre().len()),
            row: pass.first_row,
            x: x.data,
            out: &mut space.out[..n],
            index: cut_mut(&mut space.index, n).0,
            pre: cut_mut(pre, n).0,
            factor: cut_mut(factor, if noisy.is_some() { self.products(x.rows) } else { 0 }).0,
        };
        let key = noise_key(pass.mode, pass.layer);
        self.lanes(x.rows, pass, work, buffers, |mut work, buffer| {
            while !work.x.is_empty() {
                let (now, later) = work.cut(0, self.group);
                work = later;
                let count = now.x.len() / image;
                let ld = count * area;
                let (col, rest) = buffer.split_at_mut(patch * ld);
                let (y, t) = rest.split_at_mut(self.channels * ld);
                im2col(g, now.x, count, col);
                let shape = (self.channels, ld, patch);
                gemm(shape, y, false, Mat::rows_of(weights, patch), Mat::rows_of(col, ld), Threads::One);
                if let Some(w) = &noisy {
                    let t = &mut t[..self.channels * ld];
                    change_columns(w.noise, key, now.row, g, count, col);
                    let (spread, spread_bias) = w.spread.split_at(weights.len());
                    gemm(shape, t, false, Mat::rows_of(spread, patch), Mat::rows_of(col, ld), Threads::One);
                    fill_channels(w.noise, key, now.row, (self.channels, count, area), now.factor);
                    let parts = y.chunks_exact_mut(ld).zip(t.chunks_exact(ld)).zip(now.factor.chunks_exact_mut(ld));
                    for (((y, t), factor), bias) in parts.zip(spread_bias) {
                        add_noise(w.noise, *bias, t, y, factor);
                    }
                }
                finish(&self.epilogue, y, bias, now.out, now.index, now.pre);
            }
        });
    }

    fn pass_backward<R: Normals>(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut NodeSpace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        let (team, teams) = self.split(x.rows);
        let image = self.geometry.image();
        let n = x.rows * self.output().len();
        let noisy = if let Weights::Noisy(w) = w { Some(w) } else { None };
        let centre = w.centre();
        let sizes = self.sizes(centre.len() * if noisy.is_some() { 2 } else { 1 });
        let (kept, buffers) = space.scratch.split_at_mut(KEPT);
        let [grads, pre, factor] = kept else { return };
        let work = Backward {
            sizes,
            row: pass.first_row,
            x: x.data,
            out: &space.out[..n],
            index: cut(&space.index, n).0,
            pre: cut(pre, n).0,
            factor: cut(factor, self.products(x.rows)).0,
            delta: &mut space.delta[..n],
            dx: dx.map(|d| &mut d[..x.data.len()]),
            grads: &mut grads[..teams * sizes.team],
        };
        let key = noise_key(pass.mode, pass.layer);
        self.lanes(x.rows, pass, work, buffers, |mut work, buffer| {
            while !work.x.is_empty() {
                let (mut now, later) = work.cut(1, team);
                work = later;
                let (centre_grad, spread_grad) = std::mem::take(&mut now.grads).split_at_mut(centre.len());
                let mut first = true;
                while !now.x.is_empty() {
                    let (group, rest) = now.cut(0, self.group);
                    now = rest;
                    let count = group.x.len() / image;
                    let gradient = Gradient { centre: &mut *centre_grad, spread: &mut *spread_grad };
                    self.backward_group(centre, noisy, group, count, key, gradient, first, buffer);
                    first = false;
                }
            }
        });
        if !accumulate {
            grad.centre.fill(R::ZERO);
            grad.spread.fill(R::ZERO);
        }
        for team in space.scratch[0][..teams * sizes.team].chunks_exact(sizes.team) {
            let (of_centre, of_spread) = team.split_at(centre.len());
            axpy(R::ONE, of_centre, grad.centre);
            if noisy.is_some() {
                axpy(R::ONE, of_spread, grad.spread);
            }
        }
    }

    /// One group of images on its way back.
    fn backward_group<R: Normals>(
        &self,
        w: &[R],
        noisy: Option<Noisy<'_, R>>,
        now: Backward<'_, R>,
        count: usize,
        key: Option<Key>,
        grad: Gradient<'_, R>,
        first: bool,
        buffer: &mut [R],
    ) {
        let g = &self.geometry;
        let (patch, weights) = (g.patch(), self.weights());
        let ld = count * g.area();
        let (col, rest) = buffer.split_at_mut(patch * ld);
        let (y, rest) = rest.split_at_mut(self.channels * ld);
        let (d_weight, d_bias) = grad.centre.split_at_mut(weights);
        if first {
            d_bias.fill(R::ZERO);
        }
        let pre = if now.pre.is_empty() { now.out } else { now.pre };
        through_activation(self.epilogue.activation, pre, now.out, now.delta);
        unfinish(&self.epilogue, now.delta, now.index, y, d_bias);
        im2col(g, now.x, count, col);
        let shape = (self.channels, patch, ld);
        gemm(shape, d_weight, !first, Mat::rows_of(y, ld), Mat::transposed(col, ld), Threads::One);
        let back = (patch, ld, self.channels);
        let weight_t = Mat::transposed(&w[..weights], patch);
        let Some(noisy) = noisy else {
            if let Some(dx) = now.dx {
                gemm(back, col, false, weight_t, Mat::rows_of(y, ld), Threads::One);
                col2im(g, col, count, dx);
            }
            return;
        };
        let (e, rest) = rest.split_at_mut(self.channels * ld);
        let (d_spread, d_spread_bias) = grad.spread.split_at_mut(weights);
        if first {
            d_spread_bias.fill(R::ZERO);
        }
        multiply_and_sum(y, now.factor, e, ld, d_spread_bias);
        if let Some(dx) = now.dx {
            let (d_col, t) = rest.split_at_mut(patch * ld);
            let t = &mut t[..patch * ld];
            gemm(back, d_col, false, weight_t, Mat::rows_of(y, ld), Threads::One);
            let spread_t = Mat::transposed(&noisy.spread[..weights], patch);
            gemm(back, t, false, spread_t, Mat::rows_of(e, ld), Threads::One);
            add_columns_gradient(noisy.noise, key, now.row, g, count, col, t, d_col);
            col2im(g, d_col, count, dx);
        }
        change_columns(noisy.noise, key, now.row, g, count, col);
        gemm(shape, d_spread, !first, Mat::rows_of(e, ld), Mat::transposed(col, ld), Threads::One);
    }

    fn sizes(&self, team: usize) -> Sizes {
        Sizes { input: self.geometry.image(), output: self.output().len(), product: self.products(1), team }
    }

    /// The first pass with row noise makes the room that others do not need.
    fn make_room<R: Real>(&self, w: &Weights<'_, R>, rows: usize, space: &mut NodeSpace<R>) {
        if let Weights::Noisy(w) = w {
            grow(&mut space.scratch[0], self.split(rows).1 * 2 * w.mean.len());
            grow(&mut space.scratch[2], self.products(rows));
            let buffer = (3 * self.geometry.patch() + 2 * self.channels) * self.geometry.area() * self.group.min(rows);
            space.scratch[KEPT..].iter_mut().for_each(|b| grow(b, buffer));
        }
    }
}

/// Scratch before the lanes' buffers: the teams' gradients, kept pre-activations, factors of row noise.
pub(super) const KEPT: usize = 3;

impl<R: Normals> AffineOps<R> for Conv {
    /// Untouched memory costs nothing, and only as many lanes are touched as there are threads.
    fn space(&self, rows: usize) -> NodeSpace<R> {
        let n = rows * self.output().len();
        let lanes = rows.div_ceil(self.group).min(self.teams);
        let pre = if self.epilogue.activation.slope_needs_input() { n } else { 0 };
        let buffer = (self.geometry.patch() + self.channels) * self.geometry.area() * self.group.min(rows);
        let sizes = [lanes * (self.weights() + self.channels), pre, 0].into_iter().chain((0..lanes).map(|_| buffer));
        NodeSpace {
            out: vec![R::ZERO; n],
            delta: vec![R::ZERO; n],
            scratch: sizes.map(|size| vec![R::ZERO; size]).collect(),
            index: vec![0; if self.epilogue.pool.is_some() { n } else { 0 }],
        }
    }

    fn forward(&self, w: Weights<'_, R>, x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>) {
        self.pass_forward(w, x, pass, space);
    }

    fn backward(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut NodeSpace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        self.pass_backward(w, x, pass, space, grad, accumulate, dx);
    }

    fn vjp(&self, w: &[R], x: MatRef<'_, R>, _pass: &Pass, space: &mut NodeSpace<R>, dx: Option<&mut [R]>) {
        self.vjp_groups(w, x, space, dx);
    }

    fn block_inputs(&self, x: MatRef<'_, R>, visit: &mut dyn FnMut(&[R])) {
        visit(&self.patches(x));
    }

    fn block_deltas(&self, rows: usize, space: &NodeSpace<R>, visit: &mut dyn FnMut(&[R])) {
        visit(&self.spread_deltas(rows, space));
    }
}
