//! Bayesian linear regression in closed form: y = φᵀw + ε, ε ~ N(0, σ²), w ~ N(m₀, S), S diagonal.
//!
//! A = ΦᵀΩΦ/σ² + S⁻¹ with Ω the row weights, Σ = A⁻¹, μ = m₀ + A⁻¹ ΦᵀΩ(y − Φm₀)/σ². At a new φ: y ~ N(φᵀμ, σ² + φᵀΣφ).
//! log p(y) = −½ Σ ωₙ ln 2πσ² − ½ log det S − ½ log det A − ½ (Σ ωₙ(yₙ − φₙᵀμ)²/σ² + (μ − m₀)ᵀS⁻¹(μ − m₀)), which for
//! weights of 1 is log N(y | Φm₀, σ²I + ΦSΦᵀ).
//!
//! Reference: Bishop (2006), Pattern Recognition and Machine Learning, 3.3 and 3.5. Cost N k² + k³/3 for k features, k² per
//! prediction.

use crate::error::{Error, Result};
use crate::math::linalg::{Cholesky, dot};
use crate::math::{Mat, MatRef, Threads, gemm};
use std::f64::consts::TAU;

/// The posterior of the weights of a linear model.
#[derive(Debug, Clone)]
pub struct LinearRegression {
    mean: Vec<f64>,
    precision: Cholesky,
    noise_variance: f64,
    log_evidence: f64,
}

impl LinearRegression {
    /// From features (a row each), outcomes, row weights (none means 1 each), σ², and the prior's means and precisions
    /// 1/Sᵢᵢ.
    ///
    /// ```
    /// use posterior::exact::LinearRegression;
    /// use posterior::math::MatRef;
    /// // One observation of one weight, noise and prior of variance 1: half of the way, half of the variance.
    /// let fit = LinearRegression::fit(MatRef::new(&[1.0], 1, 1), &[3.0], None, 1.0, &[0.0], &[1.0])?;
    /// assert!((fit.mean()[0] - 1.5).abs() < 1e-12 && (fit.covariance()[0] - 0.5).abs() < 1e-12);
    /// let (mean, variance) = fit.predict(&[2.0]);
    /// assert!((mean - 3.0).abs() < 1e-12 && (variance - 3.0).abs() < 1e-12); // 1 + 2·½·2
    /// # Ok::<(), posterior::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the lengths do not agree.
    pub fn fit(
        features: MatRef<'_, f64>,
        y: &[f64],
        weights: Option<&[f64]>,
        noise_variance: f64,
        prior_mean: &[f64],
        prior_precision: &[f64],
    ) -> Result<LinearRegression> {
        let (n, k) = (features.rows, features.cols);
        assert_eq!((y.len(), prior_mean.len(), prior_precision.len()), (n, k, k), "lengths of a linear model");
        assert!(weights.is_none_or(|w| w.len() == n), "a weight for every row");
        let positive = |v: f64| v > 0.0 && v.is_finite();
        if !positive(noise_variance) {
            let what = format!("the noise variance of a linear model cannot be {noise_variance}");
            return Err(Error::setting(what, "it takes a positive number"));
        }
        if let Some(i) = prior_precision.iter().position(|p| !positive(*p)) {
            let what = format!("the prior precision of feature {} cannot be {}", i + 1, prior_precision[i]);
            return Err(Error::setting(what, "it takes a positive number"));
        }
        let scale = |row: usize| weights.map_or(1.0, |w| w[row]) / noise_variance;
        let mut scaled = features.data.to_vec();
        for (row, values) in scaled.chunks_mut(k.max(1)).enumerate() {
            values.iter_mut().for_each(|v| *v *= scale(row));
        }
        let mut a = vec![0.0; k * k];
        gemm((k, k, n), &mut a, false, Mat::transposed(features.data, k), Mat::rows_of(&scaled, k), Threads::Pool);
        (0..k).for_each(|i| a[i * k + i] += prior_precision[i]);
        let precision = Cholesky::new(&a, k)?;
        let mut shift = vec![0.0; k];
        for row in 0..n {
            let residual = y[row] - dot(features.row(row), prior_mean);
            shift.iter_mut().zip(&scaled[row * k..(row + 1) * k]).for_each(|(s, v)| *s += residual * v);
        }
        precision.solve(&mut shift);
        let mean: Vec<f64> = prior_mean.iter().zip(&shift).map(|(m, s)| m + s).collect();
        let misfit = |row: usize| scale(row) * (y[row] - dot(features.row(row), &mean)).powi(2);
        let squares: f64 = (0..n).map(misfit).sum();
        let pull: f64 = shift.iter().zip(prior_precision).map(|(s, p)| p * s * s).sum();
        let rows: f64 = weights.map_or(n as f64, |w| w.iter().sum());
        let log_det_prior: f64 = -prior_precision.iter().map(|p| p.ln()).sum::<f64>();
        let normalisers = rows * (TAU * noise_variance).ln() + log_det_prior + precision.log_det();
        let log_evidence = -0.5 * (normalisers + squares + pull);
        Ok(LinearRegression { mean, precision, noise_variance, log_evidence })
    }

