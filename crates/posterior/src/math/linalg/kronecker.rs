//! (A ⊗ B) x by reshaping: with X the row-major nₐ × n_b matrix of x, (A ⊗ B) x is A X Bᵀ.
//!
//! Solve: A⁻¹ X B⁻ᵀ;  log det (A ⊗ B) = n_b log det A + nₐ log det B. With A = V diag(α) Vᵀ and B = W diag(β) Wᵀ,
//! A ⊗ B + s I has the eigenvalues αᵢβⱼ + s and the eigenvectors V ⊗ W.
//!
//! Reference: Van Loan (2000), The ubiquitous Kronecker product; Martens & Grosse (2015) for K-FAC.
//! Cost nₐ³ + n_b³ once, then nₐ n_b (nₐ + n_b) per vector.

use super::{Cholesky, Eigen};
use crate::error::{Error, Result};
use crate::math::{Mat, Threads, gemm};

/// A ⊗ B of two positive definite matrices.
#[derive(Debug, Clone)]
pub struct Kronecker {
    a: Cholesky,
    b: Cholesky,
}

impl Kronecker {
    /// From A of order `na` and B of order `nb`.
    pub fn new(a: &[f64], na: usize, b: &[f64], nb: usize) -> Result<Kronecker> {
        Ok(Kronecker { a: Cholesky::new(a, na)?, b: Cholesky::new(b, nb)? })
    }

    /// nₐ n_b.
    pub fn dim(&self) -> usize {
        self.a.dim() * self.b.dim()
    }

    /// Applies `left` to X as a matrix of nₐ rows and `right` to each of its rows.
    fn apply(&self, x: &mut [f64], left: fn(&Cholesky, &mut [f64], usize), right: fn(&Cholesky, &mut [f64])) {
        assert_eq!(x.len(), self.dim(), "a vector of the matrix's order");
        left(&self.a, x, self.b.dim());
        x.chunks_mut(self.b.dim().max(1)).for_each(|row| right(&self.b, row));
    }

    /// x ← (A ⊗ B)⁻¹ x.
    pub fn solve(&self, x: &mut [f64]) {
        self.apply(x, Cholesky::solve_matrix, Cholesky::solve);
    }

    /// log det (A ⊗ B).
    pub fn log_det(&self) -> f64 {
        self.b.dim() as f64 * self.a.log_det() + self.a.dim() as f64 * self.b.log_det()
    }

    /// Turns standard normals z into a draw of N(0, (A ⊗ B)⁻¹): (Lₐ ⊗ L_b)⁻ᵀ z.
    pub fn sample_precision(&self, z: &mut [f64]) {
        self.apply(z, Cholesky::solve_upper_matrix, Cholesky::solve_upper);
    }
}

/// A ⊗ B of two symmetric matrices by their eigenvectors, for A ⊗ B + s I with any s.
#[derive(Debug, Clone)]
pub struct KroneckerEigen {
    a: Eigen,
    b: Eigen,
}

impl KroneckerEigen {
    /// From A of order `na` and B of order `nb`, both symmetric.
    pub fn new(a: &[f64], na: usize, b: &[f64], nb: usize) -> Result<KroneckerEigen> {
        Ok(KroneckerEigen { a: Eigen::new(a, na)?, b: Eigen::new(b, nb)? })
    }

    /// nₐ n_b.
    pub fn dim(&self) -> usize {
        self.a.dim() * self.b.dim()
    }

