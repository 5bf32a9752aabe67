//! Gaussian with a full covariance, with its optimiser: w = m + L ε, L lower triangular, Lᵢᵢ = softplus(ρᵢ).
//!
//! q = N(m, L Lᵀ). For normal priors N(c, 1/τ), KL = Σ −ln Lᵢᵢ + ½τ(Σⱼ Lᵢⱼ² + (mᵢ−c)²) + const: it falls apart by rows. With
//! g = ∇_w log p(D | w), the ELBO's gradient is g − βτ(m−c) in m and tril(g εᵀ) − β(τL − diag(1/Lᵢᵢ)) in L. For other priors
//! τ = 0 and log p(w) is differentiated at the drawn w. The gradient in L has rank one, so that it is never stored: a step
//! keeps g and ε of each of its draws.
//!
//! Reference: Titsias & Lázaro-Gredilla (2014), ICML. Cost per step: two fused passes over the P(P+1)/2 numbers of L, row after
//! row in packed storage, and their Adam moments. Rows come in groups that threads share out; a row's arithmetic is its own.

use super::mean_field::inverse_softplus;
use super::mean_field_kernels::{STD_FLOOR, softplus_slope};
use super::{Family, check_memory};
use crate::error::Result;
use crate::math::Real;
use crate::math::elementwise::dot;
use crate::optim::{AdamStep, GaussianPenalty, ascend, overlapping};
use crate::rng::{Key, fill_normals_par};
use crate::simd_fn;
use crate::snapshot::{State, Stateful};
use rayon::prelude::*;

/// Numbers of L in a group of rows, at the least: about 10 µs of work.
const GROUP: usize = 1 << 14;
/// Columns whose gradient is worked out at once.
const TILE: usize = 256;
/// What the state may take.
const MOST_BYTES: u128 = 2 << 30;

/// Numbers in a packed lower triangle of order n.
pub(crate) fn packed_len(n: usize) -> Option<usize> {
    n.checked_add(1)?.checked_mul(n).map(|v| v / 2)
}

/// Rows of L, with their means and what the optimiser keeps about them.
#[derive(Debug, Clone)]
struct Rows {
    /// Number of the first row.
    first: usize,
    /// Row after row, each up to its diagonal.
    lower: Vec<f32>,
    lower_first: Vec<f32>,
    lower_second: Vec<f32>,
    /// The diagonal before softplus.
    rho: Vec<f32>,
    mean: Vec<f32>,
    mean_first: Vec<f32>,
    mean_second: Vec<f32>,
    /// These rows of the last draw.
    drawn: Vec<f32>,
    kl: f64,
}

/// The family's state for P parameters.
#[derive(Debug, Clone)]
pub struct FullCovariance {
    groups: Vec<Rows>,
    /// ε of each draw of a step, one after another.
    noise: Vec<f32>,
    /// `share` times g of each draw of a step, one after another.
    gradients: Vec<f32>,
    dim: usize,
    /// Draws whose gradient this step has remembered.
    remembered: usize,
    steps: u64,
}

/// The gradients and noises of a step's draws.
#[derive(Clone, Copy)]
struct Draws<'a> {
    gradients: &'a [f32],
    noise: &'a [f32],
    dim: usize,
}

simd_fn! {
    /// The Adam steps of row i of L left of its diagonal: gradient Σ gᵢεⱼ − βτLᵢⱼ.
    fn update_row(lower: &mut [f32], first: &mut [f32], second: &mut [f32], draws: Draws<'_>, bt: f32, step: AdamStep) {
        let Draws { gradients, noise, dim } = draws;
        let row = lower.len();
        for at in (0..row).step_by(TILE) {
            let n = TILE.min(row - at);
            let mut on_lower = [0.0f32; TILE];
            let on_lower = &mut on_lower[..n];
            for (g, noise) in gradients.chunks_exact(dim).zip(noise.chunks_exact(dim)) {
                let (g, noise) = (g[row], &noise[at..][..n]);
                for j in 0..n {
                    on_lower[j] = Real::mul_add::<F>(g, noise[j], on_lower[j]);
                }
            }
            let (lower, first, second) = (&mut lower[at..][..n], &mut first[at..][..n], &mut second[at..][..n]);
            for j in 0..n {
                let pulled = on_lower[j] - bt * lower[j];
                ascend::<F>(&mut lower[j], &mut first[j], &mut second[j], pulled, step);
            }
        }
    }
}

