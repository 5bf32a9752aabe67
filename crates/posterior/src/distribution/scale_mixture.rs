//! A mixture of two normals around 0: p(w) = π N(w; 0, s₁²) + (1 − π) N(w; 0, s₂²).
//!
//! d/dw log p = −w (r₁/s₁² + r₂/s₂²), with r the share of each part in the density at w.
//! Reference: Blundell et al. (2015), Weight Uncertainty in Neural Networks, equation 7.

use super::{Continuous, Distribution, Normal, positive, probability};
use crate::error::Result;
use crate::math::special::log_add_exp;
use crate::rng::Stream;

/// π N(0, s₁²) + (1 − π) N(0, s₂²).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleMixture {
    share: f64,
    first: Normal,
    second: Normal,
}

impl ScaleMixture {
    /// From the share π of the first part and both standard deviations.
    pub fn new(share: f64, first: f64, second: f64) -> Result<ScaleMixture> {
        probability("share of the first part", share)?;
        positive("first standard deviation", first)?;
        positive("second standard deviation", second)?;
        Ok(ScaleMixture { share, first: Normal::new(0.0, first)?, second: Normal::new(0.0, second)? })
    }

    /// π.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// s₁ and s₂.
    pub fn stds(&self) -> (f64, f64) {
        (self.first.std(), self.second.std())
    }

    /// The logarithms of π N(x; 0, s₁²) and (1 − π) N(x; 0, s₂²).
    fn parts(&self, x: f64) -> (f64, f64) {
        (self.share.ln() + self.first.log_density(x), (-self.share).ln_1p() + self.second.log_density(x))
    }
}

impl Distribution for ScaleMixture {
    fn log_density(&self, x: f64) -> f64 {
        let (a, b) = self.parts(x);
        log_add_exp(a, b)
    }
    fn sample(&self, stream: &mut Stream) -> f64 {
        if stream.uniform() <= self.share { self.first.sample(stream) } else { self.second.sample(stream) }
    }
    fn mean(&self) -> f64 {
        0.0
    }
    fn variance(&self) -> f64 {
        self.share * self.first.variance() + (1.0 - self.share) * self.second.variance()
    }
    fn cdf(&self, x: f64) -> f64 {
        self.share * self.first.cdf(x) + (1.0 - self.share) * self.second.cdf(x)
    }
}

impl Continuous for ScaleMixture {
    fn d_log_density(&self, x: f64) -> f64 {
        let (a, b) = self.parts(x);
        // The share of the first part; a = −∞ and b = −∞ both work.
        let r = 1.0 / (1.0 + (b - a).exp());
        r * self.first.d_log_density(x) + (1.0 - r) * self.second.d_log_density(x)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn density_cdf_draws_and_moments() {
        let d = ScaleMixture::new(0.3, 1.5, 0.1).unwrap();
        conforms(&d, &[-14.0, -0.5, 0.0, 0.5, 14.0], 31);
        moments_agree(&d, 32);
        // Far out, where the narrow part underflows and where both do.
        for x in [-40.0, 60.0, 1e4] {
            assert!(d.log_density(x).is_finite());
            assert!((d.d_log_density(x) + x / 2.25).abs() < 1e-9 * x.abs());
        }
    }

    #[test]
    fn one_part_alone_is_a_normal() {
        for share in [0.0, 1.0] {
            let d = ScaleMixture::new(share, 2.0, 0.5).unwrap();
            let n = Normal::new(0.0, if share == 1.0 { 2.0 } else { 0.5 }).unwrap();
            for x in [-3.0, 0.0, 1.2] {
                assert!((d.log_density(x) - n.log_density(x)).abs() < 1e-14);
                assert!((d.d_log_density(x) - n.d_log_density(x)).abs() < 1e-14);
            }
        }
    }
}
