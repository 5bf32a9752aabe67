//! Mean-field Gaussian with its optimiser: w = m + σ ⊙ ε, σ = softplus(ρ), ε ~ N(0, 1) (Blundell et al. 2015).
//!
//! With g = ∇_w log p(D | w), the ELBO's gradient is g − β·∂KL/∂m in m and (g ⊙ ε − β·∂KL/∂σ)·softplus′(ρ) in ρ. For a
//! normal prior N(c, 1/τ): KL = Σ −ln σ + ½τ(σ² + (m−c)²) + const, ∂KL/∂m = τ(m−c), ∂KL/∂σ = τσ − 1/σ. For other
//! priors the entropy part, −1/σ, stays here (τ = 0) and log p(w) is differentiated at the drawn w.
//!
//! Two passes over memory per step, each fused: draw (ε, σ, w, KL) and update (both gradients, both Adam steps); one where the update makes the next
//! step's draw too ([`MeanField::update_and_draw`]) or the next step needs none ([`MeanField::update_ahead`]). State is kept in blocks of [`BLOCK`] numbers,
//! each of which has a random key of its own.

use super::mean_field_kernels::{
    Block, ROOM, STD_FLOOR, Second, Update, add_gradients, draw_block, hold, kl_block, log_uniform_block, silence,
    spread_block, update_block,
};
use crate::distribution::log_uniform_kl;
use crate::error::Result;
use crate::math::Real;
use crate::nn::RowNoise;
use crate::optim::{AdamStep, BLOCKS_PER_TASK, GaussianPenalty, Law, overlapping};
use crate::rng::{BLOCK, Key, Normals};
use crate::snapshot::{State, Stateful};
use rayon::prelude::*;

/// Gradients summed over several draws of one step.
#[derive(Debug, Clone)]
struct Sums {
    d_mean: [f32; BLOCK],
    d_std: [f32; BLOCK],
}

/// The family's state for P parameters.
#[derive(Debug, Clone)]
pub struct MeanField {
    blocks: Vec<Block>,
    sums: Vec<Sums>,
    dim: usize,
    steps: u64,
    /// Which parameters [`MeanField::remove`] has taken out, block by block; empty before it was called.
    removed: Vec<[bool; BLOCK]>,
    /// Whether the last update has written what the next step's pass needs.
    ahead: bool,
    /// The key of the draw that the last update has made.
    drawn: Option<Key>,
}

/// ρ with softplus(ρ) = σ.
pub(crate) fn inverse_softplus(std: f64) -> f64 {
    if std > 30.0 { std } else { std.exp_m1().ln() }
}

impl MeanField {
    /// Starts at the given means and standard deviations; `draws` is how many draws a step averages over.
    pub fn new(mean: &[f32], std: &[f32], draws: usize) -> MeanField {
        let zero = [0.0f32; ROOM];
        let mut empty = Block {
            mean: zero,
            rho: zero,
            std: zero,
            noise: zero,
            mean_first: zero,
            mean_second: zero,
            rho_first: zero,
            rho_second: zero,
            kl: 0.0,
        };
        let blocks: Vec<Block> = mean
            .chunks(BLOCK)
            .zip(std.chunks(BLOCK))
            .map(|(mean, std)| {
                empty.mean[..mean.len()].copy_from_slice(mean);
                for (rho, s) in empty.rho.iter_mut().zip(std) {
                    *rho = inverse_softplus(f64::from(*s)) as f32;
                }
                empty.clone()
            })
            .collect();
        let mut family = MeanField {
            blocks,
            sums: Vec::new(),
            dim: mean.len(),
            steps: 0,
            removed: Vec::new(),
            ahead: false,
            drawn: None,
        };
        if draws > 1 {
            family.make_sums();
        }
        family
    }

    /// Makes room for the sums of [`MeanField::accumulate`].
    pub fn make_sums(&mut self) {
        let zero = [0.0f32; BLOCK];
        self.sums.resize(self.blocks.len(), Sums { d_mean: zero, d_std: zero });
    }

