//! Factorisations of symmetric matrices over `faer`: Cholesky, eigenvalues, low rank plus diagonal, Kronecker products.
//!
//! Matrices are f64, row-major, in slices; a square one of order n has n² numbers and only its lower triangle is read.
//! A matrix that is not positive definite, or not finite, is an [`Error`] that says where; slices of the
//! wrong length are a mistake of the caller and panic. Everything runs on the calling thread, so the result does not
//! depend on how many there are.
//!
//! Reference: Golub & Van Loan (2013), Matrix Computations, 4th edition.

mod cholesky;
mod eigen;
mod inverse;
mod kronecker;
mod triangle;
mod woodbury;

pub use cholesky::Cholesky;
pub use eigen::{Eigen, Tridiagonal};
pub(crate) use inverse::invert_in_place;
pub use kronecker::{Kronecker, KroneckerEigen};
pub(crate) use triangle::lower_triangle;
pub use woodbury::LowRank;

use crate::error::{Error, Result};

/// aᵀb, summed in eight lanes in a fixed order.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "a product of vectors of one length");
    let mut lanes = [0.0; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (x, y) in a.iter().zip(b) {
        for i in 0..8 {
            lanes[i] += x[i] * y[i];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    (lanes[0] + lanes[4]) + (lanes[1] + lanes[5]) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7])) + rest
}

/// The lower triangle has to be finite.
fn check_finite(a: &[f64], n: usize) -> Result<()> {
    assert_eq!(a.len(), n * n, "a square matrix of order {n}");
    for i in 0..n {
        if let Some(j) = a[i * n..i * n + i + 1].iter().position(|v| !v.is_finite()) {
            return Err(not_finite(a[i * n + j], i, j));
        }
    }
    Ok(())
}

fn not_finite(value: f64, row: usize, column: usize) -> Error {
    let what = format!("the matrix holds {value} at row {}, column {}", row + 1, column + 1);
    Error::numerical(what, "look for overflow in what it was computed from")
}

#[cfg(test)]
pub(crate) mod testing {
    //! Random matrices and brute force for the tests of this folder.

    use crate::rng::{Key, fill_normals};

    pub fn normals(seed: u64, n: usize) -> Vec<f64> {
        let mut x = vec![0.0; n];
        fill_normals(Key::new(seed), &mut x);
        x
    }

    /// G Gᵀ + n·I/4: positive definite with a condition number of about 20.
    pub fn positive(seed: u64, n: usize) -> Vec<f64> {
        let g = normals(seed, n * n);
        let mut a = product(&g, &transpose(&g, n, n), n, n, n);
        for i in 0..n {
            a[i * n + i] += 0.25 * n as f64;
        }
        a
    }

    pub fn transpose(a: &[f64], rows: usize, cols: usize) -> Vec<f64> {
        let mut t = vec![0.0; a.len()];
        for i in 0..rows {
            for j in 0..cols {
                t[j * rows + i] = a[i * cols + j];
            }
        }
        t
    }

    /// (m×k)·(k×n) by the definition.
    pub fn product(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
        let mut c = vec![0.0; m * n];
        for i in 0..m {
            for j in 0..n {
                c[i * n + j] = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
            }
        }
        c
    }

    /// ln |det A| by Gaussian elimination with partial pivoting.
    pub fn log_abs_det(a: &[f64], n: usize) -> f64 {
        let mut a = a.to_vec();
        let mut sum = 0.0;
        for k in 0..n {
            let p = (k..n).max_by(|i, j| a[i * n + k].abs().total_cmp(&a[j * n + k].abs())).unwrap();
            for j in 0..n {
                a.swap(k * n + j, p * n + j);
            }
            sum += a[k * n + k].abs().ln();
            for i in k + 1..n {
                let f = a[i * n + k] / a[k * n + k];
                for j in k..n {
                    a[i * n + j] -= f * a[k * n + j];
                }
            }
        }
        sum
    }

    /// A ⊗ B.
    pub fn kron(a: &[f64], na: usize, b: &[f64], nb: usize) -> Vec<f64> {
        let n = na * nb;
        let mut out = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                out[i * n + j] = a[(i / nb) * na + j / nb] * b[(i % nb) * nb + j % nb];
            }
        }
        out
    }

    #[track_caller]
    pub fn close(got: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(got.len(), expected.len());
        let scale = expected.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
        for (i, (g, e)) in got.iter().zip(expected).enumerate() {
            assert!((g - e).abs() <= tolerance * scale, "number {i}: {g} instead of {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_products_of_all_lengths() {
        for n in 0..40 {
            let (a, b) = (testing::normals(1, n), testing::normals(2, n));
            let plain: f64 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            assert!((dot(&a, &b) - plain).abs() < 1e-14); // rounding of 40 terms of size 1
        }
    }
}
