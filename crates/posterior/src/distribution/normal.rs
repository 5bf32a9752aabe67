//! The normal distribution of one number, and of a vector of independent ones.
//!
//! log p(x) = −½ ((x − μ)/σ)² − ln σ − ½ ln 2π;  entropy ln σ + ½ ln 2πe.

use super::{Continuous, Distribution, HALF_LN_TAU, MultiDistribution, finite, finite_vector, positive, same_length};
use crate::error::Result;
use crate::math::special::{normal_cdf, normal_quantile};
use crate::rng::{Key, Stream, fill_normals};

/// N(μ, σ²).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normal {
    mean: f64,
    std: f64,
}

impl Normal {
    /// From mean and standard deviation.
    ///
    /// ```
    /// use posterior::distribution::{Distribution, Normal};
    /// let d = Normal::new(1.0, 2.0)?;
    /// assert!((d.cdf(1.0) - 0.5).abs() < 1e-15);
    /// assert!(Normal::new(1.0, 0.0).is_err());
    /// # Ok::<(), posterior::Error>(())
    /// ```
    pub fn new(mean: f64, std: f64) -> Result<Normal> {
        Ok(Normal { mean: finite("mean", mean)?, std: positive("standard deviation", std)? })
    }

    /// σ.
    pub fn std(&self) -> f64 {
        self.std
    }

    /// The number below which a share p of the mass lies; NaN outside [0, 1].
    pub fn quantile(&self, p: f64) -> f64 {
        self.mean + self.std * normal_quantile(p)
    }

    /// −E log p.
    pub fn entropy(&self) -> f64 {
        self.std.ln() + HALF_LN_TAU + 0.5
    }
}

impl Distribution for Normal {
    fn log_density(&self, x: f64) -> f64 {
        let z = (x - self.mean) / self.std;
        -0.5 * z * z - self.std.ln() - HALF_LN_TAU
    }
    fn sample(&self, stream: &mut Stream) -> f64 {
        self.mean + self.std * stream.normal()
    }
    fn mean(&self) -> f64 {
        self.mean
    }
    fn variance(&self) -> f64 {
        self.std * self.std
    }
    fn cdf(&self, x: f64) -> f64 {
        normal_cdf((x - self.mean) / self.std)
    }
}

impl Continuous for Normal {
    fn d_log_density(&self, x: f64) -> f64 {
        (self.mean - x) / (self.std * self.std)
    }
}

/// N(μ, diag σ²).
#[derive(Debug, Clone, PartialEq)]
pub struct DiagonalNormal {
    mean: Vec<f64>,
    std: Vec<f64>,
}

impl DiagonalNormal {
    /// From means and standard deviations.
    pub fn new(mean: Vec<f64>, std: Vec<f64>) -> Result<DiagonalNormal> {
        same_length("vector of standard deviations", std.len(), mean.len())?;
        finite_vector("mean", &mean)?;
        for (i, s) in std.iter().enumerate() {
            positive(&format!("standard deviation at place {}", i + 1), *s)?;
        }
        Ok(DiagonalNormal { mean, std })
    }

    /// μ.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// σ.
    pub fn std(&self) -> &[f64] {
        &self.std
    }

    /// σ².
    pub fn variance(&self) -> Vec<f64> {
        self.std.iter().map(|s| s * s).collect()
    }

    /// The component at place i.
    pub fn component(&self, i: usize) -> Normal {
        Normal { mean: self.mean[i], std: self.std[i] }
    }

    /// −E log p.
    pub fn entropy(&self) -> f64 {
        self.std.iter().map(|s| s.ln() + HALF_LN_TAU + 0.5).sum()
    }

    fn scale(&self, out: &mut [f64]) {
        for i in 0..out.len() {
            out[i] = self.mean[i] + self.std[i] * out[i];
        }
    }
}

impl MultiDistribution for DiagonalNormal {
    fn dim(&self) -> usize {
        self.mean.len()
    }
    fn log_density(&self, x: &[f64]) -> f64 {
        assert_eq!(x.len(), self.dim(), "a vector of the distribution's dimension");
        (0..x.len()).map(|i| self.component(i).log_density(x[i])).sum()
    }
    fn sample(&self, stream: &mut Stream, out: &mut [f64]) {
        assert_eq!(out.len(), self.dim(), "a vector of the distribution's dimension");
        out.fill_with(|| stream.normal());
        self.scale(out);
    }
    fn sample_keyed(&self, key: Key, out: &mut [f64]) {
        assert_eq!(out.len(), self.dim(), "a vector of the distribution's dimension");
        fill_normals(key, out);
        self.scale(out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use posterior_testing::{expect_ks, z_mean};

    #[test]
    fn density_cdf_draws_and_moments() {
        let d = Normal::new(-1.3, 0.6).unwrap();
        conforms(&d, &[-6.5, -2.0, -1.3, 0.0, 3.5], 1);
        moments_agree(&d, 2);
        assert!((d.entropy() - entropy_by_quadrature(&d, &[-8.0, -1.3, 6.0])).abs() < 1e-12);
        for p in [0.01, 0.5, 0.9] {
            assert!((d.cdf(d.quantile(p)) - p).abs() < 1e-15);
        }
        // scipy.stats.norm(-1.3, 0.6).logpdf(0.2) = ln(e^{-3.125}/(0.6 √2π))
        assert!((d.log_density(0.2) - (-3.125 - 0.6f64.ln() - 0.918_938_533_204_672_8)).abs() < 1e-14);
    }

    #[test]
    fn vectors_of_independent_normals() {
        let n = 2000;
        let mean: Vec<f64> = (0..n).map(|i| i as f64 * 0.01).collect();
        let std: Vec<f64> = (0..n).map(|i| 0.5 + i as f64 * 1e-3).collect();
        let d = DiagonalNormal::new(mean.clone(), std.clone()).unwrap();
        let mut out = vec![0.0; n];
        for keyed in [false, true] {
            if keyed {
                d.sample_keyed(Key::new(3), &mut out);
            } else {
                d.sample(&mut Stream::new(Key::new(3)), &mut out);
            }
            let mut z: Vec<f64> = (0..n).map(|i| (out[i] - mean[i]) / std[i]).collect();
            assert!(z_mean(&z, 0.0).abs() < 5.0);
            expect_ks(&mut z, normal_cdf);
        }
        let sum: f64 = (0..n).map(|i| Normal::new(mean[i], std[i]).unwrap().log_density(out[i])).sum();
        assert_eq!(d.log_density(&out), sum);
        let entropies: f64 = (0..n).map(|i| d.component(i).entropy()).sum();
        assert!((d.entropy() - entropies).abs() < 1e-9);
    }
}
