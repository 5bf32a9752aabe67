//! Mean-field Gaussian with its natural-gradient optimiser: variational online Newton (IVON; Shen et al. 2024, Algorithm 1).
//!
//! w = m + σ ⊙ ε with σ² = β/(H + βτ), where H estimates E_q[−∇² log p(D | w)] on the diagonal and a normal prior N(c, 1/τ)
//! brings τ. A step with g = ∇_w log p(D | w), learning rate α and ρ = 1 − β₂:
//!
//! Ĥ = −g (w − m)/σ²; H ← H + ρ(Ĥ − H) + ½ρ²(Ĥ − H)²/(H + βτ); ḡ ← β₁ḡ + (1 − β₁)g; m ← m + α (ḡ/(1 − β₁ᵗ) − βτ(m − c))/(H + βτ).
//!
//! E_q[Ĥ] is the expected curvature (Price's theorem), so the step rests where E_q[g] = βτ(m − c) and σ² = β/(H + βτ): there the
//! gradient of E_q[log p(D | w)] − β·KL is 0. With a = H + βτ and x = ρ(Ĥ − H)/a the second update is a ← a(1 + x + ½x²), which is at
//! least a/2: σ stays real whatever the draw. The paper has the mean over N rows where everything here is the sum; its h, δ and λ are
//! H/N, βτ/N and N/β, and N cancels. Where a prior is not normal τ is 0, and g includes its gradient at the draw.
//!
//! Two passes over memory per step: draw (reads m, H; writes w) and update (reads w, g, m, H, ḡ; writes m, H, ḡ). ε is not kept: w − m
//! is what the network saw of it. 44 bytes per parameter, beside Adam's 28, and no logarithm.

use crate::error::Result;
use crate::math::Real;
use crate::optim::{BLOCKS_PER_TASK, GaussianPenalty, overlapping};
use crate::rng::{BLOCK, Key, Normals};
use crate::simd_fn;
use crate::snapshot::{State, Stateful};
use rayon::prelude::*;

/// H + βτ never falls below this times β: σ ≤ 1000, for parameters that neither data nor a normal prior hold.
const PRECISION_FLOOR: f32 = 1e-6;

/// A block of variational parameters with what the optimiser keeps about them.
#[derive(Debug, Clone)]
struct Block {
    mean: [f32; BLOCK],
    hessian: [f32; BLOCK],
    momentum: [f32; BLOCK],
}

/// Over several draws of one step: Σ g and Σ g ⊙ (w − m).
#[derive(Debug, Clone)]
struct Sums {
    gradient: [f32; BLOCK],
    product: [f32; BLOCK],
}

/// The family's state for P parameters.
#[derive(Debug, Clone)]
pub struct Ivon {
    blocks: Vec<Block>,
    sums: Vec<Sums>,
    penalties: Vec<GaussianPenalty>,
    /// β₁: what is left of the mean gradient after a step.
    beta1: f64,
    dim: usize,
    steps: u64,
    /// Of the last draw.
    beta: f64,
}

/// What is the same for all parameters under one penalty.
#[derive(Debug, Clone, Copy)]
struct Scalars {
    beta: f32,
    /// βτ
    penalty: f32,
    centre: f32,
    floor: f32,
}

impl Scalars {
    fn new(beta: f64, penalty: &GaussianPenalty) -> Scalars {
        let beta = beta as f32;
        Scalars { beta, penalty: beta * penalty.precision, centre: penalty.centre, floor: beta * PRECISION_FLOOR }
    }

    /// H + βτ
    #[inline(always)]
    fn scaled_precision(self, hessian: f32) -> f32 {
        Real::max(hessian + self.penalty, self.floor)
    }
}

/// What is the same for all parameters in one step.
#[derive(Debug, Clone, Copy)]
struct Rates {
    /// 1 − β₁
    gradient: f32,
    /// ρ
    curvature: f32,
    /// α, and α with the momentum's correction for its start at 0.
    step: f32,
    corrected_step: f32,
}

simd_fn! {
    /// On entry `w` holds ε; on return m + σε.
    fn draw_block(mean: &[f32], hessian: &[f32], scalars: Scalars, w: &mut [f32]) {
        let n = w.len();
        let (mean, hessian) = (&mean[..n], &hessian[..n]);
        for i in 0..n {
            let std = (scalars.beta / scalars.scaled_precision(hessian[i])).sqrt();
            w[i] = Real::mul_add::<F>(std, w[i], mean[i]);
        }
    }
}

/// One parameter's update; `product` is g(w − m).
#[inline(always)]
fn newton<const F: bool>(
    mean: &mut f32,
    hessian: &mut f32,
    momentum: &mut f32,
    g: f32,
    product: f32,
    scalars: Scalars,
    rates: Rates,
) {
    let before = scalars.scaled_precision(*hessian);
    let change = rates.curvature * (-product * (before / scalars.beta) - *hessian);
    *hessian += Real::mul_add::<F>(0.5 * change, change / before, change);
    *momentum = Real::mul_add::<F>(rates.gradient, g - *momentum, *momentum);
    let ascent = rates.corrected_step * *momentum - rates.step * scalars.penalty * (*mean - scalars.centre);
    *mean += ascent / scalars.scaled_precision(*hessian);
}

