//! The Bernoulli distribution of an outcome 0 or 1.
//!
//! log p(1) = ln p, log p(0) = ln(1 − p); from a logit l = ln p/(1−p), −softplus(−l) and −softplus(l).

use super::{Distribution, probability};
use crate::error::{Error, Result};
use crate::math::special::log_add_exp;
use crate::rng::Stream;

/// 1 with probability p, else 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bernoulli {
    p: f64,
    ln_one: f64,
    ln_zero: f64,
}

impl Bernoulli {
    /// From the probability of 1.
    pub fn new(p: f64) -> Result<Bernoulli> {
        probability("probability", p)?;
        Ok(Bernoulli { p, ln_one: p.ln(), ln_zero: (-p).ln_1p() })
    }

    /// From the logit ln(p/(1−p)); exact where p itself would round to 1.
    pub fn from_logit(logit: f64) -> Result<Bernoulli> {
        if logit.is_nan() {
            return Err(Error::setting("the logit is NaN", "it has to be a number"));
        }
        let (ln_one, ln_zero) = (-log_add_exp(0.0, -logit), -log_add_exp(0.0, logit));
        Ok(Bernoulli { p: ln_one.exp(), ln_one, ln_zero })
    }

    /// p.
    pub fn p(&self) -> f64 {
        self.p
    }

    /// ln P[X = outcome].
    pub fn log_mass(&self, outcome: bool) -> f64 {
        if outcome { self.ln_one } else { self.ln_zero }
    }

    /// −E log p.
    pub fn entropy(&self) -> f64 {
        [self.ln_one, self.ln_zero].iter().filter(|l| l.is_finite()).map(|l| -l * l.exp()).sum()
    }
}

impl Distribution for Bernoulli {
    fn log_density(&self, x: f64) -> f64 {
        if x == 1.0 {
            self.ln_one
        } else if x == 0.0 {
            self.ln_zero
        } else {
            f64::NEG_INFINITY
        }
    }
    fn sample(&self, stream: &mut Stream) -> f64 {
        // A uniform lies strictly above 0, and p = 1 has to give 1.
        if stream.uniform() <= self.p { 1.0 } else { 0.0 }
    }
    fn mean(&self) -> f64 {
        self.p
    }
    fn variance(&self) -> f64 {
        (self.ln_one + self.ln_zero).exp()
    }
    fn cdf(&self, x: f64) -> f64 {
        if x < 0.0 {
            0.0
        } else if x < 1.0 {
            self.ln_zero.exp()
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn masses_moments_and_extremes() {
        let d = Bernoulli::new(0.3).unwrap();
        moments_agree(&d, 51);
        assert!((d.log_density(1.0).exp() + d.log_density(0.0).exp() - 1.0).abs() < 1e-15);
        assert_eq!(d.log_density(0.5), f64::NEG_INFINITY);
        assert_eq!((d.cdf(-0.1), d.cdf(1.0)), (0.0, 1.0));
        assert!((d.entropy() - (-0.3 * 0.3f64.ln() - 0.7 * 0.7f64.ln())).abs() < 1e-15);
        let logit = Bernoulli::from_logit((0.3f64 / 0.7).ln()).unwrap();
        assert!((logit.p() - 0.3).abs() < 1e-15 && (logit.entropy() - d.entropy()).abs() < 1e-15);
        assert_eq!(Bernoulli::from_logit(800.0).unwrap().log_mass(false), -800.0);
        for (p, outcome) in [(0.0, 0.0), (1.0, 1.0)] {
            let d = Bernoulli::new(p).unwrap();
            assert!(draws(&d, 52, 1000).iter().all(|x| *x == outcome));
            assert_eq!((d.entropy(), d.variance()), (0.0, 0.0));
        }
        assert_eq!(Bernoulli::from_logit(f64::INFINITY).unwrap().p(), 1.0);
    }
}
