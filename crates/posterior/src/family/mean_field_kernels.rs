//! The fused passes over one block of a mean-field family: draw, KL, both gradients with both Adam steps.

use crate::distribution::log_uniform_kl;
use crate::math::Real;
use crate::nn::RowNoise;
use crate::optim::{AdamStep, GaussianPenalty, Law, ascend};
use crate::rng::BLOCK;
use crate::simd_fn;

/// σ never falls below: so that the product of four is still a normal f32, and 1/σ stays finite.
pub(super) const STD_FLOOR: f32 = 1e-9;

/// Room for a block's numbers of one kind. Arrays that stood a whole page apart would share their places in the first-level
/// cache, and a load would wait for the store before it: a line more sets them off.
pub(super) const ROOM: usize = BLOCK + 16;

/// A block of variational parameters with what the optimiser keeps about them.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub mean: [f32; ROOM],
    pub rho: [f32; ROOM],
    pub std: [f32; ROOM],
    pub noise: [f32; ROOM],
    pub mean_first: [f32; ROOM],
    pub mean_second: [f32; ROOM],
    pub rho_first: [f32; ROOM],
    pub rho_second: [f32; ROOM],
    pub kl: f64,
}

simd_fn! {
    /// σ = softplus(ρ), w = m + σε.
    wider pub(super) fn draw_block(mean: &[f32], rho: &[f32], noise: &[f32], std: &mut [f32], w: &mut [f32]) {
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
    wider pub(super) fn kl_block(mean: &[f32], std: &[f32], centre: f32, precision: f32) -> f64 {
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

simd_fn! {
    /// Σ KL to p(w) ∝ 1/|w|.
    wider pub(super) fn log_uniform_block(mean: &[f32], std: &[f32]) -> f64 {
        let mut sums = [0.0f32; 16];
        let (mean_groups, mean_rest) = mean.as_chunks::<16>();
        let (std_groups, std_rest) = std[..mean.len()].as_chunks::<16>();
        // Whole groups: with a number of turns that the compiler knows, the lanes become one instruction.
        for (m, s) in mean_groups.iter().zip(std_groups) {
            for j in 0..16 {
                sums[j] += log_uniform_kl::kl_of::<f32, F>(m[j], s[j]);
            }
        }
        for (j, (m, s)) in mean_rest.iter().zip(std_rest).enumerate() {
            sums[j] += log_uniform_kl::kl_of::<f32, F>(*m, *s);
        }
        f64::from(sums.iter().sum::<f32>())
    }
}

/// d softplus/dρ = 1 − e^(−σ), from σ; its series where the difference would lose digits.
#[inline(always)]
pub(super) fn softplus_slope<const F: bool>(s: f32) -> f32 {
    let series = s * (1.0 - s * (0.5 - s * (1.0 / 6.0)));
    let exact = 1.0 - Real::exp::<F>(-s);
    if s < 0.03 { series } else { exact }
}

/// What a pass says about σ.
#[derive(Debug, Clone, Copy)]
pub(super) enum Second<'a> {
    /// Nothing but the gradient in w = m + σε: dL/dσ = g ⊙ ε.
    Direct,
    /// The gradient in σε: dL/dσ = that ⊙ ε.
    Perturbation(&'a [f32]),
    /// The gradient in σ²: dL/dσ = 2σ ⊙ that.
    Variance(&'a [f32]),
    /// The gradient in σ.
    Std(&'a [f32]),
}

impl<'a> Second<'a> {
    /// By how rows came by their noise, for parameters `from..to`, of which those at `fixed` and after have none.
    pub fn of(noise: RowNoise, spread: &'a [f32], from: usize, to: usize, fixed: usize) -> Second<'a> {
        match noise {
            _ if from >= fixed => Second::Direct,
            RowNoise::Local => Second::Variance(&spread[from..to]),
            RowNoise::Flipout => Second::Perturbation(&spread[from..to]),
        }
    }
}

/// What a step of one parameter needs to know.
#[derive(Clone, Copy)]
pub(super) struct Update {
    pub centre: f32,
    pub precision: f32,
    pub beta: f32,
    pub law: Law,
    pub step: AdamStep,
}

simd_fn! {
    /// Both gradients and both Adam steps of parameters `from..to` of a block. `g` is the gradient in m.
    wider pub(super) fn update_block(state: &mut Block, from: usize, to: usize, g: &[f32], second: Second<'_>, update: Update) {
        let Update { centre, precision, beta, law, step } = update;
        let Block { mean, rho, std, noise, mean_first, mean_second, rho_first, rho_second, .. } = state;
        let n = to - from;
        let (mean, rho) = (&mut mean[from..to][..n], &mut rho[from..to][..n]);
        let (std, noise) = (&std[from..to][..n], &noise[from..to][..n]);
        let (mean_first, mean_second) = (&mut mean_first[from..to][..n], &mut mean_second[from..to][..n]);
        let (rho_first, rho_second) = (&mut rho_first[from..to][..n], &mut rho_second[from..to][..n]);
        let (bt, g) = (beta * precision, &g[..n]);
        // One loop, compiled once for each way to dL/dσ.
        macro_rules! ascend_all {
            ($i:ident, $s:ident, $on_std:expr) => {
                match law {
                    Law::Normal => ascend_all!($i, $s, $on_std, (-bt * (mean[$i] - centre), beta / $s - bt * $s)),
                    Law::LogUniform => ascend_all!($i, $s, $on_std, {
                        let (on_mean, on_std) = log_uniform_kl::slopes::<f32, F>(mean[$i], $s);
                        (-beta * on_mean, -beta * on_std)
                    }),
                }
            };
            ($i:ident, $s:ident, $on_std:expr, $prior:expr) => {
                for $i in 0..n {
                    let $s = std[$i];
                    let (prior_mean, prior_std) = $prior;
                    let on_mean = g[$i] + prior_mean;
                    let on_rho = ($on_std + prior_std) * softplus_slope::<F>($s);
                    ascend::<F>(&mut mean[$i], &mut mean_first[$i], &mut mean_second[$i], on_mean, step);
                    ascend::<F>(&mut rho[$i], &mut rho_first[$i], &mut rho_second[$i], on_rho, step);
                }
            };
        }
        match second {
            Second::Direct => ascend_all!(i, s, g[i] * noise[i]),
            Second::Perturbation(d) => {
                let d = &d[..n];
                ascend_all!(i, s, d[i] * noise[i])
            }
            Second::Variance(d) => {
                let d = &d[..n];
                ascend_all!(i, s, (s + s) * d[i])
            }
            Second::Std(d) => {
                let d = &d[..n];
                ascend_all!(i, s, d[i])
            }
        }
    }
}

simd_fn! {
    /// Adds one draw's gradients in m and σ.
    pub(super) fn add_gradients(g: &[f32], second: Second<'_>, noise: &[f32], std: &[f32], weight: f32, d_mean: &mut [f32], d_std: &mut [f32]) {
        let n = g.len();
        let (noise, std, d_mean, d_std) = (&noise[..n], &std[..n], &mut d_mean[..n], &mut d_std[..n]);
        for i in 0..n {
            d_mean[i] = Real::mul_add::<F>(weight, g[i], d_mean[i]);
        }
        match second {
            Second::Direct => for i in 0..n {
                d_std[i] = Real::mul_add::<F>(weight * g[i], noise[i], d_std[i]);
            },
            Second::Perturbation(d) => for i in 0..n {
                d_std[i] = Real::mul_add::<F>(weight * d[i], noise[i], d_std[i]);
            },
            Second::Variance(d) => for i in 0..n {
                d_std[i] = Real::mul_add::<F>(weight * d[i], std[i] + std[i], d_std[i]);
            },
            Second::Std(d) => for i in 0..n {
                d_std[i] = Real::mul_add::<F>(weight, d[i], d_std[i]);
            },
        }
    }
}

simd_fn! {
    /// σ = softplus(ρ), centre = m, spread = σ² or σε.
    wider pub(super) fn spread_block(noise: RowNoise, mean: &[f32], rho: &[f32], epsilon: &[f32], std: &mut [f32], centre: &mut [f32], spread: &mut [f32]) {
        let n = centre.len();
        let (mean, rho, epsilon) = (&mean[..n], &rho[..n], &epsilon[..n]);
        let (std, spread) = (&mut std[..n], &mut spread[..n]);
        centre.copy_from_slice(mean);
        match noise {
            RowNoise::Local => for i in 0..n {
                let s = rho[i].softplus::<F>().max(STD_FLOOR);
                std[i] = s;
                spread[i] = s * s;
            },
            RowNoise::Flipout => for i in 0..n {
                let s = rho[i].softplus::<F>().max(STD_FLOOR);
                std[i] = s;
                spread[i] = s * epsilon[i];
            },
        }
    }
}

/// Keeps what was removed where it is.
pub(super) fn hold(state: &mut Block, removed: Option<&[bool; BLOCK]>) {
    // softplus(ρ) is below the floor of σ there.
    const NONE: f32 = -25.0;
    for (i, _) in removed.into_iter().flatten().enumerate().filter(|(_, gone)| **gone) {
        (state.mean[i], state.mean_first[i], state.mean_second[i]) = (0.0, 0.0, 0.0);
        (state.rho[i], state.rho_first[i], state.rho_second[i]) = (NONE, 0.0, 0.0);
    }
}

/// No noise of what was removed: the square of the floor of σ, times a small number, would be denormal, and products with such are slow.
pub(super) fn silence(spread: &mut [f32], removed: Option<&[bool; BLOCK]>) {
    for (spread, gone) in spread.iter_mut().zip(removed.into_iter().flatten()) {
        *spread = if *gone { 0.0 } else { *spread };
    }
}

impl Update {
    pub fn new(penalty: &GaussianPenalty, beta: f64, step: AdamStep) -> Update {
        Update { centre: penalty.centre, precision: penalty.precision, beta: beta as f32, law: penalty.law, step }
    }
}
