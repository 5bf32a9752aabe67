//! Quantiles of the mixture Σₛ p(y | fₛ)/S itself, not of a Gaussian fitted to it.
//!
//! F(y) = (1/S) Σₛ Fₛ(y) is continuous and rising for real outcomes: F(y) = p is solved by bracketed false position
//! (Illinois), some ten evaluations of F, S distribution functions each. For counts the smallest y with F(y) ≥ p is found by bisection.

use super::Predictive;
use crate::likelihood::Outcome;

/// Solved to this part of the mixture's spread.
const TOLERANCE: f64 = 1e-9;

/// F(y) of target t at row n, in standardised units.
pub(super) fn mixture_cdf(p: &Predictive, n: usize, t: usize, y: f64) -> f64 {
    let mut f = vec![0.0; p.likelihood().outputs()];
    cdf(p, n, t, y, &mut f)
}

pub(super) fn cdf(p: &Predictive, n: usize, t: usize, y: f64, f: &mut [f64]) -> f64 {
    let sum: f64 = (0..p.draws())
        .map(|s| {
            p.output(s, n, f);
            p.likelihood().cdf(t, y, f, p.noise_of(s))
        })
        .sum();
    sum / p.draws() as f64
}

/// The quantiles of target t at row n at every level, in standardised units.
pub(super) fn of_mixture(p: &Predictive, n: usize, t: usize, levels: &[f64], out: &mut [f64]) {
    let targets = p.likelihood().targets();
    let mut f = vec![0.0; p.likelihood().outputs()];
    let (mut mean, mut variance) = (vec![0.0; targets], vec![0.0; targets]);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for s in 0..p.draws() {
        p.output(s, n, &mut f);
        p.likelihood().moments(&f, p.noise_of(s), &mut mean, &mut variance);
        let spread = variance[t].sqrt().max(1e-12);
        low = low.min(mean[t] - 4.0 * spread);
        high = high.max(mean[t] + 4.0 * spread);
    }
    if !(low.is_finite() && high.is_finite()) {
        out.fill(f64::NAN);
        return;
    }
    for (q, &level) in out.iter_mut().zip(levels) {
        let mut f_minus_p = |y: f64| cdf(p, n, t, y, &mut f) - level;
        *q = if p.likelihood().outcome() == Outcome::Count {
            smallest_count(&mut f_minus_p, high.max(1.0))
        } else {
            root(&mut f_minus_p, low, high)
        };
    }
}

fn smallest_count(g: &mut dyn FnMut(f64) -> f64, guess: f64) -> f64 {
    if g(0.0) >= 0.0 {
        return 0.0;
    }
    let (mut below, mut reached) = (0.0, guess.ceil());
    while g(reached) < 0.0 && reached < 1e15 {
        (below, reached) = (reached, 2.0 * reached);
    }
    while reached - below > 1.0 {
        let middle = (0.5 * (below + reached)).floor();
        if g(middle) >= 0.0 { reached = middle } else { below = middle }
    }
    reached
}

/// The root of a rising function; the bracket is widened until it holds it.
fn root(g: &mut dyn FnMut(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let width = high - low;
    let (mut g_low, mut g_high) = (g(low), g(high));
    let mut step = width;
    while g_low > 0.0 && step < 1e9 * width {
        low -= step;
        g_low = g(low);
        step *= 2.0;
    }
    let mut step = width;
    while g_high < 0.0 && step < 1e9 * width {
        high += step;
        g_high = g(high);
        step *= 2.0;
    }
    let tolerance = TOLERANCE * width;
    for i in 0..200 {
        if high - low <= tolerance {
            break;
        }
        // False position, with a bisection now and then so that the bracket surely shrinks.
        let mut middle = (low * g_high - high * g_low) / (g_high - g_low);
        if i % 4 == 3 || !(middle > low && middle < high) {
            middle = 0.5 * (low + high);
        }
        let g_middle = g(middle);
        if g_middle.abs() < 1e-14 {
            return middle;
        }
        if g_middle < 0.0 {
            (low, g_low) = (middle, g_middle);
            g_high *= 0.5; // Illinois: pull the next guess towards the end that stays
        } else {
            (high, g_high) = (middle, g_middle);
            g_low *= 0.5;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_found_from_good_and_bad_brackets() {
        for (low, high) in [(-4.0, 4.0), (3.0, 5.0), (-9.0, -8.0)] {
            let mut calls = 0;
            let mut g = |y: f64| {
                calls += 1;
                y.tanh() - 0.3
            };
            let y = root(&mut g, low, high);
            assert!((y - 0.3f64.atanh()).abs() < 1e-8, "{y}");
            assert!(calls < 60, "{calls}");
        }
    }
}
