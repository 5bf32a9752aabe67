//! A = V diag(λ) Vᵀ of a symmetric matrix, in two stages: A = Q T Qᵀ with T tridiagonal, then the eigenvectors of T, turned by Q.
//!
//! The first stage works in the memory of A, and eigenvalues need no more than T: 4/3 n³ for them, about 9 n³ and three matrices more with
//! eigenvectors. Reference: Golub & Van Loan (2013), chapter 8.

use super::not_finite;
use crate::error::{Error, Result};
use faer::diag::{DiagMut, DiagRef};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::tridiag::{tridiag_in_place, tridiag_in_place_scratch};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd_scratch, tridiagonal_self_adjoint_evd};
use faer::linalg::householder::apply_block_householder_sequence_on_the_left_in_place_with_conj as turn;
use faer::linalg::qr::no_pivoting::factor::recommended_block_size;
use faer::{Conj, Mat, MatMut, MatRef, Par};

/// Q T Qᵀ: what eigenvalues follow from at once, and eigenvectors at a price.
#[derive(Debug, Clone)]
pub struct Tridiagonal {
    n: usize,
    /// Column after column; the reflections that make Q stand below the subdiagonal.
    reflections: Vec<f64>,
    factors: Mat<f64>,
    diagonal: Vec<f64>,
    /// As long as the diagonal; the last is 0.
    below: Vec<f64>,
}

fn not_converged(n: usize) -> Error {
    let what = format!("the eigenvalues of a matrix of order {n} did not converge");
    Error::numerical(what, "scale the matrix so that its entries are near 1")
}

impl Tridiagonal {
    /// Of a symmetric matrix of order n that stands column after column; what is above the diagonal is neither read nor written.
    pub fn new(mut a: Vec<f64>, n: usize) -> Result<Tridiagonal> {
        assert_eq!(a.len(), n * n, "a square matrix of order {n}");
        for c in 0..n {
            if let Some(r) = (c..n).find(|r| !a[c * n + r].is_finite()) {
                return Err(not_finite(a[c * n + r], r, c));
            }
        }
        let mut factors = Mat::zeros(recommended_block_size::<f64>(n, n).max(1), n.saturating_sub(1));
        if n > 1 {
            let mut memory = MemBuffer::new(tridiag_in_place_scratch::<f64>(n, Par::Seq, Default::default()));
            let matrix = MatMut::from_column_major_slice_mut(&mut a, n, n);
            tridiag_in_place(matrix, factors.as_mut(), Par::Seq, MemStack::new(&mut memory), Default::default());
        }
        let diagonal = (0..n).map(|i| a[i * n + i]).collect();
        let below = (0..n).map(|i| if i + 1 < n { a[i * n + i + 1] } else { 0.0 }).collect();
        Ok(Tridiagonal { n, reflections: a, factors, diagonal, below })
    }

    /// λ, ascending, and the eigenvectors of T where there is room for them.
    fn solve(&self, vectors: Option<&mut [f64]>) -> Result<Vec<f64>> {
        let n = self.n;
        let mut values = vec![0.0; n];
        let which = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
        // It counts a copy of A, whose memory is never touched.
        let mut memory = MemBuffer::new(self_adjoint_evd_scratch::<f64>(n, which, Par::Seq, Default::default()));
        let stack = MemStack::new(&mut memory);
        let u = vectors.map(|v| MatMut::from_column_major_slice_mut(v, n, n));
        let (diagonal, below) = (DiagRef::from_slice(&self.diagonal), DiagRef::from_slice(&self.below));
        let out = DiagMut::from_slice_mut(&mut values);
        tridiagonal_self_adjoint_evd(diagonal, below, out, u, Par::Seq, stack, Default::default())
            .map_err(|_| not_converged(n))?;
        Ok(values)
    }

    /// λ, ascending.
    pub fn values(&self) -> Result<Vec<f64>> {
        match self.n {
            0 | 1 => Ok(self.diagonal.clone()),
            _ => self.solve(None),
        }
    }

    /// The second stage.
    pub fn eigen(self) -> Result<Eigen> {
        let n = self.n;
        if n < 2 {
            return Ok(Eigen { n, values: self.diagonal, vectors: vec![1.0; n] });
        }
        let mut vectors = vec![0.0; n * n];
        let values = self.solve(Some(&mut vectors))?;
        let mut memory =
            MemBuffer::new(faer::linalg::householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<
                f64,
            >(n - 1, self.factors.nrows(), n));
        turn(
            MatRef::from_column_major_slice(&self.reflections, n, n).submatrix(1, 0, n - 1, n - 1),
            self.factors.as_ref(),
            Conj::No,
            MatMut::from_column_major_slice_mut(&mut vectors, n, n).subrows_mut(1, n - 1),
            Par::Seq,
            MemStack::new(&mut memory),
        );
        drop(self.reflections);
        transpose(&mut vectors, n);
        Ok(Eigen { n, values, vectors })
    }
}

/// In place, by squares that stay in the cache.
fn transpose(a: &mut [f64], n: usize) {
    const SIDE: usize = 32;
    for i0 in (0..n).step_by(SIDE) {
        for j0 in (i0..n).step_by(SIDE) {
            for i in i0..(i0 + SIDE).min(n) {
                for j in j0.max(i + 1)..(j0 + SIDE).min(n) {
                    a.swap(i * n + j, j * n + i);
                }
            }
        }
    }
}

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
        let mut lower = a.to_vec();
        transpose(&mut lower, n);
        Tridiagonal::new(lower, n)?.eigen()
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
        for n in [1, 2, 5, 17, 40, 150] {
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
            // Eigenvalues without eigenvectors, from one triangle.
            let mut lower = a.clone();
            (0..n * n).filter(|k| k % n < k / n).for_each(|k| lower[k] = f64::NAN);
            close(&Tridiagonal::new(lower, n).unwrap().values().unwrap(), eigen.values(), 1e-13);
        }
    }

    #[test]
    fn known_values_and_bad_input() {
        let eigen = Eigen::new(&[2.0, 1.0, 1.0, 2.0], 2).unwrap();
        close(eigen.values(), &[1.0, 3.0], 1e-15);
        assert!(Eigen::new(&[f64::INFINITY], 1).is_err());
    }
}
