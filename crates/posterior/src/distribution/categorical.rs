//! The categorical distribution over classes 0 … K−1.
//!
//! From logits, log pₖ = lₖ − ln Σ eˡ. As a [`Distribution`] its number is the class; draws invert the cumulative sum.

use super::{Distribution, probability};
use crate::error::{Error, Result};
use crate::math::special::log_sum_exp;
use crate::rng::Stream;

/// Class k with probability pₖ.
#[derive(Debug, Clone, PartialEq)]
pub struct Categorical {
    p: Vec<f64>,
    ln_p: Vec<f64>,
}

/// How far probabilities may be from summing to 1: what rounding to f32 leaves of a few thousand classes.
const SUM_TOLERANCE: f64 = 1e-6;

impl Categorical {
    /// From unnormalised log-probabilities; −∞ rules a class out.
    pub fn from_logits(logits: &[f64]) -> Result<Categorical> {
        if let Some(k) = logits.iter().position(|l| l.is_nan() || *l == f64::INFINITY) {
            return Err(Error::setting(
                format!("the logit of class {k} is {}", logits[k]),
                "logits have to be finite, or −∞ for a class that cannot be",
            ));
        }
        let total = log_sum_exp(logits);
        if total == f64::NEG_INFINITY {
            return Err(Error::setting("no class has a finite logit", "at least one is needed"));
        }
        let ln_p: Vec<f64> = logits.iter().map(|l| l - total).collect();
        Ok(Categorical { p: ln_p.iter().map(|l| l.exp()).collect(), ln_p })
    }

    /// From probabilities that sum to 1 within 10⁻⁶; the sum is then made exact.
    pub fn from_probabilities(p: &[f64]) -> Result<Categorical> {
        for (k, p) in p.iter().enumerate() {
            probability(&format!("probability of class {k}"), *p)?;
        }
        let sum: f64 = p.iter().sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(Error::setting(format!("the probabilities sum to {sum}"), "they have to sum to 1"));
        }
        let p: Vec<f64> = p.iter().map(|p| p / sum).collect();
        Ok(Categorical { ln_p: p.iter().map(|p| p.ln()).collect(), p })
    }

    /// K.
    pub fn classes(&self) -> usize {
        self.p.len()
    }

    /// p.
    pub fn probabilities(&self) -> &[f64] {
        &self.p
    }

    /// ln p.
    pub fn log_probabilities(&self) -> &[f64] {
        &self.ln_p
    }

    /// ln P[X = class]; −∞ for a class that there is not.
    pub fn log_mass(&self, class: usize) -> f64 {
        self.ln_p.get(class).copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// One class.
    pub fn draw(&self, stream: &mut Stream) -> usize {
        let mut u = stream.uniform();
        let mut last = 0;
        for (k, p) in self.p.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            last = k;
            u -= p;
            if u <= 0.0 {
                break;
            }
        }
        // Rounding may leave a little of u: the last class that can be.
        last
    }

    /// −Σ p ln p.
    pub fn entropy(&self) -> f64 {
        self.p.iter().zip(&self.ln_p).filter(|(p, _)| **p > 0.0).map(|(p, l)| -p * l).sum()
    }
}

impl Distribution for Categorical {
    fn log_density(&self, x: f64) -> f64 {
        if x >= 0.0 && x == x.floor() && x < self.p.len() as f64 { self.ln_p[x as usize] } else { f64::NEG_INFINITY }
    }
    fn sample(&self, stream: &mut Stream) -> f64 {
        self.draw(stream) as f64
    }
    /// Mean of the class number.
    fn mean(&self) -> f64 {
        self.p.iter().enumerate().map(|(k, p)| k as f64 * p).sum()
    }
    /// Variance of the class number.
    fn variance(&self) -> f64 {
        let mean = self.mean();
        self.p.iter().enumerate().map(|(k, p)| (k as f64 - mean).powi(2) * p).sum()
    }
    fn cdf(&self, x: f64) -> f64 {
        self.p.iter().enumerate().filter(|(k, _)| *k as f64 <= x).map(|(_, p)| p).sum::<f64>().min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::rng::Key;
    use posterior_testing::{chi_square, chi_square_critical};

    #[test]
    fn masses_moments_and_draws() {
        let p = [0.1, 0.0, 0.55, 0.05, 0.3];
        let d = Categorical::from_probabilities(&p).unwrap();
        moments_agree(&d, 61);
        let mut stream = Stream::new(Key::new(62));
        let mut counts = [0u64; 5];
        (0..100_000).for_each(|_| counts[d.draw(&mut stream)] += 1);
        assert_eq!(counts[1], 0);
        let live = [0, 2, 3, 4];
        let expected = live.map(|k| p[k] * 1e5);
        assert!(chi_square(&live.map(|k| counts[k]), &expected) < chi_square_critical(3));
        assert!((d.cdf(2.0) - 0.65).abs() < 1e-15 && d.cdf(9.0) == 1.0);
        assert_eq!(
            (d.log_density(1.0), d.log_density(0.5), d.log_mass(5)),
            (f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY)
        );
    }

    #[test]
    fn logits_are_shifted_and_normalised() {
        let d = Categorical::from_logits(&[1000.0, 1000.0 + 3f64.ln(), f64::NEG_INFINITY]).unwrap();
        assert!((d.probabilities()[0] - 0.25).abs() < 1e-12 && d.probabilities()[2] == 0.0);
        let entropy = -0.25 * 0.25f64.ln() - 0.75 * 0.75f64.ln();
        assert!((d.entropy() - entropy).abs() < 1e-12);
        assert_eq!(Categorical::from_logits(&[7.0]).unwrap().entropy(), 0.0);
    }
}