    /// Draws w and returns Σ over parameters of the part of the KL that is closed: all of it for normal priors, the
    /// entropy part for others.
    pub fn draw(&mut self, key: Key, penalties: &[GaussianPenalty], w: &mut [f32]) -> f64 {
        if self.drawn != Some(key) {
            self.forget();
            let blocks = self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK);
            blocks
                .zip(w.par_chunks_mut(BLOCK))
                .enumerate()
                .for_each(|(b, (state, w))| draw_one(b, state, key, penalties, w));
        }
        self.blocks.iter().map(|b| b.kl).sum()
    }

    /// The same for passes in which every row has a draw of its own: means into `centre`; variances, or one draw minus
    /// the mean, into `spread`. Parameters at `fixed` and after are drawn once, into `centre`. With `w`, one draw too.
    pub fn draw_by_row(
        &mut self,
        key: Key,
        noise: RowNoise,
        penalties: &[GaussianPenalty],
        fixed: usize,
        centre: &mut [f32],
        spread: &mut [f32],
        w: Option<&mut [f32]>,
    ) -> f64 {
        // A draw that was made ahead is written over.
        self.drawn = None;
        let drawn = w.is_some();
        // Blocks before this one are as the last update left them.
        let first = if self.ahead && !drawn { fixed / BLOCK } else { 0 };
        let removed = &self.removed;
        let blocks = self.blocks[first..].par_iter_mut().with_min_len(BLOCKS_PER_TASK);
        let (centre, spread) = (&mut centre[first * BLOCK..], &mut spread[first * BLOCK..]);
        blocks.zip(centre.par_chunks_mut(BLOCK)).zip(spread.par_chunks_mut(BLOCK)).enumerate().for_each(
            |(b, ((state, centre), spread))| {
                let (n, from) = (centre.len(), (first + b) * BLOCK);
                let has_fixed = from + n > fixed;
                // Variances need no draw.
                if noise == RowNoise::Flipout || has_fixed || drawn {
                    f32::fill_block(key.block((first + b) as u64), &mut state.noise[..n]);
                }
                spread_block(noise, &state.mean, &state.rho, &state.noise, &mut state.std, centre, spread);
                silence(spread, removed.get(first + b));
                if has_fixed {
                    for i in fixed.saturating_sub(from)..n {
                        centre[i] += state.std[i] * state.noise[i];
                    }
                }
                state.kl = closed_kl(state, penalties, from, n);
            },
        );
        if let Some(w) = w {
            let blocks = self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK);
            blocks.zip(w.par_chunks_mut(BLOCK)).for_each(|(state, w)| {
                draw_block(&state.mean, &state.rho, &state.noise, &mut state.std, w);
            });
        }
        self.blocks.iter().map(|b| b.kl).sum()
    }

    /// Adds the gradient in w of something that was evaluated at the draw to the gradients by row.
    pub fn add_direct(&self, noise: RowNoise, gradient: &[f32], centre: &mut [f32], spread: &mut [f32]) {
        let parts = self.blocks.iter().zip(gradient.chunks(BLOCK));
        for ((state, g), (centre, spread)) in parts.zip(centre.chunks_mut(BLOCK).zip(spread.chunks_mut(BLOCK))) {
            for i in 0..g.len() {
                centre[i] += g[i];
                spread[i] += match noise {
                    RowNoise::Flipout => g[i],
                    RowNoise::Local => 0.5 * g[i] * state.noise[i] / state.std[i],
                };
            }
        }
    }

    /// Adds `weight` times the gradients of one of several draws.
    pub fn accumulate(&mut self, gradient: &[f32], by_row: Option<ByRow<'_>>, weight: f32) {
        let blocks = self.blocks.par_iter().with_min_len(BLOCKS_PER_TASK);
        blocks.zip(self.sums.par_iter_mut()).zip(gradient.par_chunks(BLOCK)).enumerate().for_each(
            |(b, ((state, sums), g))| {
                for (from, to, second) in by_row_parts(by_row, b * BLOCK, g.len()) {
                    let (d_mean, d_std) = (&mut sums.d_mean[from..to], &mut sums.d_std[from..to]);
                    let (noise, std) = (&state.noise[from..to], &state.std[from..to]);
                    add_gradients(&g[from..to], second, noise, std, weight, d_mean, d_std);
                }
            },
        );
    }

    /// Ascends the ELBO with the gradient of the last draw.
    pub fn update(
        &mut self,
        gradient: &[f32],
        by_row: Option<ByRow<'_>>,
        penalties: &[GaussianPenalty],
        beta: f64,
        rate: f64,
    ) {
        let step = self.next_step(rate);
        let removed = &self.removed;
        let blocks = self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK);
        blocks.zip(gradient.par_chunks(BLOCK)).enumerate().for_each(|(b, (state, g))| {
            ascend_block(b, state, g, by_row, penalties, beta, step, removed);
        });
    }

    /// As [`MeanField::update`] for one draw of all rows, and with the next step's draw into `w` while a block is in the cache:
    /// [`MeanField::draw`] of that key, into the same array, is then done.
    pub fn update_and_draw(
        &mut self,
        gradient: &[f32],
        penalties: &[GaussianPenalty],
        beta: f64,
        rate: f64,
        next: Key,
        w: &mut [f32],
    ) {
        let step = self.next_step(rate);
        let removed = &self.removed;
        let blocks = self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK);
        blocks.zip(gradient.par_chunks(BLOCK)).zip(w.par_chunks_mut(BLOCK)).enumerate().for_each(
            |(b, ((state, g), w))| {
                ascend_block(b, state, g, None, penalties, beta, step, removed);
                draw_one(b, state, next, penalties, w);
            },
        );
        self.drawn = Some(next);
    }

    /// The same for local reparameterisation, whose next step needs no draw: its means and variances go to `centre` and `spread` while
    /// a block is in the cache, and [`MeanField::draw_by_row`] of the same two arrays is left with the parameters drawn once.
    pub fn update_ahead(
        &mut self,
        gradient: &[f32],
        d_variance: &[f32],
        fixed: usize,
        penalties: &[GaussianPenalty],
        beta: f64,
        rate: f64,
        centre: &mut [f32],
        spread: &mut [f32],
    ) {
        let step = self.next_step(rate);
        let by_row = Some(ByRow { noise: RowNoise::Local, spread: d_variance, fixed });
        let removed = &self.removed;
        let blocks = self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK).zip(gradient.par_chunks(BLOCK));
        blocks.zip(centre.par_chunks_mut(BLOCK)).zip(spread.par_chunks_mut(BLOCK)).enumerate().for_each(
            |(b, (((state, g), centre), spread))| {
                ascend_block(b, state, g, by_row, penalties, beta, step, removed);
                spread_block(RowNoise::Local, &state.mean, &state.rho, &state.noise, &mut state.std, centre, spread);
                silence(spread, removed.get(b));
                state.kl = closed_kl(state, penalties, b * BLOCK, g.len());
            },
        );
        self.ahead = true;
    }

    /// Makes the next draw write everything: its arrays are not those of the last update.
    pub fn forget(&mut self) {
        (self.ahead, self.drawn) = (false, None);
    }

    fn next_step(&mut self, rate: f64) -> AdamStep {
        self.forget();
        self.steps += 1;
        AdamStep::new(self.steps, rate)
    }

    /// Ascends the ELBO with the gradients summed by [`MeanField::accumulate`], and empties the sums.
    pub fn update_accumulated(&mut self, penalties: &[GaussianPenalty], beta: f64, rate: f64) {
        let step = self.next_step(rate);
        let (dim, removed) = (self.dim, &self.removed);
        let blocks = self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK);
        blocks.zip(self.sums.par_iter_mut()).enumerate().for_each(|(b, (state, sums))| {
            for_penalties(penalties, b, (dim - b * BLOCK).min(BLOCK), |penalty, from, to| {
                let second = Second::Std(&sums.d_std[from..to]);
                update_block(state, from, to, &sums.d_mean[from..to], second, Update::new(penalty, beta, step));
            });
            hold(state, removed.get(b));
            sums.d_mean.fill(0.0);
            sums.d_std.fill(0.0);
        });
    }

    /// Makes room for [`MeanField::remove`], which then allocates nothing.
    pub(crate) fn make_room_to_remove(&mut self) {
        self.removed.reserve_exact(self.blocks.len());
    }

    /// Takes out, for good, every weight with the law [`Law::LogUniform`] whose α = σ²/m² is above `alpha`: from here on its mean is 0,
    /// passes with noise by row have none of it, and [`MeanField::moments`] gives it the floor of σ.
    pub(crate) fn remove(&mut self, penalties: &[GaussianPenalty], alpha: f32) {
        self.removed.resize(self.blocks.len(), [false; BLOCK]);
        let (dim, blocks) = (self.dim, self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK));
        blocks.zip(&mut self.removed).enumerate().for_each(|(b, (state, removed))| {
            for_penalties(penalties, b, (dim - b * BLOCK).min(BLOCK), |penalty, from, to| {
                for i in (from..to).filter(|_| penalty.law == Law::LogUniform) {
                    let s = state.rho[i].softplus::<false>().max(STD_FLOOR);
                    removed[i] |= s * s > alpha * state.mean[i] * state.mean[i];
                }
            });
            hold(state, Some(removed));
        });
        self.forget();
    }

    /// The ELBO's gradient in m and σ from the sums of [`MeanField::accumulate`], which are emptied.
    pub fn take_gradients(&mut self, penalties: &[GaussianPenalty], beta: f64, d_mean: &mut [f32], d_std: &mut [f32]) {
        let beta = beta as f32;
        let parts = d_mean.chunks_mut(BLOCK).zip(d_std.chunks_mut(BLOCK));
        for (b, ((state, sums), (d_mean, d_std))) in self.blocks.iter().zip(&mut self.sums).zip(parts).enumerate() {
            for_penalties(penalties, b, d_mean.len(), |penalty, from, to| {
                for i in from..to {
                    let (m, s) = (state.mean[i], state.std[i]);
                    let (on_mean, on_std) = match penalty.law {
                        Law::Normal => (penalty.precision * (m - penalty.centre), penalty.precision * s - 1.0 / s),
                        Law::LogUniform => log_uniform_kl::slopes::<f32, false>(m, s),
                    };
                    d_mean[i] = sums.d_mean[i] - beta * on_mean;
                    d_std[i] = sums.d_std[i] - beta * on_std;
                }
            });
            sums.d_mean.fill(0.0);
            sums.d_std.fill(0.0);
        }
    }

    /// The means and standard deviations as they are now.
    pub fn moments(&self) -> (Vec<f32>, Vec<f32>) {
        let mut mean = Vec::with_capacity(self.dim);
        let mut std = Vec::with_capacity(self.dim);
        for (b, state) in self.blocks.iter().enumerate() {
            let n = (self.dim - b * BLOCK).min(BLOCK);
            mean.extend_from_slice(&state.mean[..n]);
            std.extend(state.rho[..n].iter().map(|r| r.softplus::<false>().max(STD_FLOOR)));
        }
        (mean, std)
    }
}

