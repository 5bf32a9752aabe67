//! Gradients against central differences with one Richardson extrapolation.
//!
//! D(h) = (f(x+h) − f(x−h)) / 2h;  f′(x) ≈ (4 D(h/2) − D(h)) / 3, with error O(h⁴) + ε|f|/h. With h = 10⁻³ max(1, |x|)
//! both are near 10⁻¹² of the size of f for a function that varies on the scale of 1.
//!
//! Reference: Richardson (1911); Ridders (1982), Advances in Engineering Software 4.

/// Compares the gradient that `f` returns at `point` with finite differences of its value.
///
/// The largest |analytic − numeric| / max(1, |numeric|) has to be at most `tolerance`; otherwise the message names the
/// coordinate, both numbers and the error.
pub fn check_gradient(
    mut f: impl FnMut(&[f64]) -> (f64, Vec<f64>),
    point: &[f64],
    tolerance: f64,
) -> Result<(), String> {
    let (value, gradient) = f(point);
    if !value.is_finite() {
        return Err(format!("the value is {value} at {point:?}"));
    }
    if gradient.len() != point.len() {
        return Err(format!("the gradient has {} coordinates, the point {}", gradient.len(), point.len()));
    }
    let mut x = point.to_vec();
    let mut worst: Option<(f64, usize, f64)> = None;
    for i in 0..point.len() {
        let h = 1e-3 * point[i].abs().max(1.0);
        let mut central = |h: f64| {
            let (up, down) = (point[i] + h, point[i] - h);
            x[i] = up;
            let above = f(&x).0;
            x[i] = down;
            let below = f(&x).0;
            x[i] = point[i];
            (above - below) / (up - down)
        };
        let (coarse, fine) = (central(h), central(0.5 * h));
        let numeric = (4.0 * fine - coarse) / 3.0;
        let error = (gradient[i] - numeric).abs() / numeric.abs().max(1.0);
        // A NaN compares as the worst there is.
        let error = if error.is_nan() { f64::INFINITY } else { error };
        if worst.is_none_or(|(w, ..)| error > w) {
            worst = Some((error, i, numeric));
        }
    }
    match worst {
        Some((error, i, numeric)) if error > tolerance => Err(format!(
            "gradient is wrong, worst at coordinate {i} (x = {}): {} instead of {numeric}, error {error:.2e} > {tolerance:.0e}",
            point[i], gradient[i]
        )),
        _ => Ok(()),
    }
}

/// [`check_gradient`] that panics with its message: the form for tests.
///
/// ```
/// // f(x, y) = x² y
/// let f = |p: &[f64]| (p[0] * p[0] * p[1], vec![2.0 * p[0] * p[1], p[0] * p[0]]);
/// posterior_testing::expect_gradient(f, &[0.3, -2.0], 1e-9);
/// ```
///
/// # Panics
/// If the gradient disagrees.
#[track_caller]
pub fn expect_gradient(f: impl FnMut(&[f64]) -> (f64, Vec<f64>), point: &[f64], tolerance: f64) {
    if let Err(message) = check_gradient(f, point, tolerance) {
        panic!("{message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rosenbrock(p: &[f64]) -> (f64, Vec<f64>) {
        let (a, b) = (1.0 - p[0], p[1] - p[0] * p[0]);
        (a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * p[0] * b, 200.0 * b])
    }

    #[test]
    fn a_right_gradient_passes() {
        // Rounding: ε·f/h ≈ 2e-16·3000/1e-3 ≈ 1e-9 of a gradient of order 1000.
        for point in [[-1.2, 1.0], [3.0, -5.0], [0.0, 0.0]] {
            expect_gradient(rosenbrock, &point, 1e-9);
        }
    }

    #[test]
    fn a_wrong_coordinate_is_named() {
        let planted = |p: &[f64]| {
            let (v, mut g) = rosenbrock(p);
            g[1] *= 1.0 + 1e-6;
            (v, g)
        };
        let message = check_gradient(planted, &[-1.2, 1.0], 1e-8).unwrap_err();
        assert!(message.contains("coordinate 1"), "{message}");
    }

    #[test]
    fn not_a_number_and_a_missing_coordinate_are_errors() {
        assert!(check_gradient(|p| (p[0], vec![f64::NAN]), &[1.0], 1.0).unwrap_err().contains("coordinate 0"));
        assert!(check_gradient(|p| (p[0], vec![]), &[1.0], 1.0).is_err());
        assert!(check_gradient(|_| (f64::NAN, vec![0.0]), &[1.0], 1.0).is_err());
    }
}