    /// The eigenvalues αᵢβⱼ, in the order of the eigenvectors V ⊗ W.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.a.values().iter().flat_map(|a| self.b.values().iter().map(move |b| a * b))
    }

    /// x ← f(A ⊗ B) x, where f acts on the eigenvalues: inverse, inverse root …
    pub fn map(&self, x: &mut [f64], f: impl Fn(f64) -> f64) {
        let (na, nb) = (self.a.dim(), self.b.dim());
        assert_eq!(x.len(), na * nb, "a vector of the matrix's order");
        let (v, w) = (self.a.vectors(), self.b.vectors());
        let mut t = vec![0.0; x.len()];
        // T = Vᵀ X W, then f, then X = V T Wᵀ.
        gemm((na, nb, nb), &mut t, false, Mat::rows_of(x, nb), Mat::rows_of(w, nb), Threads::One);
        gemm((na, nb, na), x, false, Mat::transposed(v, na), Mat::rows_of(&t, nb), Threads::One);
        x.iter_mut().zip(self.values()).for_each(|(x, value)| *x *= f(value));
        gemm((na, nb, nb), &mut t, false, Mat::rows_of(x, nb), Mat::transposed(w, nb), Threads::One);
        gemm((na, nb, na), x, false, Mat::rows_of(v, na), Mat::rows_of(&t, nb), Threads::One);
    }

    /// x ← (A ⊗ B + s I)⁻¹ x. Eigenvalues that rounding made negative count as 0.
    pub fn solve(&self, x: &mut [f64], shift: f64) {
        self.map(x, |value| 1.0 / (value.max(0.0) + shift));
    }

    /// Turns standard normals z into a draw of N(0, (A ⊗ B + s I)⁻¹).
    pub fn sample_precision(&self, z: &mut [f64], shift: f64) {
        self.map(z, |value| 1.0 / (value.max(0.0) + shift).sqrt());
    }

    /// log det (A ⊗ B + s I); an error if the matrix is singular.
    pub fn log_det(&self, shift: f64) -> Result<f64> {
        let sum: f64 = self.values().map(|value| (value.max(0.0) + shift).ln()).sum();
        if sum.is_finite() {
            return Ok(sum);
        }
        Err(Error::numerical(
            format!("a Kronecker product shifted by {shift} is not positive definite"),
            "choose a larger shift (damping or prior precision)",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn agrees_with_the_dense_product() {
        for (na, nb) in [(1, 1), (3, 4), (5, 2), (1, 6)] {
            let (n, a, b) = (na * nb, positive(1, na), positive(2, nb));
            let dense = kron(&a, na, &b, nb);
            let product_of = Kronecker::new(&a, na, &b, nb).unwrap();
            let eigen = KroneckerEigen::new(&a, na, &b, nb).unwrap();
            let x = normals(3, n);
            // Rounding n·ε times the condition number, at most 20² here.
            let mut y = x.clone();
            product_of.solve(&mut y);
            close(&product(&dense, &y, n, n, 1), &x, 1e-12);
            assert!((product_of.log_det() - log_abs_det(&dense, n)).abs() < 1e-11);
            assert!((eigen.log_det(0.0).unwrap() - product_of.log_det()).abs() < 1e-11);
            let mut y = x.clone();
            eigen.map(&mut y, |v| v);
            close(&y, &product(&dense, &x, n, n, 1), 1e-12);

            let mut shifted = dense.clone();
            (0..n).for_each(|i| shifted[i * n + i] += 0.7);
            let mut y = x.clone();
            eigen.solve(&mut y, 0.7);
            close(&product(&shifted, &y, n, n, 1), &x, 1e-12);
            assert!((eigen.log_det(0.7).unwrap() - log_abs_det(&shifted, n)).abs() < 1e-11);

            let root = |draw: &dyn Fn(&mut [f64])| {
                let mut square = vec![0.0; n * n];
                for k in 0..n {
                    let mut z = vec![0.0; n];
                    z[k] = 1.0;
                    draw(&mut z);
                    (0..n * n).for_each(|p| square[p] += z[p / n] * z[p % n]);
                }
                square
            };
            close(&root(&|z| product_of.sample_precision(z)), &Cholesky::new(&dense, n).unwrap().inverse(), 1e-12);
            close(&root(&|z| eigen.sample_precision(z, 0.7)), &Cholesky::new(&shifted, n).unwrap().inverse(), 1e-12);
        }
    }

    #[test]
    fn singular_factors_need_a_shift() {
        let eigen = KroneckerEigen::new(&[1.0, 1.0, 1.0, 1.0], 2, &[2.0], 1).unwrap();
        assert!(eigen.log_det(0.0).is_err() || eigen.log_det(0.0).unwrap() < -30.0);
        assert!((eigen.log_det(1.0).unwrap() - 5f64.ln()).abs() < 1e-14);
        assert!(Kronecker::new(&[-1.0], 1, &[2.0], 1).is_err());
    }
}