/// σ, ε and the KL follow from m, ρ and the next draw's key: what was made ahead is made again.
impl Stateful for MeanField {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        if state.resumes() {
            self.forget();
        }
        state.count("steps", &mut self.steps)?;
        let blocks = &mut self.blocks;
        state.parts("mean", blocks.iter_mut().map(|b| &mut b.mean[..]))?;
        state.parts("rho", blocks.iter_mut().map(|b| &mut b.rho[..]))?;
        state.parts("mean_first", blocks.iter_mut().map(|b| &mut b.mean_first[..]))?;
        state.parts("mean_second", blocks.iter_mut().map(|b| &mut b.mean_second[..]))?;
        state.parts("rho_first", blocks.iter_mut().map(|b| &mut b.rho_first[..]))?;
        state.parts("rho_second", blocks.iter_mut().map(|b| &mut b.rho_second[..]))?;
        let mut removes = !self.removed.is_empty();
        state.flag("removes", &mut removes)?;
        self.removed.resize(if removes { self.blocks.len() } else { 0 }, [false; BLOCK]);
        let mut words: Vec<u64> = self.removed.iter().flat_map(|r| r.chunks(64).map(to_word)).collect();
        state.array("removed", &mut words)?;
        let bits = words.iter().flat_map(|word| (0..64).map(move |i| word >> i & 1 == 1));
        self.removed.iter_mut().flatten().zip(bits).for_each(|(removed, bit)| *removed = bit);
        Ok(())
    }
}