    /// Goes on from N(μ₀, A₀⁻¹), the posterior under rows that came before: A = A₀ + ΦᵀΩΦ/σ². The evidence of the result is log p(y | the rows before).
    ///
    /// # Panics
    /// If the lengths do not agree.
    pub fn update(
        before: (&[f64], &Cholesky),
        features: MatRef<'_, f64>,
        y: &[f64],
        weights: Option<&[f64]>,
        noise_variance: f64,
    ) -> Result<LinearRegression> {
        let ((mean, old), n, k) = (before, features.rows, features.cols);
        assert_eq!((y.len(), mean.len(), old.dim()), (n, k, k), "lengths of a linear model");
        let scale = |row: usize| weights.map_or(1.0, |w| w[row]) / noise_variance;
        let l = old.factor();
        let mut a = vec![0.0; k * k];
        for i in 0..k {
            for j in 0..=i {
                a[i * k + j] = dot(&l[i * k..i * k + j + 1], &l[j * k..j * k + j + 1]);
            }
        }
        let mut shift = vec![0.0; k];
        for row in 0..n {
            let phi = features.row(row);
            let residual = y[row] - dot(phi, mean);
            for i in 0..k {
                let scaled = scale(row) * phi[i];
                shift[i] += scaled * residual;
                (0..=i).for_each(|j| a[i * k + j] += scaled * phi[j]);
            }
        }
        for i in 0..k {
            (0..i).for_each(|j| a[j * k + i] = a[i * k + j]);
        }
        let precision = Cholesky::new(&a, k)?;
        precision.solve(&mut shift);
        let next: Vec<f64> = mean.iter().zip(&shift).map(|(m, s)| m + s).collect();
        let squares: f64 = (0..n).map(|row| scale(row) * (y[row] - dot(features.row(row), &next)).powi(2)).sum();
        let mut turned = shift.clone();
        old.multiply_upper(&mut turned);
        let rows: f64 = weights.map_or(n as f64, |w| w.iter().sum());
        let normalisers = rows * (TAU * noise_variance).ln() - old.log_det() + precision.log_det();
        let log_evidence = -0.5 * (normalisers + squares + dot(&turned, &turned));
        Ok(LinearRegression { mean: next, precision, noise_variance, log_evidence })
    }

    /// μ
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// A = Σ⁻¹, factored.
    pub fn precision(&self) -> &Cholesky {
        &self.precision
    }

    /// Σ, row-major.
    pub fn covariance(&self) -> Vec<f64> {
        self.precision.inverse()
    }

    /// σ²
    pub fn noise_variance(&self) -> f64 {
        self.noise_variance
    }

    /// Mean and variance of an outcome at features φ.
    pub fn predict(&self, features: &[f64]) -> (f64, f64) {
        (dot(features, &self.mean), self.noise_variance + self.precision.inverse_quadratic(features))
    }

    /// KL[posterior ‖ prior] = ½ (tr S⁻¹Σ + (μ − m₀)ᵀS⁻¹(μ − m₀) − k + log det S + log det A), of the prior it was fitted with: then
    /// log p(y) = E[log p(y | w)] − KL.
    pub fn kl(&self, prior_mean: &[f64], prior_precision: &[f64]) -> f64 {
        let variances = self.precision.inverse_diagonal();
        let term = |i: usize| {
            let shift = self.mean[i] - prior_mean[i];
            prior_precision[i] * (variances[i] + shift * shift) - 1.0 - prior_precision[i].ln()
        };
        0.5 * ((0..self.mean.len()).map(term).sum::<f64>() + self.precision.log_det())
    }