simd_fn! {
    /// The step of one draw.
    fn update_block(
        mean: &mut [f32],
        hessian: &mut [f32],
        momentum: &mut [f32],
        w: &[f32],
        g: &[f32],
        scalars: Scalars,
        rates: Rates,
    ) {
        let n = g.len();
        let (mean, hessian, momentum, w) = (&mut mean[..n], &mut hessian[..n], &mut momentum[..n], &w[..n]);
        for i in 0..n {
            let product = g[i] * (w[i] - mean[i]);
            newton::<F>(&mut mean[i], &mut hessian[i], &mut momentum[i], g[i], product, scalars, rates);
        }
    }
}

simd_fn! {
    /// The step of several draws, from their sums.
    fn update_block_from_sums(
        mean: &mut [f32],
        hessian: &mut [f32],
        momentum: &mut [f32],
        g: &[f32],
        product: &[f32],
        scalars: Scalars,
        rates: Rates,
    ) {
        let n = g.len();
        let (mean, hessian, momentum, product) = (&mut mean[..n], &mut hessian[..n], &mut momentum[..n], &product[..n]);
        for i in 0..n {
            newton::<F>(&mut mean[i], &mut hessian[i], &mut momentum[i], g[i], product[i], scalars, rates);
        }
    }
}

simd_fn! {
    fn add_draw(mean: &[f32], w: &[f32], g: &[f32], weight: f32, sums: &mut Sums) {
        let n = g.len();
        let (mean, w) = (&mean[..n], &w[..n]);
        let (gradient, product) = (&mut sums.gradient[..n], &mut sums.product[..n]);
        for i in 0..n {
            let share = weight * g[i];
            gradient[i] += share;
            product[i] = Real::mul_add::<F>(share, w[i] - mean[i], product[i]);
        }
    }
}

simd_fn! {
    /// Σ −ln σ + ½τ(σ² + (m − c)²), summed in f64.
    fn kl_block(mean: &[f32], hessian: &[f32], precision: f32, scalars: Scalars) -> f64 {
        let mut sums = [0.0f64; 8];
        let half = 0.5 * precision;
        let n = mean.len();
        let hessian = &hessian[..n];
        for i in 0..n {
            let variance = scalars.beta / scalars.scaled_precision(hessian[i]);
            let d = mean[i] - scalars.centre;
            let term = half * Real::mul_add::<F>(d, d, variance) - 0.5 * variance.ln_positive::<F>();
            sums[i % 8] += f64::from(term);
        }
        sums.iter().sum()
    }
}

impl Ivon {
    /// Starts at the given means and H the same everywhere; `draws` is how many draws a step averages over, `penalties` is the prior.
    pub fn new(mean: &[f32], hessian: f32, penalties: Vec<GaussianPenalty>, draws: usize, beta1: f64) -> Ivon {
        let zero = [0.0f32; BLOCK];
        let mut start = Block { mean: zero, hessian: [hessian; BLOCK], momentum: zero };
        let blocks: Vec<Block> = mean
            .chunks(BLOCK)
            .map(|mean| {
                start.mean[..mean.len()].copy_from_slice(mean);
                start.clone()
            })
            .collect();
        let sums = if draws > 1 { vec![Sums { gradient: zero, product: zero }; blocks.len()] } else { Vec::new() };
        Ivon { blocks, sums, penalties, beta1, dim: mean.len(), steps: 0, beta: 1.0 }
    }

    /// Draws w; `beta` is the weight of the KL from here on.
    pub fn draw(&mut self, key: Key, beta: f64, w: &mut [f32]) {
        self.beta = beta;
        let penalties = &self.penalties;
        let blocks = self.blocks.par_iter().with_min_len(BLOCKS_PER_TASK);
        blocks.zip(w.par_chunks_mut(BLOCK)).enumerate().for_each(|(b, (state, w))| {
            f32::fill_block(key.block(b as u64), w);
            for_penalties(penalties, beta, b, w.len(), |_, scalars, from, to| {
                draw_block(&state.mean[from..to], &state.hessian[from..to], scalars, &mut w[from..to]);
            });
        });
    }

    /// Adds `weight` times what one of several draws says: w as drawn, and its gradient.
    pub fn accumulate(&mut self, w: &[f32], gradient: &[f32], weight: f32) {
        let blocks = self.blocks.par_iter().with_min_len(BLOCKS_PER_TASK).zip(self.sums.par_iter_mut());
        blocks.zip(w.par_chunks(BLOCK)).zip(gradient.par_chunks(BLOCK)).for_each(|(((state, sums), w), g)| {
            add_draw(&state.mean, w, g, weight, sums);
        });
    }