/// Up to 64 flags as bits.
fn to_word(flags: &[bool]) -> u64 {
    flags.iter().enumerate().fold(0, |word, (i, flag)| word | u64::from(*flag) << i)
}

/// The gradients of a pass in which every row had a draw of its own.
#[derive(Debug, Clone, Copy)]
pub struct ByRow<'a> {
    /// How rows came by their draws.
    pub noise: RowNoise,
    /// dL/d(spread).
    pub spread: &'a [f32],
    /// Parameters from here on were drawn once.
    pub fixed: usize,
}

/// Parts of `n` parameters at `start` by what is known of their σ; places within the block.
fn by_row_parts(by_row: Option<ByRow<'_>>, start: usize, n: usize) -> impl Iterator<Item = (usize, usize, Second<'_>)> {
    let cut = by_row.map_or(n, |r| r.fixed.saturating_sub(start).min(n));
    [(0, cut), (cut, n)].into_iter().filter(|(from, to)| from < to).map(move |(from, to)| {
        let second = match by_row {
            None => Second::Direct,
            Some(r) => Second::of(r.noise, r.spread, start + from, start + to, r.fixed),
        };
        (from, to, second)
    })
}

/// Both Adam steps of block `b`, but for what is removed of it.
fn ascend_block(
    b: usize,
    state: &mut Block,
    g: &[f32],
    by_row: Option<ByRow<'_>>,
    penalties: &[GaussianPenalty],
    beta: f64,
    step: AdamStep,
    removed: &[[bool; BLOCK]],
) {
    for_penalties(penalties, b, g.len(), |penalty, from, to| {
        let start = b * BLOCK;
        let second = match by_row {
            None => Second::Direct,
            Some(r) => Second::of(r.noise, r.spread, start + from, start + to, r.fixed),
        };
        update_block(state, from, to, &g[from..to], second, Update::new(penalty, beta, step));
    });
    hold(state, removed.get(b));
}

