//! Laplace: more weights near zero than the normal of the same standard deviation, and more far from it.
//!
//! log p(w) = −|w|/b − ln 2b, with b = std/√2; the gradient at 0, where there is none, is taken as 0.
//! KL[N(μ, σ²) ‖ p] = E|w|/b + ln 2b − ½ ln 2πeσ², with E|w| = σ√(2/π) e^{−μ²/2σ²} + μ erf(μ/σ√2) (a folded normal).
//! Williams, Neural Computation 1995. One addition per parameter.

use super::{BlockPrior, BlockPriorOps, NormalBlock, PriorEntry, Scaling, Term, lanes_sum, scaling_field, std_fields};
use crate::math::Real;
use crate::math::special::{HALF_LN_TAU, erf};
use crate::nn::Role;
use crate::rng::{Key, Stream};
use crate::settings::{NamedOptions, Options};
use std::f64::consts::{FRAC_2_PI, SQRT_2};
use std::sync::Arc;

crate::options! {
    /// Double-exponential weights.
    pub struct LaplaceOptions: "laplace" {
        ..std_fields!,
    }
}

/// The row of the table.
pub(super) const ENTRY: PriorEntry = PriorEntry {
    name: LaplaceOptions::NAME,
    summary: "double-exponential weights: many small, a few large",
    settings: LaplaceOptions::SETTINGS,
    std: |settings, role| {
        let own = LaplaceOptions::read(settings);
        Some(if role == Role::Bias { own.bias_std } else { own.weight_std })
    },
    build: |_, std| Ok(Arc::new(Laplace::new(std.unwrap_or(1.0)))),
};

/// Independent double exponentials around 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Laplace {
    b: f64,
}

impl Laplace {
    /// With this standard deviation.
    pub fn new(std: f64) -> Laplace {
        Laplace { b: std / SQRT_2 }
    }
}

/// |w|, and −slope·sign(w).
#[derive(Clone, Copy)]
struct Size<R> {
    slope: R,
}

impl<R: Real> Term<R> for Size<R> {
    #[inline(always)]
    fn at<const F: bool>(self, w: R) -> (R, R) {
        let sign = if w == R::ZERO { R::ZERO } else { R::ONE.copysign(w) };
        (w.abs(), -(self.slope * sign))
    }
}

impl<R: Real> BlockPriorOps<R> for Laplace {
    fn log_density(&self, _first: usize, w: &[R], scale: f64, grad: Option<&mut [R]>) -> f64 {
        -lanes_sum(Size { slope: R::of(scale / self.b) }, w, grad) / self.b - w.len() as f64 * (2.0 * self.b).ln()
    }
}

impl BlockPrior for Laplace {
    fn sample(&self, key: Key, out: &mut [f32]) {
        let mut stream = Stream::new(key);
        for w in out {
            let size = -self.b * stream.uniform().ln();
            *w = if stream.bits() >> 63 == 0 { size } else { -size } as f32;
        }
    }
    fn kl_from_normal(&self, mean: &[f32], std: &[f32]) -> Option<f64> {
        let sum: f64 = mean
            .iter()
            .zip(std)
            .map(|(mu, sigma)| {
                let (mu, sigma) = (f64::from(*mu), f64::from(*sigma));
                let z = mu / (sigma * SQRT_2);
                let size = sigma * FRAC_2_PI.sqrt() * (-z * z).exp() + mu * erf(z);
                size / self.b - sigma.ln()
            })
            .sum();
        Some(sum + mean.len() as f64 * ((2.0 * self.b).ln() - HALF_LN_TAU - 0.5))
    }
    fn as_normal(&self) -> Option<NormalBlock<'_>> {
        None
    }
}
