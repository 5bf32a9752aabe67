//! Mean-field Gaussian with its optimiser: w = m + σ ⊙ ε, σ = softplus(ρ), ε ~ N(0, 1) (Blundell et al. 2015).
//!
//! With g = ∇_w log p(D | w), the ELBO's gradient is g − β·∂KL/∂m in m and (g ⊙ ε − β·∂KL/∂σ)·softplus′(ρ) in ρ. For a
//! normal prior N(c, 1/τ): KL = Σ −ln σ + ½τ(σ² + (m−c)²) + const, ∂KL/∂m = τ(m−c), ∂KL/∂σ = τσ − 1/σ. For other
//! priors the entropy part, −1/σ, stays here (τ = 0) and log p(w) is differentiated at the drawn w.
//!
//! Two passes over memory per step, each fused: draw (ε, σ, w, KL) and update (both gradients, both Adam steps). State is
//! kept in blocks of [`BLOCK`] numbers, each of which has a random key of its own.

use crate::math::Real;
use crate::optim::{AdamStep, BLOCKS_PER_TASK, Pull, ascend, overlapping};
use crate::rng::{BLOCK, Key, Normals};
use crate::simd_fn;
use rayon::prelude::*;

/// σ never falls below: so that the product of four is still a normal f32, and 1/σ stays finite.
pub(super) const STD_FLOOR: f32 = 1e-9;

/// A block of variational parameters with what the optimiser keeps about them.
#[derive(Debug, Clone)]
struct Block {
    mean: [f32; BLOCK],
    rho: [f32; BLOCK],
    std: [f32; BLOCK],
    noise: [f32; BLOCK],
    mean_first: [f32; BLOCK],
    mean_second: [f32; BLOCK],
    rho_first: [f32; BLOCK],
    rho_second: [f32; BLOCK],
    kl: f64,
}

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
}

simd_fn! {
    /// σ = softplus(ρ), w = m + σε.
    pub(super) fn draw_block(mean: &[f32], rho: &[f32], noise: &[f32], std: &mut [f32], w: &mut [f32]) {
        let n = w.len();
        let (mean, rho, noise, std) = (&mean[..n], &rho[..n], &noise[..n], &mut std[..n]);
        for i in 0..n {
            let s = rho[i].softplus::<F>().max(STD_FLOOR);
            std[i] = s;
            w[i] = Real::mul_add::<F>(s, noise[i], mean[i]);
        }
    }
}

simd_fn! {
    /// Σ −ln σ + ½τ(σ² + (m−c)²); one logarithm for four σ.
    pub(super) fn kl_block(mean: &[f32], std: &[f32], centre: f32, precision: f32) -> f64 {
        let mut log = [0.0f32; 16];
        let mut square = [0.0f32; 16];
        let (mean_groups, mean_rest) = mean.as_chunks::<64>();
        let (std_groups, std_rest) = std.as_chunks::<64>();
        for (m, s) in mean_groups.iter().zip(std_groups) {
            for j in 0..16 {
                let mut product = 1.0f32;
                for k in [j, j + 16, j + 32, j + 48] {
                    product *= s[k];
                    let d = m[k] - centre;
                    square[j] = Real::mul_add::<F>(s[k], s[k], Real::mul_add::<F>(d, d, square[j]));
                }
                log[j] += product.ln_positive::<F>();
            }
        }
        let (mut log, mut square) = (f64::from(log.iter().sum::<f32>()), f64::from(square.iter().sum::<f32>()));
        for (m, s) in mean_rest.iter().zip(std_rest) {
            log += f64::from(s.ln_positive::<F>());
            square += f64::from(s * s + (m - centre) * (m - centre));
        }
        0.5 * f64::from(precision) * square - log
    }
}

/// d softplus/dρ = 1 − e^(−σ), from σ; its series where the difference would lose digits.
#[inline(always)]
pub(super) fn softplus_slope<const F: bool>(s: f32) -> f32 {
    let series = s * (1.0 - s * (0.5 - s * (1.0 / 6.0)));
    let exact = 1.0 - Real::exp::<F>(-s);
    if s < 0.03 { series } else { exact }
}

simd_fn! {
    /// Both gradients and both Adam steps. `d_mean` is g and `d_std` is g ⊙ ε (or g again, with `noise` = ε).
    fn update_block(
        state: &mut Block,
        from: usize,
        to: usize,
        g: &[f32],
        d_std: Option<&[f32]>,
        pull: (f32, f32, f32),
        step: AdamStep,
    ) {
        let (centre, precision, beta) = pull;
        let Block { mean, rho, std, noise, mean_first, mean_second, rho_first, rho_second, .. } = state;
        let n = to - from;
        let (mean, rho) = (&mut mean[from..to][..n], &mut rho[from..to][..n]);
        let (std, noise) = (&std[from..to][..n], &noise[from..to][..n]);
        let (mean_first, mean_second) = (&mut mean_first[from..to][..n], &mut mean_second[from..to][..n]);
        let (rho_first, rho_second) = (&mut rho_first[from..to][..n], &mut rho_second[from..to][..n]);
        let (bt, g) = (beta * precision, &g[..n]);
        match d_std {
            None => for i in 0..n {
                let s = std[i];
                let on_mean = g[i] - bt * (mean[i] - centre);
                let on_std = Real::mul_add::<F>(g[i], noise[i], beta / s - bt * s);
                ascend::<F>(&mut mean[i], &mut mean_first[i], &mut mean_second[i], on_mean, step);
                let on_rho = on_std * softplus_slope::<F>(s);
                ascend::<F>(&mut rho[i], &mut rho_first[i], &mut rho_second[i], on_rho, step);
            },
            Some(d_std) => {
                let d_std = &d_std[..n];
                for i in 0..n {
                    let s = std[i];
                    let on_mean = g[i] - bt * (mean[i] - centre);
                    let on_rho = (d_std[i] + (beta / s - bt * s)) * softplus_slope::<F>(s);
                    ascend::<F>(&mut mean[i], &mut mean_first[i], &mut mean_second[i], on_mean, step);
                    ascend::<F>(&mut rho[i], &mut rho_first[i], &mut rho_second[i], on_rho, step);
                }
            }
        }
    }
}

