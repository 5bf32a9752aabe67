//! The normal distribution of a vector with a full covariance, held by a Cholesky factor of it or of its inverse.
//!
//! log p(x) = −½ (x − μ)ᵀ Σ⁻¹ (x − μ) − ½ log det Σ − ½ n ln 2π. With Σ = L Lᵀ a draw is μ + L z; with Σ⁻¹ = L Lᵀ it is
//! μ + L⁻ᵀ z. Cost n³/3 to build, n² per draw or density.

use super::{HALF_LN_TAU, MultiDistribution, finite_vector, same_length};
use crate::error::Result;
use crate::math::linalg::{Cholesky, dot};
use crate::rng::{Key, Stream, fill_normals};

/// N(μ, Σ).
#[derive(Debug, Clone)]
pub struct MultivariateNormal {
    mean: Vec<f64>,
    root: Root,
}

/// What was factored.
#[derive(Debug, Clone)]
enum Root {
    Covariance(Cholesky),
    Precision(Cholesky),
}

impl MultivariateNormal {
    /// From the mean and the covariance, row-major; only its lower triangle is read.
    pub fn new(mean: Vec<f64>, covariance: &[f64]) -> Result<MultivariateNormal> {
        same_length("covariance", covariance.len(), mean.len() * mean.len())?;
        let n = mean.len();
        MultivariateNormal::from_cholesky(mean, Cholesky::new(covariance, n)?)
    }

    /// From the mean and the inverse of the covariance, row-major; only its lower triangle is read.
    pub fn from_precision(mean: Vec<f64>, precision: &[f64]) -> Result<MultivariateNormal> {
        same_length("precision", precision.len(), mean.len() * mean.len())?;
        let n = mean.len();
        MultivariateNormal::from_precision_cholesky(mean, Cholesky::new(precision, n)?)
    }

    /// From the mean and the factor of the covariance.
    pub fn from_cholesky(mean: Vec<f64>, covariance: Cholesky) -> Result<MultivariateNormal> {
        MultivariateNormal::build(mean, Root::Covariance(covariance))
    }

    /// From the mean and the factor of the precision.
    pub fn from_precision_cholesky(mean: Vec<f64>, precision: Cholesky) -> Result<MultivariateNormal> {
        MultivariateNormal::build(mean, Root::Precision(precision))
    }

    fn build(mean: Vec<f64>, root: Root) -> Result<MultivariateNormal> {
        let (Root::Covariance(l) | Root::Precision(l)) = &root;
        same_length("mean", mean.len(), l.dim())?;
        finite_vector("mean", &mean)?;
        Ok(MultivariateNormal { mean, root })
    }

    /// μ.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Σ, row-major.
    pub fn covariance(&self) -> Vec<f64> {
        match &self.root {
            Root::Precision(l) => l.inverse(),
            Root::Covariance(l) => {
                let n = l.dim();
                let row = |i: usize| &l.factor()[i * n..(i + 1) * n];
                (0..n * n).map(|k| dot(row(k / n), row(k % n))).collect()
            }
        }
    }

    /// The diagonal of Σ.
    pub fn variance(&self) -> Vec<f64> {
        match &self.root {
            Root::Precision(l) => l.inverse_diagonal(),
            Root::Covariance(l) => l.factor().chunks(l.dim().max(1)).map(|row| dot(row, row)).collect(),
        }
    }

    /// The diagonal of Σ⁻¹.
    pub fn precision_diagonal(&self) -> Vec<f64> {
        match &self.root {
            Root::Covariance(l) => l.inverse_diagonal(),
            Root::Precision(l) => l.factor().chunks(l.dim().max(1)).map(|row| dot(row, row)).collect(),
        }
    }

    /// log det Σ.
    pub fn log_det(&self) -> f64 {
        match &self.root {
            Root::Covariance(l) => l.log_det(),
            Root::Precision(l) => -l.log_det(),
        }
    }

    /// −E log p.
    pub fn entropy(&self) -> f64 {
        self.mean.len() as f64 * (HALF_LN_TAU + 0.5) + 0.5 * self.log_det()
    }

    /// (x − μ)ᵀ Σ⁻¹ (x − μ).
    pub fn squared_distance(&self, x: &[f64]) -> f64 {
        assert_eq!(x.len(), self.mean.len(), "a vector of the distribution's dimension");
        let mut d: Vec<f64> = x.iter().zip(&self.mean).map(|(x, m)| x - m).collect();
        match &self.root {
            Root::Covariance(l) => l.solve_lower(&mut d),
            Root::Precision(l) => l.multiply_upper(&mut d),
        }
        dot(&d, &d)
    }

