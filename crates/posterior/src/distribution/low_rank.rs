//! The normal distribution of a vector whose covariance is diagonal plus low rank.
//!
//! Σ = diag(d) + U Uᵀ with U of r columns; a draw is μ + √d ⊙ z + U e. Densities by Woodbury's identity, so nothing of
//! size n² is formed. Reference: Ong, Nott & Smith (2018), J. Comput. Graph. Stat. 27. Cost n r² to build, n r after.

use super::{HALF_LN_TAU, MultiDistribution, finite_vector, positive, same_length};
use crate::error::Result;
use crate::math::linalg::LowRank;
use crate::rng::{Key, Stream, fill_normals};

/// N(μ, diag(d) + U Uᵀ).
#[derive(Debug, Clone)]
pub struct LowRankNormal {
    mean: Vec<f64>,
    covariance: LowRank,
}

impl LowRankNormal {
    /// From the mean, the diagonal d (variances), and the n × `rank` factor U, row-major.
    pub fn new(mean: Vec<f64>, diagonal: Vec<f64>, factor: Vec<f64>, rank: usize) -> Result<LowRankNormal> {
        same_length("diagonal", diagonal.len(), mean.len())?;
        same_length("factor", factor.len(), mean.len() * rank)?;
        finite_vector("mean", &mean)?;
        finite_vector("factor", &factor)?;
        for (i, d) in diagonal.iter().enumerate() {
            positive(&format!("diagonal at place {}", i + 1), *d)?;
        }
        Ok(LowRankNormal { mean, covariance: LowRank::new(diagonal, factor, rank)? })
    }

    /// μ.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Σ, factored.
    pub fn covariance(&self) -> &LowRank {
        &self.covariance
    }

    /// The diagonal of Σ.
    pub fn variance(&self) -> Vec<f64> {
        self.covariance.variances()
    }

    /// −E log p.
    pub fn entropy(&self) -> f64 {
        self.mean.len() as f64 * (HALF_LN_TAU + 0.5) + 0.5 * self.covariance.log_det()
    }

    fn place(&self, out: &mut [f64], e: &[f64]) {
        self.covariance.sample(out, e);
        out.iter_mut().zip(&self.mean).for_each(|(x, m)| *x += m);
    }
}

impl MultiDistribution for LowRankNormal {
    fn dim(&self) -> usize {
        self.mean.len()
    }
    fn log_density(&self, x: &[f64]) -> f64 {
        assert_eq!(x.len(), self.dim(), "a vector of the distribution's dimension");
        let d: Vec<f64> = x.iter().zip(&self.mean).map(|(x, m)| x - m).collect();
        -0.5 * (self.covariance.inverse_quadratic(&d) + self.covariance.log_det()) - x.len() as f64 * HALF_LN_TAU
    }
    fn sample(&self, stream: &mut Stream, out: &mut [f64]) {
        out.fill_with(|| stream.normal());
        let e: Vec<f64> = (0..self.covariance.rank()).map(|_| stream.normal()).collect();
        self.place(out, &e);
    }
    fn sample_keyed(&self, key: Key, out: &mut [f64]) {
        let mut e = vec![0.0; self.covariance.rank()];
        fill_normals(key.derive(0), out);
        fill_normals(key.derive(1), &mut e);
        self.place(out, &e);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::MultivariateNormal;
    use crate::distribution::testing::draws_agree;
    use crate::math::linalg::testing::{normals, product, transpose};

    #[test]
    fn equals_the_dense_normal() {
        let (n, r) = (5, 2);
        let (mean, u) = (normals(1, n), normals(2, n * r));
        let diagonal: Vec<f64> = normals(3, n).iter().map(|v| v.exp()).collect();
        let mut dense = product(&u, &transpose(&u, n, r), n, r, n);
        (0..n).for_each(|i| dense[i * n + i] += diagonal[i]);
        let d = LowRankNormal::new(mean.clone(), diagonal, u, r).unwrap();
        let full = MultivariateNormal::new(mean.clone(), &dense).unwrap();
        let x = normals(4, n);
        // Two routes to one number; rounding times a condition number below 100.
        assert!((d.log_density(&x) - full.log_density(&x)).abs() < 1e-12);
        assert!((d.entropy() - full.entropy()).abs() < 1e-12);
        draws_agree(&d, &mean, &dense, false);
        draws_agree(&d, &mean, &dense, true);
    }
}
