//! Gaussian whose covariance is diagonal plus low rank, with its optimiser: w = m + σ ⊙ ε + U z, σ = softplus(ρ).
//!
//! q = N(m, D + U Uᵀ), D = diag(σ²), U of P × r. With C = I + Uᵀ D⁻¹ U, of order r, the matrix determinant lemma gives
//! log det = 2 Σ ln σᵢ + log det C, and for normal priors N(c, 1/τ)
//!
//! KL = Σ −ln σᵢ + ½τ(σᵢ² + ‖uᵢ‖² + (mᵢ−c)²) − ½ log det C + const.
//!
//! With g = ∇_w log p(D | w), V = D⁻¹ U C⁻¹ and hᵢ = uᵢᵀvᵢ, the ELBO's gradient is g − βτ(m−c) in m, g zᵀ − β(τU − V) in U and
//! gε − β(τσ − (1−h)/σ) in σ. For other priors τ = 0 and log p(w) is differentiated at the drawn w.
//!
//! U starts small and random: at 0, w does not depend on z, so that E[g zᵀ] = 0 and V = 0, a saddle that no gradient leaves.
//!
//! Reference: Ong, Nott & Smith (2018), J. Comput. Graph. Stat. 27. Cost per step: two fused passes over (8 + 3r)P
//! numbers, r² multiply-adds per parameter in each, and r³ once. Blocks are dealt to teams by a rule that knows P only, and
//! the teams' parts of C and of the KL are added in order: the bits do not depend on the threads.

use super::low_rank_kernels::{Block, Column, TILE, Terms, add_product, inverse_variances, multiply, update_tile};
use super::mean_field::{for_penalties, inverse_softplus};
use super::mean_field_kernels::{STD_FLOOR, draw_block, kl_block};
use super::{Family, check_memory};
use crate::error::Result;
use crate::math::Real;
use crate::math::elementwise::{axpy, dot};
use crate::math::linalg::invert_in_place;
use crate::optim::{AdamStep, GaussianPenalty};
use crate::rng::{BLOCK, Key, Normals, fill_normals};
use crate::snapshot::{State, Stateful};
use rayon::prelude::*;

/// At most so many parts of C are kept side by side.
const TEAMS: usize = 64;
/// Blocks of a team at the least: about 10 µs of work.
const BLOCKS_PER_TEAM: usize = 4;
/// U starts at this part of σ: its share of the variance is 1 %.
const START: f32 = 0.1;
/// More memory than this is refused: a rank this large is most likely mistyped.
const MOST_BYTES: u128 = 16 << 30;

/// Blocks that one thread works through in order.
#[derive(Debug, Clone)]
struct Team {
    blocks: Vec<Block>,
    /// `rank` to a block.
    columns: Vec<Column>,
    /// Gradients summed over the draws of a step, in m, in σ and in the columns of U: `2 + rank` to a block; empty where a
    /// step has one draw.
    sums: Vec<[f32; BLOCK]>,
    /// This team's part of Uᵀ D⁻¹ U: the lower triangle.
    inner: Vec<f64>,
    kl: f64,
    /// V of a tile; or the inverse variances of a block and one column scaled by them.
    scratch: Vec<f32>,
}

/// The family's state for P parameters.
#[derive(Debug, Clone)]
pub struct LowRank {
    teams: Vec<Team>,
    /// z of the last draw.
    z: Vec<f32>,
    /// C, then C⁻¹, in f64.
    inner: Vec<f64>,
    /// C⁻¹ as the update uses it.
    inverse: Vec<f32>,
    dim: usize,
    rank: usize,
    steps: u64,
}

impl Team {
    fn draw(&mut self, key: Key, first_block: usize, z: &[f32], penalties: &[GaussianPenalty], w: &mut [f32]) {
        let rank = z.len();
        self.inner.fill(0.0);
        self.kl = 0.0;
        for (b, (block, w)) in self.blocks.iter_mut().zip(w.chunks_mut(BLOCK)).enumerate() {
            let (columns, number, n) = (&self.columns[b * rank..(b + 1) * rank], first_block + b, w.len());
            f32::fill_block(key.block(number as u64), &mut block.noise[..n]);
            draw_block(&block.mean, &block.rho, &block.noise, &mut block.std, w);
            let (inverse, scaled) = self.scratch[..2 * BLOCK].split_at_mut(BLOCK);
            let (inverse, scaled) = (&mut inverse[..n], &mut scaled[..n]);
            inverse_variances(&block.std, inverse);
            for (a, column) in columns.iter().enumerate() {
                axpy(z[a], &column.u[..n], w);
                multiply(&column.u, inverse, scaled);
                for (sum, other) in self.inner[a * rank..=a * rank + a].iter_mut().zip(columns) {
                    *sum += dot(scaled, &other.u[..n]);
                }
            }
            for_penalties(penalties, number, n, |penalty, from, to| {
                let squares: f64 = if penalty.precision > 0.0 {
                    columns.iter().map(|c| dot(&c.u[from..to], &c.u[from..to])).sum()
                } else {
                    0.0
                };
                self.kl += penalty.kl_constant * (to - from) as f64
                    + 0.5 * f64::from(penalty.precision) * squares
                    + kl_block(&block.mean[from..to], &block.std[from..to], penalty.centre, penalty.precision);
            });
        }
    }

