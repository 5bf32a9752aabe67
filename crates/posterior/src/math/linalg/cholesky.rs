//! A = L Lᵀ of a positive definite matrix, and everything that follows from L.
//!
//! Solve: L y = b, Lᵀ x = y;  log det A = 2 Σ ln Lᵢᵢ;  with z ~ N(0, I), L z has covariance A and L⁻ᵀ z precision A.
//! Cost n³/3 to factor, n² per vector. Reference: Golub & Van Loan (2013), 4.2 and 6.5.4.

use super::check_finite;
use crate::error::{Error, Result};
use faer::linalg::solvers::Llt;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{MatMut, MatRef, Par, Side};

/// The lower factor L of A = L Lᵀ.
#[derive(Debug, Clone)]
pub struct Cholesky {
    n: usize,
    /// Row-major, zero above the diagonal.
    l: Vec<f64>,
}

impl Cholesky {
    /// Factors a positive definite matrix of order n; the upper triangle is not read.
    ///
    /// ```
    /// use posterior::math::linalg::Cholesky;
    /// let chol = Cholesky::new(&[4.0, 2.0, 2.0, 5.0], 2)?;
    /// assert_eq!(chol.factor(), [2.0, 0.0, 1.0, 2.0]);
    /// assert!((chol.log_det() - 16f64.ln()).abs() < 1e-15);
    /// assert!(Cholesky::new(&[1.0, 2.0, 2.0, 1.0], 2).is_err());
    /// # Ok::<(), posterior::Error>(())
    /// ```
    pub fn new(a: &[f64], n: usize) -> Result<Cholesky> {
        check_finite(a, n)?;
        let factor = Llt::new(MatRef::from_row_major_slice(a, n, n), Side::Lower).map_err(
            |faer::linalg::cholesky::llt::factor::LltError::NonPositivePivot { index }| indefinite(index, n),
        )?;
        let lower = factor.L();
        let mut l = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                l[i * n + j] = lower[(i, j)];
            }
        }
        Cholesky::from_factor(l, n)
    }

    /// Takes a lower factor as it is: row-major, its diagonal positive. Numbers above the diagonal are set to 0.
    pub fn from_factor(mut l: Vec<f64>, n: usize) -> Result<Cholesky> {
        check_finite(&l, n)?;
        for i in 0..n {
            if l[i * n + i] <= 0.0 {
                return Err(indefinite(i, n));
            }
            l[i * n + i + 1..(i + 1) * n].fill(0.0);
        }
        Ok(Cholesky { n, l })
    }

    /// Order of the matrix.
    pub fn dim(&self) -> usize {
        self.n
    }

    /// L, row-major, zero above the diagonal.
    pub fn factor(&self) -> &[f64] {
        &self.l
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.l[i * self.n..i * self.n + i + 1]
    }

    /// b ← L⁻¹ b.
    pub fn solve_lower(&self, b: &mut [f64]) {
        assert_eq!(b.len(), self.n, "a vector of the matrix's order");
        for i in 0..self.n {
            let row = self.row(i);
            b[i] = (b[i] - super::dot(&row[..i], &b[..i])) / row[i];
        }
    }

    /// b ← L⁻ᵀ b.
    pub fn solve_upper(&self, b: &mut [f64]) {
        assert_eq!(b.len(), self.n, "a vector of the matrix's order");
        for i in (0..self.n).rev() {
            let row = self.row(i);
            let x = b[i] / row[i];
            b[i] = x;
            for (v, l) in b[..i].iter_mut().zip(row) {
                *v -= x * l;
            }
        }
    }

    /// b ← A⁻¹ b.
    pub fn solve(&self, b: &mut [f64]) {
        self.solve_lower(b);
        self.solve_upper(b);
    }

    /// B ← L⁻¹ B for a row-major matrix of n rows and `cols` columns.
    pub fn solve_lower_matrix(&self, b: &mut [f64], cols: usize) {
        solve_lower_triangular_in_place(self.view(), MatMut::from_row_major_slice_mut(b, self.n, cols), Par::Seq);
    }

    /// B ← L⁻ᵀ B for a row-major matrix of n rows and `cols` columns.
    pub fn solve_upper_matrix(&self, b: &mut [f64], cols: usize) {
        let b = MatMut::from_row_major_slice_mut(b, self.n, cols);
        solve_upper_triangular_in_place(self.view().transpose(), b, Par::Seq);
    }

    /// B ← A⁻¹ B for a row-major matrix of n rows and `cols` columns.
    pub fn solve_matrix(&self, b: &mut [f64], cols: usize) {
        self.solve_lower_matrix(b, cols);
        self.solve_upper_matrix(b, cols);
    }

    fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.l, self.n, self.n)
    }

    /// x ← L x: with x ~ N(0, I), a draw whose covariance is A.
    pub fn multiply_lower(&self, x: &mut [f64]) {
        assert_eq!(x.len(), self.n, "a vector of the matrix's order");
        for i in (0..self.n).rev() {
            x[i] = super::dot(self.row(i), &x[..i + 1]);
        }
    }

    /// x ← Lᵀ x.
    pub fn multiply_upper(&self, x: &mut [f64]) {
        assert_eq!(x.len(), self.n, "a vector of the matrix's order");
        for i in 0..self.n {
            let (v, row) = (x[i], self.row(i));
            x[i] = 0.0;
            for (sum, l) in x[..=i].iter_mut().zip(row) {
                *sum += v * l;
            }
        }
    }

    /// Turns standard normals z into a draw of N(0, A): x = L z.
    pub fn sample_covariance(&self, z: &mut [f64]) {
        self.multiply_lower(z);
    }

    /// Turns standard normals z into a draw of N(0, A⁻¹): x = L⁻ᵀ z.
    pub fn sample_precision(&self, z: &mut [f64]) {
        self.solve_upper(z);
    }

    /// log det A.
    pub fn log_det(&self) -> f64 {
        2.0 * (0..self.n).map(|i| self.l[i * self.n + i].ln()).sum::<f64>()
    }

    /// A⁻¹, row-major and symmetric to the last bit.
    pub fn inverse(&self) -> Vec<f64> {
        let n = self.n;
        let mut root = self.lower_inverse();
        // A⁻¹ = L⁻ᵀ L⁻¹: row i of the result is a combination of rows k ≥ i of L⁻¹.
        let mut inverse = vec![0.0; n * n];
        for k in 0..n {
            let row = &mut root[k * n..k * n + k + 1];
            for i in 0..=k {
                let f = row[i];
                for (sum, v) in inverse[i * n..i * n + i + 1].iter_mut().zip(&*row) {
                    *sum += f * v;
                }
            }
        }
        for i in 0..n {
            for j in 0..i {
                inverse[j * n + i] = inverse[i * n + j];
            }
        }
        inverse
    }

    /// L⁻¹, row-major.
    pub fn lower_inverse(&self) -> Vec<f64> {
        let n = self.n;
        let mut root = vec![0.0; n * n];
        for i in 0..n {
            root[i * n + i] = 1.0;
        }
        self.solve_lower_matrix(&mut root, n);
        root
    }

    /// The diagonal of A⁻¹.
    pub fn inverse_diagonal(&self) -> Vec<f64> {
        let mut diagonal = vec![0.0; self.n];
        for row in self.lower_inverse().chunks(self.n.max(1)) {
            for (sum, v) in diagonal.iter_mut().zip(row) {
                *sum += v * v;
            }
        }
        diagonal
    }

    /// xᵀ A⁻¹ x.
    pub fn inverse_quadratic(&self, x: &[f64]) -> f64 {
        let mut y = x.to_vec();
        self.solve_lower(&mut y);
        super::dot(&y, &y)
    }

    /// L Lᵀ ← L Lᵀ + x xᵀ in n² steps.
    pub fn update(&mut self, x: &[f64]) {
        self.rank_one(x, 1.0).expect("adding a square keeps a positive definite matrix so");
    }

    /// L Lᵀ ← L Lᵀ − x xᵀ in n² steps; an error, and no change, if the result is not positive definite.
    pub fn downdate(&mut self, x: &[f64]) -> Result<()> {
        let mut copy = self.clone();
        copy.rank_one(x, -1.0)?;
        *self = copy;
        Ok(())
    }

    /// One rotation (sign 1) or hyperbolic rotation (sign −1) per column.
    fn rank_one(&mut self, x: &[f64], sign: f64) -> Result<()> {
        let n = self.n;
        assert_eq!(x.len(), n, "a vector of the matrix's order");
        let mut x = x.to_vec();
        for k in 0..n {
            let d = self.l[k * n + k];
            let r = (d - x[k]) * (d + x[k]);
            let r = if sign > 0.0 { d.hypot(x[k]) } else { r.max(0.0).sqrt() };
            if !(r > 0.0 && r.is_finite()) {
                return Err(indefinite(k, n));
            }
            let (c, s) = (r / d, x[k] / d);
            self.l[k * n + k] = r;
            for i in k + 1..n {
                let v = (self.l[i * n + k] + sign * s * x[i]) / c;
                self.l[i * n + k] = v;
                x[i] = c * x[i] - s * v;
            }
        }
        Ok(())
    }
}

