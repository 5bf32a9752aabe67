//! Hyperbolic secant: tails of an exponential, and smooth at 0 where the double exponential has a kink.
//!
//! log p(w) = −ln(2s) − ln cosh(πw/2s), with standard deviation s; d/dw = −(π/2s) tanh(πw/2s); F⁻¹(u) = (2s/π) ln tan(πu/2).
//! Johnson, Kotz & Balakrishnan (1995), §23.11. Cost: one exponential and one logarithm for each parameter.

use posterior::prior::{BlockPrior, BlockPriorOps, NormalBlock, PriorEntry};
use posterior::rng::{Key, Stream};
use posterior::settings::{Allowed, Default, Setting};
use posterior::{Real, nn::Role};
use std::f64::consts::{FRAC_PI_2, LN_2};
use std::sync::Arc;

const STD: Setting = Setting {
    name: "weight_std",
    help: "standard deviation of a weight or bias",
    default: Default::Float(1.0),
    allowed: Allowed::Float(1e-6, 1e6),
};

/// `[prior] name = "secant"`
pub const ENTRY: PriorEntry = PriorEntry {
    name: "secant",
    summary: "hyperbolic secant: smooth, with the tails of an exponential",
    settings: &[STD],
    std: |settings, _role: Role| settings.float("weight_std").ok(),
    build: |_, std| Ok(Arc::new(Secant { std: std.unwrap_or(1.0) })),
};

#[derive(Debug)]
struct Secant {
    std: f64,
}

impl<R: Real> BlockPriorOps<R> for Secant {
    fn log_density(&self, _first: usize, w: &[R], scale: f64, mut grad: Option<&mut [R]>) -> f64 {
        let rate = FRAC_PI_2 / self.std;
        let mut sum = 0.0;
        for (i, w) in w.iter().enumerate() {
            let z = rate * w.f64();
            // ln cosh z without overflow
            sum -= z.abs() + (-2.0 * z.abs()).exp().ln_1p() - LN_2;
            if let Some(grad) = grad.as_deref_mut() {
                grad[i] += R::of(-scale * rate * z.tanh());
            }
        }
        sum - w.len() as f64 * (2.0 * self.std).ln()
    }
}

impl BlockPrior for Secant {
    fn sample(&self, key: Key, out: &mut [f32]) {
        let mut stream = Stream::new(key);
        out.iter_mut().for_each(|w| *w = (self.std / FRAC_PI_2 * (FRAC_PI_2 * stream.uniform()).tan().ln()) as f32);
    }

    /// No closed form: methods that need one say so.
    fn kl_from_normal(&self, _mean: &[f32], _std: &[f32]) -> Option<f64> {
        None
    }

    fn as_normal(&self) -> Option<NormalBlock<'_>> {
        None
    }
}