simd_fn! {
    fn add_gradients(g: &[f32], noise: &[f32], weight: f32, d_mean: &mut [f32], d_std: &mut [f32]) {
        let n = g.len();
        let (noise, d_mean, d_std) = (&noise[..n], &mut d_mean[..n], &mut d_std[..n]);
        for i in 0..n {
            d_mean[i] = Real::mul_add::<F>(weight, g[i], d_mean[i]);
            d_std[i] = Real::mul_add::<F>(weight * g[i], noise[i], d_std[i]);
        }
    }
}

/// ρ with softplus(ρ) = σ.
pub(crate) fn inverse_softplus(std: f64) -> f64 {
    if std > 30.0 { std } else { std.exp_m1().ln() }
}

impl MeanField {
    /// Starts at the given means and standard deviations; `draws` is how many draws a step averages over.
    pub fn new(mean: &[f32], std: &[f32], draws: usize) -> MeanField {
        let zero = [0.0f32; BLOCK];
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
        let sums = if draws > 1 { vec![Sums { d_mean: zero, d_std: zero }; blocks.len()] } else { Vec::new() };
        MeanField { blocks, sums, dim: mean.len(), steps: 0 }
    }

    /// Draws w and returns Σ over parameters of the part of the KL that is closed: all of it for normal priors, the
    /// entropy part for others.
    pub fn draw(&mut self, key: Key, pulls: &[Pull], w: &mut [f32]) -> f64 {
        self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK).zip(w.par_chunks_mut(BLOCK)).enumerate().for_each(
            |(b, (state, w))| {
                let n = w.len();
                f32::fill_block(key.block(b as u64), &mut state.noise[..n]);
                draw_block(&state.mean, &state.rho, &state.noise, &mut state.std, w);
                let from = b * BLOCK;
                state.kl = overlapping(pulls, from..from + n)
                    .map(|pull| {
                        let r = pull.range.start.max(from) - from..pull.range.end.min(from + n) - from;
                        let constant = pull.kl_constant * r.len() as f64;
                        constant + kl_block(&state.mean[r.clone()], &state.std[r], pull.centre, pull.precision)
                    })
                    .sum();
            },
        );
        self.blocks.iter().map(|b| b.kl).sum()
    }

    /// Adds `weight` times the gradients of one of several draws.
    pub fn accumulate(&mut self, gradient: &[f32], weight: f32) {
        let blocks = self.blocks.par_iter().with_min_len(BLOCKS_PER_TASK);
        blocks.zip(self.sums.par_iter_mut()).zip(gradient.par_chunks(BLOCK)).for_each(|((state, sums), g)| {
            add_gradients(g, &state.noise, weight, &mut sums.d_mean, &mut sums.d_std);
        });
    }

    /// Ascends the ELBO with the gradient of the last draw.
    pub fn update(&mut self, gradient: &[f32], pulls: &[Pull], beta: f64, rate: f64) {
        self.steps += 1;
        let step = AdamStep::new(self.steps, rate);
        let blocks = self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK);
        blocks.zip(gradient.par_chunks(BLOCK)).enumerate().for_each(|(b, (state, g))| {
            for_pulls(pulls, b, g.len(), |pull, from, to| {
                let pull = (pull.centre, pull.precision, beta as f32);
                update_block(state, from, to, &g[from..to], None, pull, step);
            });
        });
    }

    /// Ascends the ELBO with the gradients summed by [`MeanField::accumulate`], and empties the sums.
    pub fn update_accumulated(&mut self, pulls: &[Pull], beta: f64, rate: f64) {
        self.steps += 1;
        let step = AdamStep::new(self.steps, rate);
        let dim = self.dim;
        let blocks = self.blocks.par_iter_mut().with_min_len(BLOCKS_PER_TASK);
        blocks.zip(self.sums.par_iter_mut()).enumerate().for_each(|(b, (state, sums))| {
            for_pulls(pulls, b, (dim - b * BLOCK).min(BLOCK), |pull, from, to| {
                let pull = (pull.centre, pull.precision, beta as f32);
                update_block(state, from, to, &sums.d_mean[from..to], Some(&sums.d_std[from..to]), pull, step);
            });
            sums.d_mean.fill(0.0);
            sums.d_std.fill(0.0);
        });
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

/// Calls `f` with every pull that touches block `b` and the part of the block it is for.
pub(super) fn for_pulls(pulls: &[Pull], b: usize, n: usize, mut f: impl FnMut(&Pull, usize, usize)) {
    let start = b * BLOCK;
    for pull in overlapping(pulls, start..start + n) {
        f(pull, pull.range.start.max(start) - start, pull.range.end.min(start + n) - start);
    }
}
