//! L-BFGS: towards the maximum of a smooth function of many variables, in a bounded number of steps.
//!
//! The direction is H g with H ≈ (−∇²f)⁻¹ of the last [`MEMORY`] pairs s = Δx, y = −Δg by two loops (Nocedal & Wright 2006, Numerical
//! Optimization, 7.2); the step is halved until f rises enough (Armijo). Cost: 4·MEMORY·n per step beside the function.

use crate::math::linalg::dot;
use std::collections::VecDeque;

/// Pairs that are remembered.
const MEMORY: usize = 20;
/// Halvings of a step after which f does not rise along it.
const HALVINGS: usize = 30;
/// The share of the rise promised by the slope that a step has to bring.
const ARMIJO: f64 = 1e-4;
/// A promised rise, relative to f, that is not worth a step.
const ROUNDING: f64 = 1e-15;

/// Climbs from `x` for at most `steps` steps, and stays where f no longer rises in its arithmetic. `f` writes its gradient to its second
/// argument; where it is not finite, no step goes. Returns the steps taken.
pub fn climb(x: &mut [f64], steps: usize, mut f: impl FnMut(&[f64], &mut [f64]) -> f64) -> usize {
    let n = x.len();
    let mut gradient = vec![0.0; n];
    let mut value = f(x, &mut gradient);
    if !value.is_finite() || gradient.iter().any(|g| !g.is_finite()) {
        return 0;
    }
    let (mut next, mut next_gradient) = (vec![0.0; n], vec![0.0; n]);
    let mut pairs: VecDeque<(Vec<f64>, Vec<f64>, f64)> = VecDeque::with_capacity(MEMORY);
    for step in 0..steps {
        let mut direction = along(&gradient, &pairs);
        let mut slope = dot(&direction, &gradient);
        if slope <= 0.0 || slope.is_nan() {
            pairs.clear();
            direction.copy_from_slice(&gradient);
            slope = dot(&gradient, &gradient);
        }
        if slope <= ROUNDING * (1.0 + value.abs()) {
            return step;
        }
        // The first direction has the gradient's length, which is in no unit of x.
        let mut t = if pairs.is_empty() { 1.0 / slope.sqrt().max(1.0) } else { 1.0 };
        let mut risen = false;
        for _ in 0..HALVINGS {
            (0..n).for_each(|i| next[i] = x[i] + t * direction[i]);
            let at = f(&next, &mut next_gradient);
            if at > value && at >= value + ARMIJO * t * slope && next_gradient.iter().all(|g| g.is_finite()) {
                (value, risen) = (at, true);
                break;
            }
            t *= 0.5;
        }
        if !risen {
            if pairs.is_empty() {
                return step;
            }
            // Old pairs may mislead: once more along the gradient itself.
            pairs.clear();
            continue;
        }
        let s: Vec<f64> = next.iter().zip(&*x).map(|(a, b)| a - b).collect();
        let y: Vec<f64> = gradient.iter().zip(&next_gradient).map(|(a, b)| a - b).collect();
        x.copy_from_slice(&next);
        std::mem::swap(&mut gradient, &mut next_gradient);
        let sy = dot(&s, &y);
        if sy > 1e-14 * (dot(&s, &s) * dot(&y, &y)).sqrt() {
            if pairs.len() == MEMORY {
                pairs.pop_front();
            }
            pairs.push_back((s, y, 1.0 / sy));
        }
    }
    steps
}

/// H g by two loops over the pairs.
fn along(gradient: &[f64], pairs: &VecDeque<(Vec<f64>, Vec<f64>, f64)>) -> Vec<f64> {
    let mut q = gradient.to_vec();
    let mut factors = Vec::with_capacity(pairs.len());
    for (s, y, rho) in pairs.iter().rev() {
        let a = rho * dot(s, &q);
        q.iter_mut().zip(y).for_each(|(q, y)| *q -= a * y);
        factors.push(a);
    }
    if let Some((_, y, rho)) = pairs.back() {
        let scale = 1.0 / (rho * dot(y, y));
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((s, y, rho), a) in pairs.iter().zip(factors.iter().rev()) {
        let b = a - rho * dot(y, &q);
        q.iter_mut().zip(s).for_each(|(q, s)| *q += b * s);
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_badly_scaled_quadratic_and_a_curved_valley() {
        // −½ Σ i²(xᵢ − i)², condition number 10⁴.
        let mut x = vec![0.0; 100];
        let steps = climb(&mut x, 500, |x, g| {
            let mut value = -1.0;
            for (i, (x, g)) in x.iter().zip(g).enumerate() {
                let (c, d) = (((i + 1) * (i + 1)) as f64, x - i as f64);
                (*g, value) = (-c * d, value - 0.5 * c * d * d);
            }
            value
        });
        // It stops where c·d² is some 1e-15 of f = −1.
        assert!(steps < 500 && x.iter().enumerate().all(|(i, x)| (x - i as f64).abs() < 1e-6), "{steps} {x:?}");
        let mut x = vec![-1.2, 1.0];
        climb(&mut x, 200, |x, g| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            (g[0], g[1]) = (2.0 * a + 400.0 * x[0] * b, -200.0 * b);
            -a * a - 100.0 * b * b
        });
        assert!((x[0] - 1.0).abs() < 1e-6 && (x[1] - 1.0).abs() < 1e-6, "{x:?}");
    }

    #[test]
    fn it_stops_where_it_is_told_and_where_nothing_is_finite() {
        let mut x = vec![0.0];
        let rising = |x: &[f64], g: &mut [f64]| {
            g[0] = 1.0;
            x[0]
        };
        assert_eq!(climb(&mut x, 3, rising), 3);
        assert_eq!(climb(&mut [1.0], 3, |_, _| f64::NAN), 0);
    }
}