fn indefinite(index: usize, n: usize) -> Error {
    Error::numerical(
        format!("a matrix of order {n} is not positive definite: the pivot of row {} is not positive", index + 1),
        "add a larger multiple of the identity (damping, jitter or prior precision)",
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    // Backward error of Cholesky: a few n·ε times a condition number of about 20, so 1e-12 has two digits to spare.
    const TOLERANCE: f64 = 1e-12;

    #[test]
    fn factor_solve_and_determinant() {
        for n in [1, 2, 3, 7, 20, 65] {
            let a = positive(n as u64, n);
            let chol = Cholesky::new(&a, n).unwrap();
            let l = chol.factor();
            close(&product(l, &transpose(l, n, n), n, n, n), &a, TOLERANCE);
            let b = normals(99, n);
            let mut x = b.clone();
            chol.solve(&mut x);
            close(&product(&a, &x, n, n, 1), &b, TOLERANCE);
            let mut y = b.clone();
            chol.solve_lower(&mut y);
            close(&product(l, &y, n, n, 1), &b, TOLERANCE);
            assert!((chol.inverse_quadratic(&b) - super::super::dot(&b, &x)).abs() < TOLERANCE);
            let mut y = b.clone();
            chol.solve_upper(&mut y);
            close(&product(&transpose(l, n, n), &y, n, n, 1), &b, TOLERANCE);
            chol.multiply_upper(&mut y);
            close(&y, &b, TOLERANCE);
            let mut y = b.clone();
            chol.multiply_lower(&mut y);
            close(&y, &product(l, &b, n, n, 1), TOLERANCE);
            assert!((chol.log_det() - log_abs_det(&a, n)).abs() < TOLERANCE * n as f64);
            let inverse = chol.inverse();
            let mut identity = vec![0.0; n * n];
            (0..n).for_each(|i| identity[i * n + i] = 1.0);
            close(&product(&a, &inverse, n, n, n), &identity, TOLERANCE);
            close(&chol.inverse_diagonal(), &(0..n).map(|i| inverse[i * n + i]).collect::<Vec<_>>(), TOLERANCE);
        }
    }

    #[test]
    fn matrices_on_the_right() {
        let (n, m) = (9, 4);
        let a = positive(5, n);
        let chol = Cholesky::new(&a, n).unwrap();
        let b = normals(6, n * m);
        let mut x = b.clone();
        chol.solve_matrix(&mut x, m);
        close(&product(&a, &x, n, n, m), &b, TOLERANCE);
    }

    #[test]
    fn draws_from_covariance_and_precision() {
        // Columns of the identity turned into draws are the columns of a root R with R Rᵀ = A or A⁻¹.
        let n = 6;
        let chol = Cholesky::new(&positive(8, n), n).unwrap();
        let root = |draw: &dyn Fn(&mut [f64])| {
            let mut r = vec![0.0; n * n];
            for j in 0..n {
                let mut z = vec![0.0; n];
                z[j] = 1.0;
                draw(&mut z);
                (0..n).for_each(|i| r[i * n + j] = z[i]);
            }
            product(&r, &transpose(&r, n, n), n, n, n)
        };
        close(&root(&|z| chol.sample_covariance(z)), &positive(8, n), TOLERANCE);
        close(&root(&|z| chol.sample_precision(z)), &chol.inverse(), TOLERANCE);
    }

    #[test]
    fn rank_one_update_and_back() {
        let n = 8;
        let a = positive(3, n);
        let x = normals(4, n);
        let mut chol = Cholesky::new(&a, n).unwrap();
        chol.update(&x);
        let sum: Vec<f64> = (0..n * n).map(|k| a[k] + x[k / n] * x[k % n]).collect();
        close(chol.factor(), Cholesky::new(&sum, n).unwrap().factor(), TOLERANCE);
        chol.downdate(&x).unwrap();
        close(chol.factor(), Cholesky::new(&a, n).unwrap().factor(), TOLERANCE);
        let before = chol.factor().to_vec();
        let far: Vec<f64> = x.iter().map(|v| 100.0 * v).collect();
        assert!(chol.downdate(&far).is_err());
        assert_eq!(chol.factor(), before);
    }

    #[test]
    fn what_cannot_be_factored_is_said_so() {
        let message = Cholesky::new(&[1.0, 0.0, 0.0, -1.0], 2).unwrap_err().to_string();
        assert!(message.contains("not positive definite") && message.contains("row 2"), "{message}");
        let message = Cholesky::new(&[1.0, 0.0, f64::NAN, 1.0], 2).unwrap_err().to_string();
        assert!(message.contains("NaN at row 2, column 1"), "{message}");
        assert!(Cholesky::new(&[0.0; 4], 2).is_err());
        assert!(Cholesky::from_factor(vec![1.0, 0.0, 3.0, -1.0], 2).is_err());
        assert_eq!(Cholesky::new(&[], 0).unwrap().log_det(), 0.0);
    }
}
