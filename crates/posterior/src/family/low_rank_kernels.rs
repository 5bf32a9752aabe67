//! The fused passes over one block of a low-rank family: scaled columns, all gradients with all Adam steps.

use super::mean_field_kernels::softplus_slope;
use crate::math::Real;
use crate::optim::{AdamStep, ascend};
use crate::rng::BLOCK;
use crate::simd_fn;

/// Parameters that go through an update together: what is worked out of U for them stays in the first-level cache.
pub(super) const TILE: usize = 64;

/// Means and σ of a block of parameters, with what the optimiser keeps about them.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub mean: [f32; BLOCK],
    pub rho: [f32; BLOCK],
    pub std: [f32; BLOCK],
    pub noise: [f32; BLOCK],
    pub mean_first: [f32; BLOCK],
    pub mean_second: [f32; BLOCK],
    pub rho_first: [f32; BLOCK],
    pub rho_second: [f32; BLOCK],
}

/// One column of U for a block of parameters, with what the optimiser keeps about it.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub u: [f32; BLOCK],
    pub first: [f32; BLOCK],
    pub second: [f32; BLOCK],
}

simd_fn! {
    /// d ← 1/σ²
    pub(super) fn inverse_variances(std: &[f32], d: &mut [f32]) {
        let n = d.len();
        let std = &std[..n];
        for i in 0..n {
            d[i] = 1.0 / (std[i] * std[i]);
        }
    }
}

simd_fn! {
    /// s ← u ⊙ d
    pub(super) fn multiply(u: &[f32], d: &[f32], s: &mut [f32]) {
        let n = s.len();
        let (u, d) = (&u[..n], &d[..n]);
        for i in 0..n {
            s[i] = u[i] * d[i];
        }
    }
}

/// What is the same for all parameters of a range in one step.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub z: &'a [f32],
    pub inverse: &'a [f32],
    pub share: f32,
    pub centre: f32,
    pub precision: f32,
    pub beta: f32,
    pub step: AdamStep,
}

simd_fn! {
    /// All gradients and Adam steps of at most TILE parameters of a block, from `at` on. `g` is the tile's; `sums` the block's,
    /// or empty.
    pub(super) fn update_tile(
        block: &mut Block,
        columns: &mut [Column],
        at: usize,
        g: &[f32],
        sums: &[[f32; BLOCK]],
        terms: Terms<'_>,
        v: &mut [f32],
    ) {
        let Terms { z, inverse, share, centre, precision, beta, step } = terms;
        let (n, rank, bt) = (g.len(), columns.len(), beta * precision);
        let std = &block.std[at..][..n];
        let (mut leverage, mut inverse_variance) = ([0.0f32; TILE], [0.0f32; TILE]);
        let inverse_variance = &mut inverse_variance[..n];
        for i in 0..n {
            inverse_variance[i] = 1.0 / (std[i] * std[i]);
        }
        // All of V before any of U moves.
        for (a, v) in v.chunks_exact_mut(TILE).enumerate() {
            let mut sum = [0.0f32; TILE];
            let sum = &mut sum[..n];
            for (column, c) in columns.iter().zip(&inverse[a * rank..(a + 1) * rank]) {
                let u = &column.u[at..][..n];
                for i in 0..n {
                    sum[i] = Real::mul_add::<F>(*c, u[i], sum[i]);
                }
            }
            let (u, leverage, v) = (&columns[a].u[at..][..n], &mut leverage[..n], &mut v[..n]);
            for i in 0..n {
                v[i] = sum[i] * inverse_variance[i];
                leverage[i] = Real::mul_add::<F>(v[i], u[i], leverage[i]);
            }
        }
        let zero = [0.0f32; TILE];
        let remembered = |part: usize| sums.get(part).map_or(&zero[..n], |s| &s[at..][..n]);
        let (d_mean, d_std) = (remembered(0), remembered(1));
        let Block { mean, rho, noise, mean_first, mean_second, rho_first, rho_second, .. } = block;
        let (mean, rho, noise) = (&mut mean[at..][..n], &mut rho[at..][..n], &noise[at..][..n]);
        let (mean_first, mean_second) = (&mut mean_first[at..][..n], &mut mean_second[at..][..n]);
        let (rho_first, rho_second) = (&mut rho_first[at..][..n], &mut rho_second[at..][..n]);
        for i in 0..n {
            let (s, g) = (std[i], share * g[i]);
            let on_mean = g + d_mean[i] - bt * (mean[i] - centre);
            let on_std = Real::mul_add::<F>(g, noise[i], d_std[i]) + (beta * (1.0 - leverage[i]) / s - bt * s);
            ascend::<F>(&mut mean[i], &mut mean_first[i], &mut mean_second[i], on_mean, step);
            let on_rho = on_std * softplus_slope::<F>(s);
            ascend::<F>(&mut rho[i], &mut rho_first[i], &mut rho_second[i], on_rho, step);
        }
        for (a, (column, v)) in columns.iter_mut().zip(v.chunks_exact(TILE)).enumerate() {
            let Column { u, first, second } = column;
            let (u, first, second) = (&mut u[at..][..n], &mut first[at..][..n], &mut second[at..][..n]);
            let (v, d_u, z) = (&v[..n], remembered(2 + a), share * z[a]);
            for i in 0..n {
                let on_u = Real::mul_add::<F>(g[i], z, d_u[i]) + (beta * v[i] - bt * u[i]);
                ascend::<F>(&mut u[i], &mut first[i], &mut second[i], on_u, step);
            }
        }
    }
}

simd_fn! {
    /// s ← s + weight·g ⊙ x
    pub(super) fn add_product(weight: f32, g: &[f32], x: &[f32], s: &mut [f32]) {
        let n = g.len();
        let (x, s) = (&x[..n], &mut s[..n]);
        for i in 0..n {
            s[i] = Real::mul_add::<F>(weight * g[i], x[i], s[i]);
        }
    }
}