/// Lᵢᵢ of ρᵢ.
fn diagonal(rho: f32) -> f32 {
    rho.softplus::<false>().max(STD_FLOOR)
}

impl Rows {
    fn draw(&mut self, noise: &[f32], penalties: &[GaussianPenalty]) {
        self.kl = 0.0;
        let mut start = 0;
        let end = self.first + self.mean.len();
        for penalty in overlapping(penalties, self.first..end) {
            for i in penalty.range.start.max(self.first)..penalty.range.end.min(end) {
                let (row, r) = (&self.lower[start..=start + i], i - self.first);
                start += i + 1;
                self.drawn[r] = self.mean[r] + dot(row, &noise[..=i]) as f32;
                let squares = dot(row, row) + f64::from(self.mean[r] - penalty.centre).powi(2);
                self.kl += penalty.kl_constant + 0.5 * f64::from(penalty.precision) * squares - f64::from(row[i]).ln();
            }
        }
    }

    fn update(&mut self, draws: Draws<'_>, penalties: &[GaussianPenalty], beta: f32, step: AdamStep) {
        let mut start = 0;
        let end = self.first + self.mean.len();
        for penalty in overlapping(penalties, self.first..end) {
            let bt = beta * penalty.precision;
            for i in penalty.range.start.max(self.first)..penalty.range.end.min(end) {
                let (left, at, r) = (start..start + i, start + i, i - self.first);
                start += i + 1;
                let (lower, first, second) = (&mut self.lower, &mut self.lower_first, &mut self.lower_second);
                update_row(&mut lower[left.clone()], &mut first[left.clone()], &mut second[left], draws, bt, step);
                let of_row = draws.gradients.chunks_exact(draws.dim).zip(draws.noise.chunks_exact(draws.dim));
                let (g, g_noise) = of_row.fold((0.0, 0.0), |(g, s), (gs, e)| (g + gs[i], s + gs[i] * e[i]));
                let s = lower[at];
                let on_rho = (g_noise + (beta / s - bt * s)) * softplus_slope::<false>(s);
                ascend::<false>(&mut self.rho[r], &mut first[at], &mut second[at], on_rho, step);
                lower[at] = diagonal(self.rho[r]);
                let on_mean = g - bt * (self.mean[r] - penalty.centre);
                let (first, second) = (&mut self.mean_first[r], &mut self.mean_second[r]);
                ascend::<false>(&mut self.mean[r], first, second, on_mean, step);
            }
        }
    }
}

impl FullCovariance {
    /// Refuses a number of parameters whose state would not fit: L, two moments and the result, and three more where the best
    /// is kept. `method` and `fix` are for the message.
    pub fn check(method: &str, dim: usize, draws: usize, keeps_best: bool, fix: &str) -> Result<()> {
        let n = dim as u128;
        let triangles = (n * (n + 1) / 2).saturating_mul(if keeps_best { 7 } else { 4 });
        let bytes = triangles.saturating_add(2 * n * draws as u128).saturating_mul(4);
        check_memory(method, dim, bytes, MOST_BYTES, fix)
    }