/// Draws block `b` and takes its part of the KL.
fn draw_one(b: usize, state: &mut Block, key: Key, penalties: &[GaussianPenalty], w: &mut [f32]) {
    let n = w.len();
    f32::fill_block(key.block(b as u64), &mut state.noise[..n]);
    draw_block(&state.mean, &state.rho, &state.noise, &mut state.std, w);
    state.kl = closed_kl(state, penalties, b * BLOCK, n);
}

/// The closed part of the KL of `n` parameters at `from`.
fn closed_kl(state: &Block, penalties: &[GaussianPenalty], from: usize, n: usize) -> f64 {
    let parts = overlapping(penalties, from..from + n).map(|penalty| {
        let r = penalty.range.start.max(from) - from..penalty.range.end.min(from + n) - from;
        let constant = penalty.kl_constant * r.len() as f64;
        let (mean, std) = (&state.mean[r.clone()], &state.std[r]);
        match penalty.law {
            Law::Normal => constant + kl_block(mean, std, penalty.centre, penalty.precision),
            Law::LogUniform => constant + log_uniform_block(mean, std),
        }
    });
    parts.sum()
}

/// Calls `f` with every penalty that touches block `b` and the part of the block it is for.
pub(super) fn for_penalties(
    penalties: &[GaussianPenalty],
    b: usize,
    n: usize,
    mut f: impl FnMut(&GaussianPenalty, usize, usize),
) {
    let start = b * BLOCK;
    for penalty in overlapping(penalties, start..start + n) {
        f(penalty, penalty.range.start.max(start) - start, penalty.range.end.min(start + n) - start);
    }
}