    /// tr(Σ⁻¹ S) where S is the covariance of `other`.
    pub(super) fn trace_with(&self, other: &MultivariateNormal) -> f64 {
        let n = self.mean.len();
        // A root R of S by rows of Rᵀ, so that each row is one vector to whiten; the trace is the sum of squares.
        let mut rows = match &other.root {
            Root::Precision(l) => l.lower_inverse(),
            Root::Covariance(l) => {
                let mut t = vec![0.0; n * n];
                (0..n * n).for_each(|k| t[k % n * n + k / n] = l.factor()[k]);
                t
            }
        };
        for row in rows.chunks_mut(n.max(1)) {
            match &self.root {
                Root::Covariance(l) => l.solve_lower(row),
                Root::Precision(l) => l.multiply_upper(row),
            }
        }
        dot(&rows, &rows)
    }

    fn place(&self, out: &mut [f64]) {
        match &self.root {
            Root::Covariance(l) => l.sample_covariance(out),
            Root::Precision(l) => l.sample_precision(out),
        }
        out.iter_mut().zip(&self.mean).for_each(|(x, m)| *x += m);
    }
}

impl MultiDistribution for MultivariateNormal {
    fn dim(&self) -> usize {
        self.mean.len()
    }
    fn log_density(&self, x: &[f64]) -> f64 {
        -0.5 * (self.squared_distance(x) + self.log_det()) - x.len() as f64 * HALF_LN_TAU
    }
    fn sample(&self, stream: &mut Stream, out: &mut [f64]) {
        out.fill_with(|| stream.normal());
        self.place(out);
    }
    fn sample_keyed(&self, key: Key, out: &mut [f64]) {
        fill_normals(key, out);
        self.place(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::DiagonalNormal;
    use crate::distribution::testing::draws_agree;
    use crate::math::linalg::testing::{close, positive};

    #[test]
    fn covariance_and_precision_are_two_forms_of_one() {
        let n = 4;
        let (mean, covariance) = (vec![1.0, -2.0, 0.0, 0.5], positive(7, n));
        let a = MultivariateNormal::new(mean.clone(), &covariance).unwrap();
        let precision = Cholesky::new(&covariance, n).unwrap().inverse();
        let b = MultivariateNormal::from_precision(mean.clone(), &precision).unwrap();
        // Rounding of an inverse of condition number 20.
        close(&a.covariance(), &covariance, 1e-13);
        close(&b.covariance(), &covariance, 1e-12);
        close(&a.variance(), &b.variance(), 1e-12);
        close(&a.precision_diagonal(), &b.precision_diagonal(), 1e-12);
        let x = [0.3, 0.1, -1.0, 2.0];
        assert!((a.log_density(&x) - b.log_density(&x)).abs() < 1e-12);
        assert!((a.entropy() - b.entropy()).abs() < 1e-12);
        for (d, keyed) in [(&a, false), (&a, true), (&b, false), (&b, true)] {
            draws_agree(d, &mean, &covariance, keyed);
        }
    }

    #[test]
    fn a_diagonal_covariance_is_the_product_of_normals() {
        let diagonal = DiagonalNormal::new(vec![1.0, 2.0], vec![0.5, 3.0]).unwrap();
        let full = MultivariateNormal::new(vec![1.0, 2.0], &[0.25, 0.0, 0.0, 9.0]).unwrap();
        let x = [0.0, 7.0];
        assert!((diagonal.log_density(&x) - full.log_density(&x)).abs() < 1e-14);
        assert!((diagonal.entropy() - full.entropy()).abs() < 1e-14);
    }

    #[test]
    fn the_density_integrates_to_one() {
        let d = MultivariateNormal::new(vec![0.2, -0.1], &[1.0, 0.6, 0.6, 0.8]).unwrap();
        // The trapezoid rule is exact to rounding for a smooth function that vanishes at the ends (8 deviations).
        let (h, mut sum) = (0.1, 0.0);
        for i in -90..=90 {
            for j in -90..=90 {
                sum += d.log_density(&[f64::from(i) * h, f64::from(j) * h]).exp() * h * h;
            }
        }
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }
}
