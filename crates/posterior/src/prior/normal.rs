//! N(m, s²) for every parameter: the default, and the prior of learned noise scales.
//!
//! log p(w) = −½ ((w − m)/s)² − ln s − ½ ln 2π; KL[N(μ, σ²) ‖ p] = ln(s/σ) + (σ² + (μ − m)²)/2s² − ½. Neal, Bayesian
//! Learning for Neural Networks, 1996. One multiply-add or two per parameter.

use super::{
    BlockPrior, BlockPriorOps, LANES, NormalBlock, PriorEntry, Scaling, Term, lanes_sum, scaling_field, std_fields,
};
use crate::math::Real;
use crate::math::special::HALF_LN_TAU;
use crate::nn::Role;
use crate::rng::{Key, fill_normals};
use crate::settings::{NamedOptions, Options};
use crate::simd_fn;
use std::sync::Arc;

crate::options! {
    /// Normal weights.
    pub struct NormalOptions: "normal" {
        ..std_fields!,
    }
}

/// The row of the table.
pub(super) const ENTRY: PriorEntry = PriorEntry {
    name: NormalOptions::NAME,
    summary: "normal weights: weight decay as a prior",
    settings: NormalOptions::SETTINGS,
    std: |settings, role| {
        let own = NormalOptions::read(settings);
        Some(if role == Role::Bias { own.bias_std } else { own.weight_std })
    },
    build: |_, std| Ok(Arc::new(Normal::new(0.0, std.unwrap_or(1.0)))),
};

/// Independent normals of one mean and one standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normal {
    mean: f64,
    std: f64,
}

impl Normal {
    /// N(mean, std²).
    pub fn new(mean: f64, std: f64) -> Normal {
        Normal { mean, std }
    }
}

/// (w − m)², and −slope·(w − m).
#[derive(Clone, Copy)]
struct Square<R> {
    mean: R,
    slope: R,
}

impl<R: Real> Term<R> for Square<R> {
    #[inline(always)]
    fn at<const F: bool>(self, w: R) -> (R, R) {
        let d = w - self.mean;
        (d * d, -(self.slope * d))
    }
}

#[inline(always)]
fn divergence_of<const F: bool>(mu: f32, sigma: f32, m: f64, half_precision: f64) -> f64 {
    let (d, sigma) = (f64::from(mu) - m, f64::from(sigma));
    Real::mul_add::<F>(sigma, sigma, d * d) * half_precision - Real::ln::<F>(sigma)
}

simd_fn! {
    /// Σ (σ² + (μ − m)²)/2s² − ln σ
    fn divergence(mean: &[f32], std: &[f32], m: f64, half_precision: f64) -> f64 {
        let mut sums = [0.0_f64; LANES];
        let ((means, rest_mean), (stds, rest_std)) = (mean.as_chunks::<LANES>(), std.as_chunks::<LANES>());
        for (mu, sigma) in means.iter().zip(stds) {
            for l in 0..LANES {
                sums[l] += divergence_of::<F>(mu[l], sigma[l], m, half_precision);
            }
        }
        for (l, (mu, sigma)) in rest_mean.iter().zip(rest_std).enumerate() {
            sums[l] += divergence_of::<F>(*mu, *sigma, m, half_precision);
        }
        sums.iter().sum()
    }
}

impl<R: Real> BlockPriorOps<R> for Normal {
    fn log_density(&self, _first: usize, w: &[R], scale: f64, grad: Option<&mut [R]>) -> f64 {
        let precision = self.std.powi(-2);
        let squares = lanes_sum(Square { mean: R::of(self.mean), slope: R::of(scale * precision) }, w, grad);
        -0.5 * precision * squares - w.len() as f64 * (self.std.ln() + HALF_LN_TAU)
    }
}

impl BlockPrior for Normal {
    fn sample(&self, key: Key, out: &mut [f32]) {
        fill_normals(key, out);
        let (mean, std) = (self.mean as f32, self.std as f32);
        for w in out {
            *w = mean + std * *w;
        }
    }
    fn kl_from_normal(&self, mean: &[f32], std: &[f32]) -> Option<f64> {
        let sum = divergence(mean, std, self.mean, 0.5 * self.std.powi(-2));
        Some(sum + mean.len() as f64 * (self.std.ln() - 0.5))
    }
    fn as_normal(&self) -> Option<NormalBlock<'_>> {
        Some(NormalBlock::Same { mean: self.mean, std: self.std })
    }
}
