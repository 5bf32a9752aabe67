//! N(mᵢ, sᵢ²) with a mean and a standard deviation for each parameter: what was learnt from earlier data, as the prior of what comes next.
//!
//! log p(w) = Σ −½ ((wᵢ − mᵢ)/sᵢ)² − ln sᵢ − ½ ln 2π; KL[N(μ, σ²) ‖ p] = Σ ln(sᵢ/σᵢ) + (σᵢ² + (μᵢ − mᵢ)²)/2sᵢ² − ½. Nguyen et al. (2018), Variational continual
//! learning. One division and a multiply-add per parameter, 8 bytes each.

use super::{BlockPrior, BlockPriorOps, NormalBlock};
use crate::math::Real;
use crate::math::special::HALF_LN_TAU;
use crate::rng::{Key, fill_normals};

/// Independent normals, one for each parameter of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct CentredNormal {
    mean: Vec<f32>,
    std: Vec<f32>,
}

impl CentredNormal {
    /// From means and positive standard deviations.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn new(mean: Vec<f32>, std: Vec<f32>) -> CentredNormal {
        assert_eq!(mean.len(), std.len(), "a standard deviation for every mean");
        CentredNormal { mean, std }
    }
}

impl<R: Real> BlockPriorOps<R> for CentredNormal {
    fn log_density(&self, first: usize, w: &[R], scale: f64, mut grad: Option<&mut [R]>) -> f64 {
        let mut total = 0.0;
        let own = self.mean[first..].iter().zip(&self.std[first..]);
        for (i, (w, (mean, std))) in w.iter().zip(own).enumerate() {
            let std = f64::from(*std);
            let z = (w.f64() - f64::from(*mean)) / std;
            total -= 0.5 * z * z + std.ln();
            if let Some(grad) = &mut grad {
                grad[i] += R::of(-scale * z / std);
            }
        }
        total - w.len() as f64 * HALF_LN_TAU
    }
}

impl BlockPrior for CentredNormal {
    fn sample(&self, key: Key, out: &mut [f32]) {
        fill_normals(key, out);
        for (w, (mean, std)) in out.iter_mut().zip(self.mean.iter().zip(&self.std)) {
            *w = mean + std * *w;
        }
    }
    fn kl_from_normal(&self, mean: &[f32], std: &[f32]) -> Option<f64> {
        let one = |((mu, sigma), (m, s)): ((&f32, &f32), (&f32, &f32))| {
            let (sigma, s, d) = (f64::from(*sigma), f64::from(*s), f64::from(*mu) - f64::from(*m));
            (s / sigma).ln() + (sigma * sigma + d * d) / (2.0 * s * s) - 0.5
        };
        Some(mean.iter().zip(std).zip(self.mean.iter().zip(&self.std)).map(one).sum())
    }
    fn as_normal(&self) -> Option<NormalBlock<'_>> {
        Some(NormalBlock::Each { mean: &self.mean, std: &self.std })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Normal;
    use super::*;
    use crate::Precision;

    /// With equal means and standard deviations it is the prior of one normal for all; in parts it is the whole. f32 numbers: exact in both.
    #[test]
    fn with_equal_numbers_it_is_one_normal() {
        let n = 37;
        let (each, same) = (CentredNormal::new(vec![0.5; n], vec![0.25; n]), Normal::new(0.5, 0.25));
        let w: Vec<f64> = (0..n).map(|i| (i as f64 * 0.7).sin()).collect();
        let (mut a, mut b) = (vec![1.0; n], vec![1.0; n]);
        let value = f64::prior(&each).log_density(0, &w, 2.0, Some(&mut a));
        let expected = f64::prior(&same).log_density(0, &w, 2.0, Some(&mut b));
        assert!((value - expected).abs() < 1e-12 * expected.abs()); // rounding of 37 terms
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12));
        let (mean, std) = (vec![0.1f32; n], vec![0.7f32; n]);
        let (kl, expected) = (each.kl_from_normal(&mean, &std).unwrap(), same.kl_from_normal(&mean, &std).unwrap());
        assert!((kl - expected).abs() < 1e-9, "{kl} {expected}");
    }

    #[test]
    fn parts_know_where_they_stand() {
        let n = 20;
        let (mean, std): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (i as f32 * 0.3, 0.1 + i as f32 * 0.05)).unzip();
        let prior = CentredNormal::new(mean, std);
        let w: Vec<f64> = (0..n).map(|i| (i as f64).cos()).collect();
        let whole = f64::prior(&prior).log_density(0, &w, 1.0, None);
        let parts = f64::prior(&prior).log_density(0, &w[..7], 1.0, None)
            + f64::prior(&prior).log_density(7, &w[7..], 1.0, None);
        assert!((whole - parts).abs() < 1e-12 * whole.abs());
        let mut grad = vec![0.0; n];
        f64::prior(&prior).log_density(0, &w, 1.0, Some(&mut grad));
        for i in 0..n {
            let moved = |h: f64| {
                let mut w = w.clone();
                w[i] += h;
                f64::prior(&prior).log_density(0, &w, 1.0, None)
            };
            let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((slope - grad[i]).abs() < 1e-5 * (1.0 + slope.abs()), "{i}: {} {slope}", grad[i]); // finite differences
        }
    }
}