    fn accumulate(&mut self, gradient: &[f32], share: f32, z: &[f32]) {
        let parts = 2 + z.len();
        let blocks = self.blocks.iter().zip(self.sums.chunks_mut(parts)).zip(gradient.chunks(BLOCK));
        for ((block, sums), g) in blocks {
            axpy(share, g, &mut sums[0][..g.len()]);
            add_product(share, g, &block.noise, &mut sums[1]);
            for (sum, z) in sums[2..].iter_mut().zip(z) {
                axpy(share * z, g, &mut sum[..g.len()]);
            }
        }
    }

    fn update(&mut self, gradient: &[f32], first_block: usize, penalties: &[GaussianPenalty], terms: Terms<'_>) {
        let rank = terms.z.len();
        let parts = if self.sums.is_empty() { 0 } else { 2 + rank };
        for (b, (block, g)) in self.blocks.iter_mut().zip(gradient.chunks(BLOCK)).enumerate() {
            let columns = &mut self.columns[b * rank..(b + 1) * rank];
            let sums = &mut self.sums[b * parts..(b + 1) * parts];
            for_penalties(penalties, first_block + b, g.len(), |penalty, from, to| {
                let terms = Terms { centre: penalty.centre, precision: penalty.precision, ..terms };
                for at in (from..to).step_by(TILE) {
                    let g = &g[at..to.min(at + TILE)];
                    update_tile(block, columns, at, g, sums, terms, &mut self.scratch[..rank * TILE]);
                }
            });
            sums.iter_mut().for_each(|s| s.fill(0.0));
        }
    }
}

impl LowRank {
    /// Refuses sizes that would not fit into memory.
    pub fn check(dim: usize, rank: usize, draws: usize) -> Result<()> {
        let numbers = 8 + 3 * rank + if draws > 1 { 2 + rank } else { 0 };
        let bytes = 4 * dim as u128 * numbers as u128;
        check_memory("low-rank", dim, bytes, MOST_BYTES, "lower the rank (⟨set rank=5⟩), or use mean-field")
    }

    /// Starts at the given means and standard deviations, and U of `rank` columns, small, from the key; `draws` is how many
    /// draws a step averages over.
    pub fn new(mean: &[f32], std: &[f32], rank: usize, draws: usize, key: Key) -> LowRank {
        let (dim, zero) = (mean.len(), [0.0f32; BLOCK]);
        let blocks = dim.div_ceil(BLOCK);
        let per_team = blocks.div_ceil(TEAMS).max(BLOCKS_PER_TEAM);
        let scale = START / (rank as f32).sqrt();
        let team = |t: usize| {
            let numbers = t * per_team..blocks.min((t + 1) * per_team);
            let mut team = Team {
                blocks: Vec::with_capacity(numbers.len()),
                columns: vec![Column { u: zero, first: zero, second: zero }; numbers.len() * rank],
                sums: vec![zero; if draws > 1 { numbers.len() * (2 + rank) } else { 0 }],
                inner: vec![0.0; rank * rank],
                kl: 0.0,
                scratch: vec![0.0; (2 * BLOCK).max(rank * TILE)],
            };
            for (b, number) in numbers.enumerate() {
                let range = number * BLOCK..dim.min((number + 1) * BLOCK);
                let (mean, std) = (&mean[range.clone()], &std[range]);
                let mut block = Block {
                    mean: zero,
                    rho: zero,
                    std: zero,
                    noise: zero,
                    mean_first: zero,
                    mean_second: zero,
                    rho_first: zero,
                    rho_second: zero,
                };
                block.mean[..mean.len()].copy_from_slice(mean);
                for (rho, s) in block.rho.iter_mut().zip(std) {
                    *rho = inverse_softplus(f64::from(*s)) as f32;
                }
                for (a, column) in team.columns[b * rank..(b + 1) * rank].iter_mut().enumerate() {
                    let u = &mut column.u[..std.len()];
                    f32::fill_block(key.derive(a as u64).block(number as u64), u);
                    u.iter_mut().zip(std).for_each(|(u, s)| *u *= scale * s);
                }
                team.blocks.push(block);
            }
            team
        };
        LowRank {
            teams: (0..blocks.div_ceil(per_team)).map(team).collect(),
            z: vec![0.0; rank],
            inner: vec![0.0; rank * rank],
            inverse: vec![0.0; rank * rank],
            dim,
            rank,
            steps: 0,
        }
    }

    fn per_team(&self) -> usize {
        self.teams.first().map_or(1, |t| t.blocks.len())
    }

