//! The Laplace (double exponential) distribution.
//!
//! log p(x) = −|x − μ|/b − ln 2b;  variance 2b², entropy 1 + ln 2b.

use super::{Continuous, Distribution, finite, positive};
use crate::error::Result;
use crate::rng::Stream;

/// Laplace(μ, b).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Laplace {
    mean: f64,
    scale: f64,
}

impl Laplace {
    /// From mean μ and scale b.
    pub fn new(mean: f64, scale: f64) -> Result<Laplace> {
        Ok(Laplace { mean: finite("mean", mean)?, scale: positive("scale", scale)? })
    }

    /// b.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// −E log p.
    pub fn entropy(&self) -> f64 {
        1.0 + (2.0 * self.scale).ln()
    }
}

impl Distribution for Laplace {
    fn log_density(&self, x: f64) -> f64 {
        -(x - self.mean).abs() / self.scale - (2.0 * self.scale).ln()
    }
    fn sample(&self, stream: &mut Stream) -> f64 {
        let size = -stream.uniform().ln() * self.scale;
        if stream.bits() >> 63 == 0 { self.mean + size } else { self.mean - size }
    }
    fn mean(&self) -> f64 {
        self.mean
    }
    fn variance(&self) -> f64 {
        2.0 * self.scale * self.scale
    }
    fn cdf(&self, x: f64) -> f64 {
        let z = (x - self.mean) / self.scale;
        if z < 0.0 { 0.5 * z.exp() } else { 1.0 - 0.5 * (-z).exp() }
    }
}

impl Continuous for Laplace {
    /// −sign(x − μ)/b; 0 at μ.
    fn d_log_density(&self, x: f64) -> f64 {
        if x == self.mean { 0.0 } else { -(x - self.mean).signum() / self.scale }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn density_cdf_draws_and_moments() {
        let d = Laplace::new(0.7, 1.4).unwrap();
        conforms(&d, &[-30.0, -2.0, 0.7, 3.0, 35.0], 11);
        moments_agree(&d, 12);
        assert_eq!(d.d_log_density(0.7), 0.0);
        assert!((d.entropy() - entropy_by_quadrature(&d, &[-60.0, 0.7, 60.0])).abs() < 1e-10);
    }
}
