//! Gauss–Hermite quadrature: ∫ e^{−x²} f(x) dx ≈ Σ wᵢ f(xᵢ), exact for polynomials up to degree 2n − 1.
//!
//! Nodes are the eigenvalues of the Jacobi matrix, improved by Newton steps on the orthonormal polynomial hₙ; weights are
//! 1/Σ_{k<n} hₖ(xᵢ)². Reference: Golub & Welsch (1969), Mathematics of Computation 23. Cost O(n³).

use crate::error::{Error, Result};
use crate::math::linalg::Eigen;
use std::f64::consts::{PI, SQRT_2};

/// Nodes and weights for the weight e^{−x²}, nodes ascending. n from 1 to 64.
pub fn gauss_hermite(n: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    if !(1..=64).contains(&n) {
        return Err(Error::setting(
            format!("a Gauss–Hermite rule of {n} nodes is not available"),
            "choose from 1 to 64 nodes",
        ));
    }
    let mut jacobi = vec![0.0; n * n];
    for i in 1..n {
        let b = (0.5 * i as f64).sqrt();
        jacobi[i * n + i - 1] = b;
        jacobi[(i - 1) * n + i] = b;
    }
    let mut nodes = Eigen::new(&jacobi, n)?.values().to_vec();
    for x in &mut nodes {
        for _ in 0..3 {
            let (h, below, _) = orthonormal(n, *x);
            // h′ₙ = √(2n) hₙ₋₁
            *x -= h / ((2.0 * n as f64).sqrt() * below);
        }
    }
    // The rule is symmetric; rounding is not.
    for i in 0..n / 2 {
        let x = 0.5 * (nodes[n - 1 - i] - nodes[i]);
        nodes[i] = -x;
        nodes[n - 1 - i] = x;
    }
    if n % 2 == 1 {
        nodes[n / 2] = 0.0;
    }
    let weights = nodes.iter().map(|x| 1.0 / orthonormal(n, *x).2).collect();
    Ok((nodes, weights))
}

/// Nodes and weights with E f(Z) ≈ Σ wᵢ f(xᵢ) for Z ~ N(0, 1); the weights sum to 1.
///
/// ```
/// let (x, w) = posterior::math::special::normal_quadrature(20)?;
/// let moment: f64 = x.iter().zip(&w).map(|(x, w)| w * x.powi(4)).sum();
/// assert!((moment - 3.0).abs() < 1e-12);
/// # Ok::<(), posterior::Error>(())
/// ```
pub fn normal_quadrature(n: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut nodes, mut weights) = gauss_hermite(n)?;
    nodes.iter_mut().for_each(|x| *x *= SQRT_2);
    weights.iter_mut().for_each(|w| *w /= PI.sqrt());
    Ok((nodes, weights))
}

/// hₙ(x), hₙ₋₁(x) and Σ_{k<n} hₖ(x)² of the polynomials orthonormal under e^{−x²}.
fn orthonormal(n: usize, x: f64) -> (f64, f64, f64) {
    let (mut h, mut below, mut sum) = (PI.powf(-0.25), 0.0, 0.0);
    for k in 0..n {
        sum += h * h;
        let k = k as f64;
        let next = (2.0 / (k + 1.0)).sqrt() * x * h - (k / (k + 1.0)).sqrt() * below;
        below = h;
        h = next;
    }
    (h, below, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_are_integrated_exactly() {
        for n in 1..=64 {
            let (x, w) = normal_quadrature(n).unwrap();
            assert!(x.is_sorted() && w.iter().all(|w| *w > 0.0));
            // E Z^{2k} = (2k − 1)!!, the last one at degree 2n − 2. Rounding of xᵢ to the power 2k: 4k units.
            let mut exact = 1.0;
            for k in 0..n.min(20) {
                let sum: f64 = x.iter().zip(&w).map(|(x, w)| w * x.powi(2 * k as i32)).sum();
                assert!((sum / exact - 1.0).abs() < 1e-13, "n = {n}, degree {}: {sum:e} not {exact:e}", 2 * k);
                exact *= 2.0 * k as f64 + 1.0;
            }
        }
    }

    #[test]
    fn known_rule_of_three() {
        let (x, w) = gauss_hermite(3).unwrap();
        assert!((x[2] - 1.5f64.sqrt()).abs() < 1e-15 && x[1] == 0.0 && x[0] == -x[2]);
        assert!((w[1] - 2.0 * PI.sqrt() / 3.0).abs() < 1e-15 && (w[0] - PI.sqrt() / 6.0).abs() < 1e-15);
        assert!(gauss_hermite(0).is_err() && gauss_hermite(65).is_err());
    }
}