    /// Starts at the given means and, independent, the given standard deviations; `draws` is how many draws a step averages
    /// over.
    pub fn new(mean: &[f32], std: &[f32], draws: usize) -> FullCovariance {
        let dim = mean.len();
        let mut groups = Vec::new();
        let mut first = 0;
        while first < dim {
            let (mut end, mut numbers) = (first, 0);
            while end < dim && numbers < GROUP {
                end += 1;
                numbers += end;
            }
            let rho: Vec<f32> = std[first..end].iter().map(|s| inverse_softplus(f64::from(*s)) as f32).collect();
            let mut lower = vec![0.0; numbers];
            let mut at = 0;
            for (i, rho) in (first..end).zip(&rho) {
                lower[at + i] = diagonal(*rho);
                at += i + 1;
            }
            let zeros = |n: usize| vec![0.0f32; n];
            let rows = end - first;
            groups.push(Rows {
                first,
                lower,
                lower_first: zeros(numbers),
                lower_second: zeros(numbers),
                rho,
                mean: mean[first..end].to_vec(),
                mean_first: zeros(rows),
                mean_second: zeros(rows),
                drawn: zeros(rows),
                kl: 0.0,
            });
            first = end;
        }
        let (noise, gradients) = (vec![0.0; dim * draws], vec![0.0; dim * draws]);
        FullCovariance { groups, noise, gradients, dim, remembered: 0, steps: 0 }
    }

    /// m, and L row after row, each up to its diagonal.
    pub fn parts(&self) -> (Vec<f32>, Vec<f32>) {
        let mean = self.groups.iter().flat_map(|g| g.mean.iter().copied()).collect();
        (mean, self.groups.iter().flat_map(|g| g.lower.iter().copied()).collect())
    }

    /// Where in `noise` and `gradients` the draw at work stands.
    fn slot(&self) -> std::ops::Range<usize> {
        self.remembered * self.dim..(self.remembered + 1) * self.dim
    }
}

impl Family for FullCovariance {
    fn draw(&mut self, key: Key, penalties: &[GaussianPenalty], w: &mut [f32]) -> f64 {
        let slot = self.slot();
        let noise = &mut self.noise[slot];
        fill_normals_par(key, noise);
        self.groups.par_iter_mut().for_each(|rows| rows.draw(noise, penalties));
        let mut kl = 0.0;
        for rows in &self.groups {
            w[rows.first..][..rows.drawn.len()].copy_from_slice(&rows.drawn);
            kl += rows.kl;
        }
        kl
    }

    fn accumulate(&mut self, gradient: &[f32], share: f32) {
        let slot = self.slot();
        self.gradients[slot].iter_mut().zip(gradient).for_each(|(kept, g)| *kept = share * g);
        self.remembered += 1;
    }

    fn update(&mut self, gradient: &[f32], share: f32, penalties: &[GaussianPenalty], beta: f64, rate: f64) {
        self.accumulate(gradient, share);
        self.remembered = 0;
        self.steps += 1;
        let step = AdamStep::new(self.steps, rate);
        let draws = Draws { gradients: &self.gradients, noise: &self.noise, dim: self.dim };
        self.groups.par_iter_mut().for_each(|rows| rows.update(draws, penalties, beta as f32, step));
    }

    fn is_finite(&self) -> bool {
        self.groups.iter().all(|g| g.mean.iter().chain(&g.rho).chain(&g.lower).all(|v| v.is_finite()))
    }
}

/// Noise and gradients of a step's draws are used up with the step.
impl Stateful for FullCovariance {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.count("steps", &mut self.steps)?;
        macro_rules! parts {
            ($($name:ident),*) => {
                $(state.parts(stringify!($name), self.groups.iter_mut().map(|g| &mut g.$name[..]))?;)*
            };
        }
        parts!(lower, lower_first, lower_second, rho, mean, mean_first, mean_second);
        Ok(())
    }
}

#[cfg(test)]
impl FullCovariance {
    /// With L given, row after row; its diagonal has to be the one the family was made with.
    pub fn set_lower(&mut self, mut lower: &[f32]) {
        for rows in &mut self.groups {
            let (own, rest) = lower.split_at(rows.lower.len());
            rows.lower.copy_from_slice(own);
            lower = rest;
        }
    }

    /// The gradient of the first step, in m and in L with ρ for its diagonal: Adam's first moments hold a tenth of it.
    pub fn gradient(&self) -> Vec<f64> {
        let mean = self.groups.iter().flat_map(|g| &g.mean_first);
        mean.chain(self.groups.iter().flat_map(|g| &g.lower_first)).map(|f| 10.0 * f64::from(*f)).collect()
    }
}
