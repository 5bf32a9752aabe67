//! A = V diag(λ) Vᵀ of a symmetric matrix.
//!
//! Reference: Golub & Van Loan (2013), chapter 8. Cost about 9 n³.

use super::check_finite;
use crate::error::{Error, Result};
use faer::linalg::solvers::SelfAdjointEigen;
use faer::{MatRef, Side};

/// Eigenvalues in ascending order and their eigenvectors.
#[derive(Debug, Clone)]
pub struct Eigen {
    n: usize,
    values: Vec<f64>,
    /// Row-major; column k belongs to value k.
    vectors: Vec<f64>,
}

impl Eigen {
    /// Decomposes a symmetric matrix of order n; the upper triangle is not read.
    pub fn new(a: &[f64], n: usize) -> Result<Eigen> {
        check_finite(a, n)?;
        let eigen = SelfAdjointEigen::new(MatRef::from_row_major_slice(a, n, n), Side::Lower).map_err(|_| {
            Error::numerical(
                format!("the eigenvalues of a matrix of order {n} did not converge"),
                "scale the matrix so that its entries are near 1",
            )
        })?;
        let (u, s) = (eigen.U(), eigen.S().column_vector());
        let mut vectors = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                vectors[i * n + j] = u[(i, j)];
            }
        }
        Ok(Eigen { n, values: (0..n).map(|i| s[i]).collect(), vectors })
    }

    /// Order of the matrix.
    pub fn dim(&self) -> usize {
        self.n
    }

    /// λ, ascending.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// V, row-major; column k is the eigenvector of value k.
    pub fn vectors(&self) -> &[f64] {
        &self.vectors
    }

    /// V diag(f(λ)) Vᵀ, row-major: f(A), for instance a square root or an inverse.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Vec<f64> {
        let n = self.n;
        let scale: Vec<f64> = self.values.iter().map(|v| f(*v)).collect();
        let mut out = vec![0.0; n * n];
        for i in 0..n {
            let row: Vec<f64> = self.vectors[i * n..(i + 1) * n].iter().zip(&scale).map(|(v, s)| v * s).collect();
            for j in 0..=i {
                let v = super::dot(&row, &self.vectors[j * n..(j + 1) * n]);
                out[i * n + j] = v;
                out[j * n + i] = v;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_matrix_is_rebuilt_and_vectors_are_orthonormal() {
        for n in [1, 2, 5, 17, 40] {
            let g = normals(n as u64, n * n);
            let t = transpose(&g, n, n);
            let a: Vec<f64> = g.iter().zip(&t).map(|(x, y)| x + y).collect();
            let eigen = Eigen::new(&a, n).unwrap();
            assert!(eigen.values().is_sorted());
            // Backward stable: n·ε times the norm of A, about √n.
            close(&eigen.map(|v| v), &a, 1e-13);
            let vectors = eigen.vectors();
            let gram = product(&transpose(vectors, n, n), vectors, n, n, n);
            let identity: Vec<f64> = (0..n * n).map(|k| f64::from(u8::from(k / n == k % n))).collect();
            close(&gram, &identity, 1e-13);
        }
    }

    #[test]
    fn known_values_and_bad_input() {
        let eigen = Eigen::new(&[2.0, 1.0, 1.0, 2.0], 2).unwrap();
        close(eigen.values(), &[1.0, 3.0], 1e-15);
        assert!(Eigen::new(&[f64::INFINITY], 1).is_err());
    }
}
