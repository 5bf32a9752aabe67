//! A = D + U Uᵀ with D diagonal and U of r columns: solves, determinants and draws without forming A.
//!
//! A⁻¹ = D⁻¹ − D⁻¹ U C⁻¹ Uᵀ D⁻¹ and log det A = Σ ln dᵢ + log det C, with C = I + Uᵀ D⁻¹ U of order r.
//!
//! Reference: Woodbury (1950). Cost n r² once, then n r per vector.

use super::{Cholesky, dot};
use crate::error::{Error, Result};

/// D + U Uᵀ, factored.
#[derive(Debug, Clone)]
pub struct LowRank {
    diagonal: Vec<f64>,
    /// n × r, row-major.
    u: Vec<f64>,
    rank: usize,
    capacitance: Cholesky,
}

impl LowRank {
    /// From the diagonal (all positive) and the n × `rank` factor, row-major.
    pub fn new(diagonal: Vec<f64>, u: Vec<f64>, rank: usize) -> Result<LowRank> {
        assert_eq!(u.len(), diagonal.len() * rank, "a factor of {} × {rank} numbers", diagonal.len());
        if let Some(i) = diagonal.iter().position(|d| !(*d > 0.0 && d.is_finite())) {
            return Err(Error::numerical(
                format!("the diagonal of a low-rank matrix holds {} at place {}", diagonal[i], i + 1),
                "every diagonal number has to be positive and finite",
            ));
        }
        let mut c = vec![0.0; rank * rank];
        for (row, d) in u.chunks(rank.max(1)).zip(&diagonal) {
            for i in 0..rank {
                let f = row[i] / d;
                for j in 0..=i {
                    c[i * rank + j] += f * row[j];
                }
            }
        }
        for i in 0..rank {
            c[i * rank + i] += 1.0;
        }
        Ok(LowRank { diagonal, u, rank, capacitance: Cholesky::new(&c, rank)? })
    }

    /// Order of the matrix.
    pub fn dim(&self) -> usize {
        self.diagonal.len()
    }

    /// Columns of U.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// D.
    pub fn diagonal(&self) -> &[f64] {
        &self.diagonal
    }

    /// U, row-major.
    pub fn factor(&self) -> &[f64] {
        &self.u
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.u[i * self.rank..(i + 1) * self.rank]
    }

    /// Uᵀ D⁻¹ x
    fn project(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(x.len(), self.dim(), "a vector of the matrix's order");
        let mut t = vec![0.0; self.rank];
        for i in 0..self.dim() {
            let f = x[i] / self.diagonal[i];
            for (sum, u) in t.iter_mut().zip(self.row(i)) {
                *sum += f * u;
            }
        }
        t
    }

    /// b ← A⁻¹ b.
    pub fn solve(&self, b: &mut [f64]) {
        let mut t = self.project(b);
        self.capacitance.solve(&mut t);
        for i in 0..b.len() {
            b[i] = (b[i] - dot(self.row(i), &t)) / self.diagonal[i];
        }
    }

    /// x ← A x.
    pub fn multiply(&self, x: &mut [f64]) {
        assert_eq!(x.len(), self.dim(), "a vector of the matrix's order");
        let mut t = vec![0.0; self.rank];
        for i in 0..x.len() {
            for (sum, u) in t.iter_mut().zip(self.row(i)) {
                *sum += x[i] * u;
            }
        }
        for i in 0..x.len() {
            x[i] = self.diagonal[i] * x[i] + dot(self.row(i), &t);
        }
    }

    /// xᵀ A⁻¹ x.
    pub fn inverse_quadratic(&self, x: &[f64]) -> f64 {
        let direct: f64 = x.iter().zip(&self.diagonal).map(|(x, d)| x * x / d).sum();
        direct - self.capacitance.inverse_quadratic(&self.project(x))
    }

    /// log det A.
    pub fn log_det(&self) -> f64 {
        self.diagonal.iter().map(|d| d.ln()).sum::<f64>() + self.capacitance.log_det()
    }

    /// The diagonal of A.
    pub fn variances(&self) -> Vec<f64> {
        (0..self.dim()).map(|i| self.diagonal[i] + dot(self.row(i), self.row(i))).collect()
    }

    /// The diagonal of A⁻¹.
    pub fn inverse_diagonal(&self) -> Vec<f64> {
        (0..self.dim())
            .map(|i| (1.0 - self.capacitance.inverse_quadratic(self.row(i)) / self.diagonal[i]) / self.diagonal[i])
            .collect()
    }

    /// Turns standard normals into a draw of N(0, A): x = √D z + U e, with z (n numbers, overwritten) and e (r numbers).
    pub fn sample(&self, z: &mut [f64], e: &[f64]) {
        assert_eq!((z.len(), e.len()), (self.dim(), self.rank), "n and r standard normals");
        for i in 0..z.len() {
            z[i] = self.diagonal[i].sqrt() * z[i] + dot(self.row(i), e);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn agrees_with_the_dense_matrix() {
        for (n, r) in [(1, 1), (5, 2), (12, 3), (4, 6), (3, 0)] {
            let diagonal: Vec<f64> = normals(1, n).iter().map(|v| v.exp()).collect();
            let u = normals(2, n * r);
            let mut dense = product(&u, &transpose(&u, n, r), n, r, n);
            (0..n).for_each(|i| dense[i * n + i] += diagonal[i]);
            let a = LowRank::new(diagonal, u, r).unwrap();
            let chol = Cholesky::new(&dense, n).unwrap();
            // Both ways round to n·ε·condition; the condition number is below 1e3.
            let b = normals(3, n);
            let (mut x, mut y) = (b.clone(), b.clone());
            a.solve(&mut x);
            chol.solve(&mut y);
            close(&x, &y, 1e-12);
            assert!((a.inverse_quadratic(&b) - dot(&b, &y)).abs() < 1e-11);
            assert!((a.log_det() - chol.log_det()).abs() < 1e-12);
            a.multiply(&mut x);
            close(&x, &b, 1e-12);
            close(&a.variances(), &(0..n).map(|i| dense[i * n + i]).collect::<Vec<_>>(), 1e-14);
            close(&a.inverse_diagonal(), &chol.inverse_diagonal(), 1e-12);
            // The root [√D, U] that `sample` applies, column by column, squares to A.
            let mut square = vec![0.0; n * n];
            for k in 0..n + r {
                let (mut z, mut e) = (vec![0.0; n], vec![0.0; r]);
                if k < n {
                    z[k] = 1.0
                } else {
                    e[k - n] = 1.0
                }
                a.sample(&mut z, &e);
                (0..n * n).for_each(|p| square[p] += z[p / n] * z[p % n]);
            }
            close(&square, &dense, 1e-14);
        }
    }

    #[test]
    fn a_diagonal_that_is_not_positive_is_named() {
        let message = LowRank::new(vec![1.0, -2.0], vec![0.0, 0.0], 1).unwrap_err().to_string();
        assert!(message.contains("-2 at place 2"), "{message}");
        assert!(LowRank::new(vec![1.0], vec![f64::NAN], 1).is_err());
    }
}
