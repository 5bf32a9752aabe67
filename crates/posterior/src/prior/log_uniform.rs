//! Log-uniform: every order of magnitude of |w| is as likely as any other, between two bounds; the prior of sparse
//! variational dropout, made proper.
//!
//! p(w) = 1/Z · { 1/a for |w| < a; 1/|w| for a ≤ |w| ≤ b; b/w² for |w| > b }, Z = 2 (2 + ln(b/a)).
//! The bare 1/|w| has no finite integral at either end. A flat top below a and a tail ∝ 1/w² above b are continuous with
//! it, make the density proper (each of the three parts has its own share, 1 : ln(b/a) : 1) and finite everywhere, and
//! are out of the way for the usual bounds. Its gradient jumps at a and b; it has no variance. Kingma, Salimans & Welling,
//! NeurIPS 2015; Molchanov et al., ICML 2017. One logarithm and one division per parameter. No closed KL.

use super::{BlockPrior, BlockPriorOps, NormalBlock, PriorEntry, Term, lanes_sum};
use crate::error::{Error, Result};
use crate::math::Real;
use crate::rng::{Key, Stream};
use crate::settings::{NamedOptions, Options};
use std::sync::Arc;

crate::options! {
    /// Weights of which every order of magnitude is alike.
    pub struct LogUniformOptions: "log-uniform" {
        /// below this size the density is flat
        lower: f64 = 1e-3 => Float(1e-12, 1e12),
        /// above this size the density falls as the square
        upper: f64 = 1e3 => Float(1e-12, 1e12),
    }
}

/// The row of the table.
pub(super) const ENTRY: PriorEntry = PriorEntry {
    name: LogUniformOptions::NAME,
    summary: "log-uniform scale: drives needless weights to zero",
    settings: LogUniformOptions::SETTINGS,
    std: |_, _| None,
    build: |settings, _| {
        let own = LogUniformOptions::read(settings);
        Ok(Arc::new(LogUniform::new(own.lower, own.upper)?))
    },
};

/// Independent log-uniform densities, symmetric around 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogUniform {
    lower: f64,
    upper: f64,
}

impl LogUniform {
    /// ∝ 1/|w| for lower ≤ |w| ≤ upper.
    pub fn new(lower: f64, upper: f64) -> Result<LogUniform> {
        if !(lower > 0.0 && lower < upper && upper.is_finite()) {
            let what = format!("the log-uniform prior cannot reach from {lower} to {upper}");
            return Err(Error::setting(what, "'lower' must be above 0 and below 'upper'"));
        }
        Ok(LogUniform { lower, upper })
    }

    fn decades(&self) -> f64 {
        (self.upper / self.lower).ln()
    }
}

/// −ln max(|w|, a) − ln max(|w|/b, 1), and scale·d/dw of it.
#[derive(Clone, Copy)]
struct Magnitude<R> {
    lower: R,
    upper: R,
    inverse_upper: R,
    scale: R,
}

impl<R: Real> Term<R> for Magnitude<R> {
    #[inline(always)]
    fn at<const F: bool>(self, w: R) -> (R, R) {
        // One logarithm of the product: max(|w|, a) · max(|w|/b, 1).
        let size = w.abs();
        let capped = size.max(self.lower);
        let beyond = (size * self.inverse_upper).max(R::ONE);
        let power = if size > self.upper { self.scale + self.scale } else { self.scale };
        let power = if size < self.lower { R::ZERO } else { power };
        (-(capped * beyond).ln_positive::<F>(), -(power / capped.copysign(w)))
    }
}

impl<R: Real> BlockPriorOps<R> for LogUniform {
    fn log_density(&self, _first: usize, w: &[R], scale: f64, grad: Option<&mut [R]>) -> f64 {
        let log_z = (2.0 * (2.0 + self.decades())).ln();
        let term = Magnitude {
            lower: R::of(self.lower),
            upper: R::of(self.upper),
            inverse_upper: R::of(1.0 / self.upper),
            scale: R::of(scale),
        };
        lanes_sum(term, w, grad) - w.len() as f64 * log_z
    }
}

impl BlockPrior for LogUniform {
    fn sample(&self, key: Key, out: &mut [f32]) {
        let mut stream = Stream::new(key);
        let decades = self.decades();
        for w in out {
            // Where in the three parts, laid end to end with lengths 1, ln(b/a), 1.
            let part = stream.uniform() * (2.0 + decades);
            let size = if part < 1.0 {
                self.lower * part
            } else if part < 1.0 + decades {
                self.lower * (part - 1.0).exp()
            } else {
                // P(|w| > v) ∝ b/v; fresh bits, so that the far tail is not cut off by rounding.
                self.upper / stream.uniform()
            };
            *w = if stream.bits() >> 63 == 0 { size } else { -size } as f32;
        }
    }
    fn kl_from_normal(&self, _mean: &[f32], _std: &[f32]) -> Option<f64> {
        None
    }
    fn as_normal(&self) -> Option<NormalBlock<'_>> {
        None
    }
}
