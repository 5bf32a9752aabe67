//! Student's t with location and scale.
//!
//! log p(x) = −½(ν+1) ln(1 + z²/ν) − ln B(ν/2, ½) − ½ ln ν − ln σ,  z = (x − μ)/σ.
//! P[Z ≤ −z] = ½ I_{ν/(ν+z²)}(ν/2, ½). Draws by `rand_distr` (normal over the root of a χ²).

use super::{Continuous, Distribution, finite, positive};
use crate::error::Result;
use crate::math::special::{beta_inc_pair, digamma, ln_beta};
use crate::rng::Stream;
use rand_distr::Distribution as _;

/// μ + σ t_ν.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StudentT {
    degrees: f64,
    location: f64,
    scale: f64,
    /// −ln B(ν/2, ½) − ½ ln ν − ln σ.
    ln_constant: f64,
    standard: rand_distr::StudentT<f64>,
}

impl StudentT {
    /// From degrees of freedom ν, location μ and scale σ.
    pub fn new(degrees: f64, location: f64, scale: f64) -> Result<StudentT> {
        positive("number of degrees of freedom", degrees)?;
        finite("location", location)?;
        positive("scale", scale)?;
        let standard = rand_distr::StudentT::new(degrees).map_err(|e| {
            crate::error::Error::setting(format!("Student-t with {degrees} degrees: {e}"), "choose more")
        })?;
        let ln_constant = -ln_beta(0.5 * degrees, 0.5) - 0.5 * degrees.ln() - scale.ln();
        Ok(StudentT { degrees, location, scale, ln_constant, standard })
    }

    /// ν.
    pub fn degrees(&self) -> f64 {
        self.degrees
    }

    /// μ.
    pub fn location(&self) -> f64 {
        self.location
    }

    /// σ.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// −E log p.
    pub fn entropy(&self) -> f64 {
        let half = 0.5 * (self.degrees + 1.0);
        half * (digamma(half) - digamma(0.5 * self.degrees)) - self.ln_constant
    }
}

impl Distribution for StudentT {
    fn log_density(&self, x: f64) -> f64 {
        let z = (x - self.location) / self.scale;
        -0.5 * (self.degrees + 1.0) * (z * z / self.degrees).ln_1p() + self.ln_constant
    }
    fn sample(&self, stream: &mut Stream) -> f64 {
        self.location + self.scale * self.standard.sample(stream)
    }
    /// NaN for ν ≤ 1.
    fn mean(&self) -> f64 {
        if self.degrees > 1.0 { self.location } else { f64::NAN }
    }
    /// ∞ for 1 < ν ≤ 2, NaN for ν ≤ 1.
    fn variance(&self) -> f64 {
        if self.degrees > 2.0 {
            self.scale * self.scale * self.degrees / (self.degrees - 2.0)
        } else if self.degrees > 1.0 {
            f64::INFINITY
        } else {
            f64::NAN
        }
    }
    fn cdf(&self, x: f64) -> f64 {
        let z = (x - self.location) / self.scale;
        let square = z * z;
        let tail = if square.is_infinite() {
            0.0
        } else {
            let total = self.degrees + square;
            0.5 * beta_inc_pair(0.5 * self.degrees, 0.5, self.degrees / total, square / total)
        };
        if z < 0.0 { tail } else { 1.0 - tail }
    }
}

impl Continuous for StudentT {
    fn d_log_density(&self, x: f64) -> f64 {
        let d = x - self.location;
        -(self.degrees + 1.0) * d / (self.degrees * self.scale * self.scale + d * d)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn density_cdf_draws_and_moments() {
        for (i, degrees) in [0.8, 1.0, 3.5, 30.0, 1e6].into_iter().enumerate() {
            let d = StudentT::new(degrees, 0.4, 1.7).unwrap();
            conforms(&d, &[-20.0, -5.0, -1.0, 0.4, 2.0, 6.0, 25.0], 20 + i as u64);
        }
        // The variance of the variance needs a fourth moment: ν > 4, and ν > 8 for its own standard error.
        moments_agree(&StudentT::new(12.0, -1.0, 0.5).unwrap(), 29);
    }

    #[test]
    #[allow(clippy::excessive_precision)]
    fn distribution_function_against_50_digits() {
        for (t, degrees, p) in [
            (-2.0, 3.0, 0.069662984279421588424),
            (0.5, 1.0, 0.64758361765043327418),
            (-40.0, 2.5, 0.000070978171452466914564),
            (1.3, 30.0, 0.89824952073094155838),
            (-3.0, 1e6, 0.0013499312707108985294),
            (-1e-3, 4.0, 0.49962500007812497948),
        ] {
            let got = StudentT::new(degrees, 0.0, 1.0).unwrap().cdf(t);
            assert!((got / p - 1.0).abs() < 1e-13, "t = {t}, ν = {degrees}: {got} not {p}");
        }
    }

    #[test]
    fn entropy_and_missing_moments() {
        let d = StudentT::new(5.0, 0.4, 1.7).unwrap();
        // The tail beyond 2000 holds p ~ 1e-14, times its logarithm 5e-13.
        let knots = [-2000.0, -200.0, -20.0, 0.4, 20.0, 200.0, 2000.0];
        assert!((d.entropy() - entropy_by_quadrature(&d, &knots)).abs() < 1e-10);
        assert!(StudentT::new(1.0, 0.0, 1.0).unwrap().mean().is_nan());
        assert_eq!(StudentT::new(2.0, 0.0, 1.0).unwrap().variance(), f64::INFINITY);
    }
}
