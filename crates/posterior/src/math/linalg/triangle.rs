//! A root of a product made triangular: L Lᵀ = F Fᵀ, without the product, whose rounding could make it indefinite.
//!
//! Fᵀ = Q R by reflections, L = Rᵀ up to the signs of its columns. Cost 4/3 n³. Reference: Golub & Van Loan (2013), 5.2.

use faer::MatRef;

/// The lower triangle L with L Lᵀ = F Fᵀ and a diagonal that is at least 0, for F of n × n; row-major both.
pub(crate) fn lower_triangle(factor: &[f64], n: usize) -> Vec<f64> {
    assert_eq!(factor.len(), n * n, "a square matrix of order {n}");
    let qr = MatRef::from_row_major_slice(factor, n, n).transpose().qr();
    let (r, mut lower) = (qr.R(), vec![0.0; n * n]);
    for i in 0..n {
        for j in 0..=i {
            lower[i * n + j] = if r[(j, j)] < 0.0 { -r[(j, i)] } else { r[(j, i)] };
        }
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_product_is_kept_also_where_it_is_singular() {
        for (n, rank) in [(1, 1), (2, 2), (7, 7), (7, 3), (40, 40)] {
            let mut f = normals(n as u64, n * n);
            (0..n * n).filter(|k| k % n >= rank).for_each(|k| f[k] = 0.0);
            let l = lower_triangle(&f, n);
            assert!((0..n).all(|i| l[i * n + i] >= 0.0 && l[i * n + i + 1..(i + 1) * n].iter().all(|v| *v == 0.0)));
            let product_of = |m: &[f64]| product(m, &transpose(m, n, n), n, n, n);
            // Backward stable: n·ε times the norm of F Fᵀ, about n.
            close(&product_of(&l), &product_of(&f), 1e-12);
        }
    }
}