    /// log p(y)
    pub fn log_evidence(&self) -> f64 {
        self.log_evidence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::{MultiDistribution, MultivariateNormal};
    use crate::math::linalg::testing::{close, normals, product, transpose};

    const NOISE: f64 = 0.3;

    struct Case {
        n: usize,
        k: usize,
        features: Vec<f64>,
        y: Vec<f64>,
        prior_mean: Vec<f64>,
        prior_precision: Vec<f64>,
    }

    fn case(n: usize, k: usize) -> Case {
        let prior_precision = normals(4, k).iter().map(|v| v.exp()).collect();
        Case { n, k, features: normals(1, n * k), y: normals(2, n), prior_mean: normals(3, k), prior_precision }
    }

    fn fit(c: &Case, weights: Option<&[f64]>) -> LinearRegression {
        let features = MatRef::new(&c.features, c.n, c.k);
        LinearRegression::fit(features, &c.y, weights, NOISE, &c.prior_mean, &c.prior_precision).unwrap()
    }

    /// log N(y | Φm₀, σ²I + ΦSΦᵀ) with the N × N matrix written out, and the outcome at φ given y by conditioning on it.
    #[test]
    fn agrees_with_the_normal_of_the_outcomes() {
        for (n, k) in [(1, 1), (7, 3), (12, 4), (3, 6)] {
            let c = case(n, k);
            let fit = fit(&c, None);
            let variances: Vec<f64> = c.prior_precision.iter().map(|p| 1.0 / p).collect();
            let spread: Vec<f64> = (0..n * k).map(|i| c.features[i] * variances[i % k]).collect();
            let mut covariance = product(&spread, &transpose(&c.features, n, k), n, k, n);
            (0..n).for_each(|i| covariance[i * n + i] += NOISE);
            let mean = product(&c.features, &c.prior_mean, n, k, 1);
            let outcomes = MultivariateNormal::new(mean.clone(), &covariance).unwrap();
            // Both routes round to some n·ε of a condition number below 1e3.
            assert!((fit.log_evidence() - outcomes.log_density(&c.y)).abs() < 1e-10, "{n} {k}");
            let new = normals(5, k);
            let (m, v) = fit.predict(&new);
            // Cov(y*, y) = φᵀSΦᵀ; E[y* | y] = φᵀm₀ + Cov K⁻¹(y − Φm₀); Var = σ² + φᵀSφ − Cov K⁻¹ Covᵀ.
            let cross = product(&spread, &new, n, k, 1);
            let chol = Cholesky::new(&covariance, n).unwrap();
            let mut solved = cross.clone();
            chol.solve(&mut solved);
            let residual: Vec<f64> = c.y.iter().zip(&mean).map(|(y, m)| y - m).collect();
            let prior_variance: f64 = new.iter().zip(&variances).map(|(f, s)| f * f * s).sum();
            assert!((m - (dot(&new, &c.prior_mean) + dot(&solved, &residual))).abs() < 1e-10);
            assert!((v - (NOISE + prior_variance - dot(&cross, &solved))).abs() < 1e-10);
        }
    }

    #[test]
    fn the_evidence_is_the_bound_that_the_posterior_reaches() {
        let c = case(12, 4);
        let fit = fit(&c, None);
        let features = MatRef::new(&c.features, c.n, c.k);
        let expected = |n: usize| {
            let (mean, variance) = fit.predict(features.row(n));
            -0.5 * ((TAU * NOISE).ln() + ((c.y[n] - mean).powi(2) + variance - NOISE) / NOISE)
        };
        let bound = (0..c.n).map(expected).sum::<f64>() - fit.kl(&c.prior_mean, &c.prior_precision);
        assert!((bound - fit.log_evidence()).abs() < 1e-10); // rounding
    }

    #[test]
    fn a_weight_of_two_is_a_row_twice_and_of_zero_is_no_row() {
        let c = case(9, 3);
        let weights = [1.0, 2.0, 0.0, 1.0, 3.0, 0.0, 2.0, 1.0, 1.0]; // their sum is not 9
        let rows: Vec<usize> = (0..9).flat_map(|i| std::iter::repeat_n(i, weights[i] as usize)).collect();
        let repeated = Case {
            n: rows.len(),
            features: rows.iter().flat_map(|r| c.features[r * 3..(r + 1) * 3].to_vec()).collect(),
            y: rows.iter().map(|r| c.y[*r]).collect(),
            ..case(9, 3)
        };
        let (weighted, repeated) = (fit(&c, Some(&weights)), fit(&repeated, None));
        // The same sums in another order.
        close(weighted.mean(), repeated.mean(), 1e-12);
        close(&weighted.covariance(), &repeated.covariance(), 1e-12);
        assert!((weighted.log_evidence() - repeated.log_evidence()).abs() < 1e-11);
    }

    #[test]
    fn what_has_no_posterior_is_said_so() {
        let fit = |noise, precision: f64| {
            let features = MatRef::new(&[1.0], 1, 1);
            LinearRegression::fit(features, &[1.0], None, noise, &[0.0], &[precision]).unwrap_err().to_string()
        };
        assert!(fit(0.0, 1.0).contains("noise variance of a linear model cannot be 0"));
        assert!(fit(1.0, f64::INFINITY).contains("prior precision of feature 1 cannot be inf"));
    }
}
