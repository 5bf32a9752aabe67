//! A mixture of two normals around zero, one wide and one narrow: a smooth stand-in for spike and slab.
//!
//! p(w) = π N(0, σ₁²) + (1 − π) N(0, σ₂²). With a, b the logarithms of the two terms, log p = max(a, b) + ln(1 + e^{−|a−b|})
//! and d/dw = −w (r/σ₁² + (1 − r)/σ₂²), r = sigmoid(a − b). Blundell et al., Weight Uncertainty in Neural Networks, ICML
//! 2015, from whom the defaults are. One exponential and one logarithm per parameter. No closed KL.

use super::{BlockPrior, BlockPriorOps, NormalBlock, PriorEntry, Scaling, Term, lanes_sum, scaling_field};
use crate::math::Real;
use crate::math::special::HALF_LN_TAU;
use crate::rng::{Key, Stream, fill_normals};
use crate::settings::{NamedOptions, Options, Settings};
use std::sync::Arc;

crate::options! {
    /// A wide and a narrow normal.
    pub struct ScaleMixtureOptions: "scale-mixture" {
        /// share of the first normal
        pi: f64 = 0.5 => Float(1e-6, 1.0 - 1e-6),
        /// standard deviation of the first normal
        std1: f64 = 1.0 => Float(1e-6, 1e6),
        /// standard deviation of the second normal
        std2: f64 = 0.002_478_752_176_666_358 => Float(1e-6, 1e6), // e⁻⁶
        // Published without scaling, and the narrow normal is meant in absolute terms.
        ..scaling_field!(Scaling::None),
    }
}

/// The row of the table.
pub(super) const ENTRY: PriorEntry = PriorEntry {
    name: ScaleMixtureOptions::NAME,
    summary: "a wide and a narrow normal: most weights near zero, some free",
    settings: ScaleMixtureOptions::SETTINGS,
    std: |settings, _| Some(ScaleMixture::of(settings).std()),
    build: |settings, std| {
        let mixture = ScaleMixture::of(settings);
        Ok(Arc::new(std.map_or(mixture, |std| mixture.stretched(std / mixture.std()))))
    },
};

/// Independent mixtures of two normals around 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleMixture {
    pi: f64,
    std1: f64,
    std2: f64,
}

impl ScaleMixture {
    /// π N(0, std1²) + (1 − π) N(0, std2²), 0 < π < 1.
    pub fn new(pi: f64, std1: f64, std2: f64) -> ScaleMixture {
        ScaleMixture { pi, std1, std2 }
    }

    fn of(settings: &Settings) -> ScaleMixture {
        let own = ScaleMixtureOptions::read(settings);
        ScaleMixture::new(own.pi, own.std1, own.std2)
    }

    /// The standard deviation of the whole.
    pub fn std(&self) -> f64 {
        (self.pi * self.std1.powi(2) + (1.0 - self.pi) * self.std2.powi(2)).sqrt()
    }

    fn stretched(self, factor: f64) -> ScaleMixture {
        ScaleMixture { std1: self.std1 * factor, std2: self.std2 * factor, ..self }
    }
}

/// One of the two normals.
#[derive(Clone, Copy)]
struct Part<R> {
    log_height: R,
    precision: R,
}

/// ln(e^a + e^b) without the common constant, and scale·d/dw.
#[derive(Clone, Copy)]
struct Mixture<R> {
    one: Part<R>,
    two: Part<R>,
    scale: R,
}

impl<R: Real> Term<R> for Mixture<R> {
    #[inline(always)]
    fn at<const F: bool>(self, w: R) -> (R, R) {
        let half_square = R::HALF * w * w;
        let a = self.one.log_height - half_square * self.one.precision;
        let b = self.two.log_height - half_square * self.two.precision;
        let gap = a - b;
        let e = (-gap.abs()).exp::<F>();
        let larger = R::ONE / (R::ONE + e);
        let smaller = e * larger;
        let r1 = if gap < R::ZERO { smaller } else { larger };
        let r2 = if gap < R::ZERO { larger } else { smaller };
        let value = a.max(b) + (R::ONE + e).ln_positive::<F>();
        (value, -(self.scale * w * (r1 * self.one.precision + r2 * self.two.precision)))
    }
}

impl<R: Real> BlockPriorOps<R> for ScaleMixture {
    fn log_density(&self, _first: usize, w: &[R], scale: f64, grad: Option<&mut [R]>) -> f64 {
        let part =
            |share: f64, std: f64| Part { log_height: R::of(share.ln() - std.ln()), precision: R::of(std.powi(-2)) };
        let (one, two) = (part(self.pi, self.std1), part(1.0 - self.pi, self.std2));
        lanes_sum(Mixture { one, two, scale: R::of(scale) }, w, grad) - w.len() as f64 * HALF_LN_TAU
    }
}

impl BlockPrior for ScaleMixture {
    fn sample(&self, key: Key, out: &mut [f32]) {
        fill_normals(key.derive(0), out);
        let mut stream = Stream::new(key.derive(1));
        for w in out {
            *w *= if stream.uniform() < self.pi { self.std1 } else { self.std2 } as f32;
        }
    }
    fn kl_from_normal(&self, _mean: &[f32], _std: &[f32]) -> Option<f64> {
        None
    }
    fn as_normal(&self) -> Option<NormalBlock<'_>> {
        None
    }
}
