//! Stochastic-gradient Hamiltonian Monte Carlo: m ← (1 − α)m + ηG∇ + √(2αηG) z; w ← w + m.
//!
//! The friction α takes out what the gradient's noise puts in; at α = 1 it is SGLD. No accept step: like SGLD's, its draws are biased
//! by η and by the noise of ∇, which adds about η/(2α) times its variance. G as for SGLD. Reference: Chen, Fox & Guestrin (2014), ICML, eq. 15.
//! Cost: one gradient of a mini-batch and one fused pass over memory.

use super::sgld::{NoisyStep, Preconditioner, Rms, by_blocks, scale};
use crate::math::Real;
use crate::simd_fn;

simd_fn! {
    fn plain(w: &mut [f32], m: &mut [f32], g: &[f32], z: &[f32], centre: f32, precision: f32, keep: f32, rate: f32, noise: f32) {
        let n = w.len();
        let (m, g, z) = (&mut m[..n], &g[..n], &z[..n]);
        for i in 0..n {
            let g = g[i] - precision * (w[i] - centre);
            m[i] = Real::mul_add::<F>(keep, m[i], Real::mul_add::<F>(rate, g, noise * z[i]));
            w[i] += m[i];
        }
    }
}

simd_fn! {
    fn preconditioned(
        w: &mut [f32], v: &mut [f32], m: &mut [f32], g: &[f32], z: &[f32], centre: f32, precision: f32, keep: f32, rate: f32, noise: f32, rms: Rms,
    ) {
        let n = w.len();
        let (v, m, g, z, damping) = (&mut v[..n], &mut m[..n], &g[..n], &z[..n], rms.damping(precision));
        for i in 0..n {
            let g = g[i] - precision * (w[i] - centre);
            let scale = scale::<F>(&mut v[i], g, rms, damping);
            let push = Real::mul_add::<F>(rate * scale, g, noise * scale.sqrt() * z[i]);
            m[i] = Real::mul_add::<F>(keep, m[i], push);
            w[i] += m[i];
        }
    }
}

/// One step of SGHMC at friction α.
pub fn sghmc_step(
    w: &mut [f32],
    momentum: &mut [f32],
    preconditioner: &mut Preconditioner,
    friction: f64,
    step: NoisyStep<'_>,
) {
    let rms = preconditioner.advance();
    let keep = (1.0 - friction) as f32;
    let (rate, noise) = (step.rate as f32, (step.noise * (2.0 * friction * step.rate).sqrt()) as f32);
    by_blocks(0, w, &mut preconditioner.squares, momentum, step, &|w, v, m, g, z, centre, precision| {
        if v.is_empty() {
            plain(w, m, g, z, centre, precision, keep, rate, noise);
        } else {
            preconditioned(w, v, m, g, z, centre, precision, keep, rate, noise, rms);
        }
    });
}