    /// m, σ, and U column after column.
    pub fn parts(&self) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let mut mean = Vec::with_capacity(self.dim);
        let mut std = Vec::with_capacity(self.dim);
        let mut factor = vec![0.0; self.dim * self.rank];
        for team in &self.teams {
            for (block, columns) in team.blocks.iter().zip(team.columns.chunks(self.rank)) {
                let from = mean.len();
                let n = (self.dim - from).min(BLOCK);
                mean.extend_from_slice(&block.mean[..n]);
                std.extend(block.rho[..n].iter().map(|r| r.softplus::<false>().max(STD_FLOOR)));
                for (a, column) in columns.iter().enumerate() {
                    factor[a * self.dim + from..][..n].copy_from_slice(&column.u[..n]);
                }
            }
        }
        (mean, std, factor)
    }
}

impl Family for LowRank {
    fn draw(&mut self, key: Key, penalties: &[GaussianPenalty], w: &mut [f32]) -> f64 {
        let per_team = self.per_team();
        // Blocks are keyed by their numbers, so the last of all numbers is free.
        fill_normals(key.derive(u64::MAX), &mut self.z);
        let z = &self.z;
        let teams = self.teams.par_iter_mut().zip(w.par_chunks_mut(per_team * BLOCK)).enumerate();
        teams.for_each(|(t, (team, w))| team.draw(key, t * per_team, z, penalties, w));
        self.inner.fill(0.0);
        for team in &self.teams {
            axpy(1.0, &team.inner, &mut self.inner);
        }
        (0..self.rank).for_each(|a| self.inner[a * self.rank + a] += 1.0);
        let log_det = invert_in_place(&mut self.inner, self.rank);
        self.inverse.iter_mut().zip(&self.inner).for_each(|(f, v)| *f = *v as f32);
        self.teams.iter().map(|t| t.kl).sum::<f64>() - 0.5 * log_det
    }

    fn accumulate(&mut self, gradient: &[f32], share: f32) {
        let (per_team, z) = (self.per_team(), &self.z);
        let teams = self.teams.par_iter_mut().zip(gradient.par_chunks(per_team * BLOCK));
        teams.for_each(|(team, g)| team.accumulate(g, share, z));
    }

    fn update(&mut self, gradient: &[f32], share: f32, penalties: &[GaussianPenalty], beta: f64, rate: f64) {
        self.steps += 1;
        let per_team = self.per_team();
        let terms = Terms {
            z: &self.z,
            inverse: &self.inverse,
            share,
            centre: 0.0,
            precision: 0.0,
            beta: beta as f32,
            step: AdamStep::new(self.steps, rate),
        };
        let teams = self.teams.par_iter_mut().zip(gradient.par_chunks(per_team * BLOCK)).enumerate();
        teams.for_each(|(t, (team, g))| team.update(g, t * per_team, penalties, terms));
    }

    fn is_finite(&self) -> bool {
        let finite = |x: &[f32; BLOCK]| x.iter().all(|v| v.is_finite());
        self.teams.iter().all(|t| {
            t.blocks.iter().all(|b| finite(&b.mean) && finite(&b.rho)) && t.columns.iter().all(|c| finite(&c.u))
        })
    }
}

/// Sums over draws are empty between steps; z, C and the KL follow from the next draw.
impl Stateful for LowRank {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.count("steps", &mut self.steps)?;
        macro_rules! parts {
            ($from:ident: $($name:ident),*) => {$(
                let parts = self.teams.iter_mut().flat_map(|t| t.$from.iter_mut().map(|b| &mut b.$name[..]));
                state.parts(concat!(stringify!($from), ".", stringify!($name)), parts)?;
            )*};
        }
        parts!(blocks: mean, rho, mean_first, mean_second, rho_first, rho_second);
        parts!(columns: u, first, second);
        Ok(())
    }
}

#[cfg(test)]
impl LowRank {
    /// With U given, column after column.
    pub fn set_factor(&mut self, factor: &[f32]) {
        let (dim, rank) = (self.dim, self.rank);
        let columns = self.teams.iter_mut().flat_map(|t| t.columns.chunks_mut(rank));
        for (b, columns) in columns.enumerate() {
            let n = BLOCK.min(dim - b * BLOCK);
            for (a, column) in columns.iter_mut().enumerate() {
                column.u[..n].copy_from_slice(&factor[a * dim + b * BLOCK..][..n]);
            }
        }
    }

    /// The gradient of the first step, in m, ρ and the columns of U: Adam's first moments hold a tenth of it.
    pub fn gradient(&self) -> Vec<f64> {
        let mut out = vec![0.0; (2 + self.rank) * self.dim];
        let blocks = self.teams.iter().flat_map(|t| t.blocks.iter().zip(t.columns.chunks(self.rank)));
        for (b, (block, columns)) in blocks.enumerate() {
            let moments = [&block.mean_first, &block.rho_first].into_iter().chain(columns.iter().map(|c| &c.first));
            for (part, first) in moments.enumerate() {
                let out = &mut out[part * self.dim + b * BLOCK..(part + 1) * self.dim];
                out.iter_mut().zip(first).for_each(|(o, f)| *o = 10.0 * f64::from(*f));
            }
        }
        out
    }
}
