//! BFGS: the maximum of a smooth function of few variables, to the precision of its arithmetic.
//!
//! p = H g with H ≈ (−∇²f)⁻¹, x ← x + t p with t halved until f rises enough (Armijo), and with s = Δx, y = −Δg, ρ = 1/sᵀy:
//! H ← (I − ρ s yᵀ) H (I − ρ y sᵀ) + ρ s sᵀ. Reference: Nocedal & Wright (2006), Numerical Optimization, 6.1. Cost n² per step
//! beside the function.

use crate::error::{Error, Result};
use crate::math::linalg::dot;

/// Steps after which a function is taken to have no maximum.
const MOST_STEPS: usize = 1000;
/// Halvings of a step after which f does not rise along it.
const HALVINGS: usize = 50;
/// The share of the rise promised by the slope that a step has to bring.
const ARMIJO: f64 = 1e-4;
/// A promised rise, relative to f, that rounding may hide.
const ROUNDING: f64 = 1e-12;

/// Climbs from `x` to a local maximum of `f`, which writes its gradient to its second argument; where it is not finite, no step goes.
///
/// ```
/// let f = |x: &[f64], g: &mut [f64]| {
///     g[0] = 2.0 * (3.0 - x[0]);
///     -(x[0] - 3.0).powi(2)
/// };
/// assert!((posterior::optim::maximise(vec![0.0], f)?[0] - 3.0).abs() < 1e-8);
/// # Ok::<(), posterior::Error>(())
/// ```
pub fn maximise(mut x: Vec<f64>, mut f: impl FnMut(&[f64], &mut [f64]) -> f64) -> Result<Vec<f64>> {
    let n = x.len();
    let mut gradient = vec![0.0; n];
    let mut value = f(&x, &mut gradient);
    if !value.is_finite() || gradient.iter().any(|g| !g.is_finite()) {
        return Err(Error::numerical("a function is not finite where its maximum is sought from", "start elsewhere"));
    }
    let mut inverse = identity(n);
    let (mut next, mut next_gradient) = (x.clone(), gradient.clone());
    for step in 0..MOST_STEPS {
        let mut direction: Vec<f64> = inverse.chunks(n.max(1)).map(|row| dot(row, &gradient)).collect();
        let mut slope = dot(&direction, &gradient);
        if slope <= 0.0 {
            // Rounding has spoilt H.
            (inverse, direction, slope) = (identity(n), gradient.clone(), dot(&gradient, &gradient));
        }
        // The first direction has the gradient's length, which is in no unit of x.
        let mut t = if step == 0 { 1.0 / slope.sqrt().max(1.0) } else { 1.0 };
        let mut risen = false;
        for _ in 0..HALVINGS {
            (0..n).for_each(|i| next[i] = x[i] + t * direction[i]);
            let at = f(&next, &mut next_gradient);
            if at >= value + ARMIJO * t * slope && at > value && next_gradient.iter().all(|g| g.is_finite()) {
                (value, risen) = (at, true);
                break;
            }
            t *= 0.5;
        }
        if !risen {
            return match slope <= ROUNDING * (1.0 + value.abs()) {
                true => Ok(x),
                false => Err(Error::numerical(
                    format!("a function does not rise along its gradient (step {step})"),
                    "check that it is smooth and its gradient right",
                )),
            };
        }
        let s: Vec<f64> = next.iter().zip(&x).map(|(a, b)| a - b).collect();
        let y: Vec<f64> = gradient.iter().zip(&next_gradient).map(|(a, b)| a - b).collect();
        std::mem::swap(&mut x, &mut next);
        std::mem::swap(&mut gradient, &mut next_gradient);
        update(&mut inverse, &s, &y, step == 0);
    }
    Err(Error::numerical(format!("no maximum was found in {MOST_STEPS} steps"), "start nearer to it"))
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|k| if k / n == k % n { 1.0 } else { 0.0 }).collect()
}

/// The update of H; left out where the function is not concave along s.
fn update(inverse: &mut [f64], s: &[f64], y: &[f64], first: bool) {
    let (n, sy) = (s.len(), dot(s, y));
    if sy <= 1e-14 * (dot(s, s) * dot(y, y)).sqrt() {
        return;
    }
    if first {
        // From here on H has the scale of the inverse curvature.
        let scale = sy / dot(y, y);
        inverse.iter_mut().for_each(|v| *v *= scale);
    }
    let hy: Vec<f64> = inverse.chunks(n).map(|row| dot(row, y)).collect();
    let factor = (1.0 + dot(y, &hy) / sy) / sy;
    for i in 0..n {
        for j in 0..n {
            inverse[i * n + j] += factor * s[i] * s[j] - (hy[i] * s[j] + s[i] * hy[j]) / sy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curved_valley_is_followed_to_its_end() {
        // Rosenbrock, turned over; from the usual start.
        let f = |x: &[f64], g: &mut [f64]| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            (g[0], g[1]) = (2.0 * a + 400.0 * x[0] * b, -200.0 * b);
            -a * a - 100.0 * b * b
        };
        let x = maximise(vec![-1.2, 1.0], f).unwrap();
        // f is flat to rounding within 1e-8 of its top, and 20 times as far along the valley.
        assert!((x[0] - 1.0).abs() < 1e-6 && (x[1] - 1.0).abs() < 1e-6, "{x:?}");
    }

    #[test]
    fn steps_into_nothing_are_cut_short() {
        // ln x − x has its maximum at 1 and is no number below 0.
        let f = |x: &[f64], g: &mut [f64]| {
            g[0] = 1.0 / x[0] - 1.0;
            x[0].ln() - x[0]
        };
        assert!((maximise(vec![20.0], f).unwrap()[0] - 1.0).abs() < 1e-7);
    }

    #[test]
    fn what_has_no_maximum_is_told() {
        let rising = |x: &[f64], g: &mut [f64]| {
            g[0] = 1.0 / (1.0 + x[0] * x[0]).sqrt();
            x[0].asinh()
        };
        assert!(maximise(vec![0.0], rising).is_err());
        assert!(maximise(vec![0.0], |_, _| f64::NAN).is_err());
        let wrong = |x: &[f64], g: &mut [f64]| {
            g[0] = 2.0 * x[0];
            -x[0] * x[0]
        };
        assert!(maximise(vec![1.0], wrong).unwrap_err().to_string().contains("gradient"));
    }
}
