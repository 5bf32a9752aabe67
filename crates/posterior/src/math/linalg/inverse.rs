//! A ← A⁻¹ of a positive definite matrix, in place: for the small matrices of a training step, which allocates nothing.
//!
//! A = L Lᵀ, then L⁻¹, then A⁻¹ = L⁻ᵀ L⁻¹, each over the one before. Cost n³; rows are read along memory.
//! Reference: Golub & Van Loan (2013), 4.2.

use super::dot;

/// Replaces a positive definite matrix of order n, whose lower triangle is read, by its inverse; returns log det A. Where it is not
/// positive definite, the result and the inverse are not numbers.
pub(crate) fn invert_in_place(a: &mut [f64], n: usize) -> f64 {
    let mut log_det = 0.0;
    for i in 0..n {
        let (above, row) = a.split_at_mut(i * n);
        for j in 0..i {
            let other = &above[j * n..j * n + j + 1];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
        }
        let pivot = row[i] - dot(&row[..i], &row[..i]);
        // The root of a negative pivot is not a number, and spreads; that of 0 would give infinities.
        row[i] = if pivot > 0.0 { pivot.sqrt() } else { f64::NAN };
        log_det += 2.0 * row[i].ln();
    }
    for i in 0..n {
        let (above, row) = a.split_at_mut(i * n);
        let scale = 1.0 / row[i];
        for k in 0..i {
            // Numbers before k are sums by now, from k on they are still those of L.
            let l = std::mem::take(&mut row[k]);
            add(-scale * l, &above[k * n..k * n + k + 1], &mut row[..=k]);
        }
        row[i] = scale;
    }
    for i in 0..n {
        let (row, below) = a[i * n..].split_at_mut(n);
        let diagonal = row[i];
        row[..=i].iter_mut().for_each(|v| *v *= diagonal);
        for other in below.chunks(n) {
            add(other[i], &other[..=i], &mut row[..=i]);
        }
    }
    for i in 0..n {
        for j in 0..i {
            a[j * n + i] = a[i * n + j];
        }
    }
    log_det
}

fn add(f: f64, x: &[f64], y: &mut [f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += f * x);
}

#[cfg(test)]
mod tests {
    use super::super::Cholesky;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn agrees_with_the_factorisation() {
        for n in [1, 2, 5, 33] {
            let a = positive(n as u64, n);
            let cholesky = Cholesky::new(&a, n).unwrap();
            let mut inverse = a.clone();
            // Two routes of a few n·ε times a condition number of about 20.
            assert!((invert_in_place(&mut inverse, n) - cholesky.log_det()).abs() < 1e-12 * n as f64);
            close(&inverse, &cholesky.inverse(), 1e-12);
        }
        assert_eq!(invert_in_place(&mut [], 0), 0.0);
    }

    #[test]
    fn what_is_not_positive_definite_is_not_a_number() {
        for mut a in [[1.0, 0.0, 2.0, 1.0], [0.0; 4], [f64::NAN, 0.0, 0.0, 1.0]] {
            assert!(invert_in_place(&mut a, 2).is_nan());
        }
    }
}