    /// Takes the step of the last draw, w, with its gradient; `rate` is α, `curvature_rate` is ρ.
    pub fn update(&mut self, w: &[f32], gradient: &[f32], rate: f64, curvature_rate: f64) {
        let (rates, beta, penalties) = (self.next_rates(rate, curvature_rate), self.beta, &self.penalties);
        let blocks = self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK);
        blocks.zip(w.par_chunks(BLOCK)).zip(gradient.par_chunks(BLOCK)).enumerate().for_each(|(b, ((state, w), g))| {
            for_penalties(penalties, beta, b, g.len(), |_, scalars, from, to| {
                let Block { mean, hessian, momentum } = state;
                let state = (&mut mean[from..to], &mut hessian[from..to], &mut momentum[from..to]);
                update_block(state.0, state.1, state.2, &w[from..to], &g[from..to], scalars, rates);
            });
        });
    }

    /// Takes the step of the draws summed by [`Ivon::accumulate`], and empties the sums.
    pub fn update_accumulated(&mut self, rate: f64, curvature_rate: f64) {
        let (rates, beta, penalties, dim) =
            (self.next_rates(rate, curvature_rate), self.beta, &self.penalties, self.dim);
        let blocks = self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK);
        blocks.zip(self.sums.par_iter_mut()).enumerate().for_each(|(b, (state, sums))| {
            for_penalties(penalties, beta, b, (dim - b * BLOCK).min(BLOCK), |_, scalars, from, to| {
                let Block { mean, hessian, momentum } = state;
                let state = (&mut mean[from..to], &mut hessian[from..to], &mut momentum[from..to]);
                let (g, product) = (&sums.gradient[from..to], &sums.product[from..to]);
                update_block_from_sums(state.0, state.1, state.2, g, product, scalars, rates);
            });
            sums.gradient.fill(0.0);
            sums.product.fill(0.0);
        });
    }

    fn next_rates(&mut self, rate: f64, curvature_rate: f64) -> Rates {
        self.steps += 1;
        let started = 1.0 - self.beta1.powi(i32::try_from(self.steps).unwrap_or(i32::MAX));
        Rates {
            gradient: (1.0 - self.beta1) as f32,
            curvature: curvature_rate as f32,
            step: rate as f32,
            corrected_step: (rate / started) as f32,
        }
    }

    /// The part of KL[q ‖ p] that is closed: all of it for normal priors, the entropy part for others.
    pub fn kl(&self) -> f64 {
        let block_kl = |(b, state): (usize, &Block)| {
            let mut kl = 0.0;
            for_penalties(
                &self.penalties,
                self.beta,
                b,
                (self.dim - b * BLOCK).min(BLOCK),
                |penalty, scalars, from, to| {
                    kl += penalty.kl_constant * (to - from) as f64;
                    kl += kl_block(&state.mean[from..to], &state.hessian[from..to], penalty.precision, scalars);
                },
            );
            kl
        };
        // Summed in the order of the blocks: threads do not change the bits.
        let blocks = self.blocks.par_iter().with_min_len(BLOCKS_PER_TASK).enumerate();
        blocks.map(block_kl).collect::<Vec<f64>>().iter().sum()
    }

    /// The means and standard deviations as they are now.
    pub fn moments(&self) -> (Vec<f32>, Vec<f32>) {
        let (mut mean, mut std) = (Vec::with_capacity(self.dim), Vec::with_capacity(self.dim));
        for (b, state) in self.blocks.iter().enumerate() {
            for_penalties(&self.penalties, self.beta, b, (self.dim - b * BLOCK).min(BLOCK), |_, scalars, from, to| {
                mean.extend_from_slice(&state.mean[from..to]);
                let hessian = state.hessian[from..to].iter();
                std.extend(hessian.map(|h| (scalars.beta / scalars.scaled_precision(*h)).sqrt()));
            });
        }
        (mean, std)
    }
}

impl Stateful for Ivon {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.count("steps", &mut self.steps)?;
        state.number("beta", &mut self.beta)?;
        state.parts("mean", self.blocks.iter_mut().map(|b| &mut b.mean[..]))?;
        state.parts("hessian", self.blocks.iter_mut().map(|b| &mut b.hessian[..]))?;
        state.parts("momentum", self.blocks.iter_mut().map(|b| &mut b.momentum[..]))
    }
}

/// Calls `f` with every penalty that touches block `b`, what follows from it, and the part of the block it is for.
fn for_penalties(
    penalties: &[GaussianPenalty],
    beta: f64,
    b: usize,
    n: usize,
    mut f: impl FnMut(&GaussianPenalty, Scalars, usize, usize),
) {
    let start = b * BLOCK;
    for penalty in overlapping(penalties, start..start + n) {
        let (from, to) = (penalty.range.start.max(start) - start, penalty.range.end.min(start + n) - start);
        f(penalty, Scalars::new(beta, penalty), from, to);
    }
}
