//! Quantiles of the mixture Σₛ p(y | fₛ)/S itself, not of a Gaussian fitted to it.
//!
//! F(y) = (1/S) Σₛ Fₛ(y) is continuous and rising for real outcomes: F(y) = p is solved by bracketed false position
//! (Illinois), some ten evaluations of F, S distribution functions each. A mixture of normals has a density too, and its quantile lies
//! between the lowest and the highest of its components': Newton's steps within this bracket need some four. For counts the smallest y with F(y) ≥ p is found by bisection.

use super::Predictive;
use crate::likelihood::Outcome;
use crate::math::special::{NormalTable, normal_quantile};

/// Solved to this part of the mixture's spread.
const TOLERANCE: f64 = 1e-9;

/// F(y) of target t at row n, in standardised units.
pub(super) fn mixture_cdf(p: &Predictive, n: usize, t: usize, y: f64) -> f64 {
    let mut f = vec![0.0; p.likelihood().outputs()];
    cdf(p, n, t, y, &mut f)
}

pub(super) fn cdf(p: &Predictive, n: usize, t: usize, y: f64, f: &mut [f64]) -> f64 {
    if let Some(marginals) = p.marginals() {
        return marginals.cdf(n, t, y);
    }
    let sum: f64 = (0..p.draws())
        .map(|s| {
            p.output(s, n, f);
            p.sum_weight(s) * p.likelihood().cdf(t, y, f, p.noise_of(s))
        })
        .sum();
    sum / p.weight_sum()
}

/// The quantiles of target t at row n at every level, in standardised units.
pub(super) fn of_mixture(p: &Predictive, n: usize, t: usize, levels: &[f64], out: &mut [f64]) {
    if let Some(marginals) = p.marginals() {
        return marginals.quantiles(n, t, levels, out);
    }
    let targets = p.likelihood().targets();
    let mut f = vec![0.0; p.likelihood().outputs()];
    let (mut mean, mut variance) = (vec![0.0; targets], vec![0.0; targets]);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    // The table of Φ has an absolute accuracy: far in the tails the functions themselves are asked.
    let normal = p.likelihood().is_normal() && levels.iter().all(|l| (1e-6..=1.0 - 1e-6).contains(l));
    let mut normals = Vec::with_capacity(if normal { p.draws() } else { 0 });
    for s in 0..p.draws() {
        p.output(s, n, &mut f);
        p.likelihood().moments(&f, p.noise_of(s), &mut mean, &mut variance);
        let spread = variance[t].sqrt().max(1e-12);
        if normal {
            normals.push((mean[t], spread));
        }
        low = low.min(mean[t] - 4.0 * spread);
        high = high.max(mean[t] + 4.0 * spread);
    }
    if !(low.is_finite() && high.is_finite()) {
        out.fill(f64::NAN);
        return;
    }
    if normal {
        let table = NormalTable::new();
        out.iter_mut().zip(levels).for_each(|(q, level)| *q = of_normals(&normals, *level, table));
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

/// The quantile of a mixture of normals, given as means and standard deviations.
fn of_normals(normals: &[(f64, f64)], level: f64, table: NormalTable) -> f64 {
    let z = normal_quantile(level);
    let own = |(mean, std): &(f64, f64)| mean + z * std;
    let (mut low, mut high) =
        normals.iter().map(own).fold((f64::INFINITY, f64::NEG_INFINITY), |e, q| (e.0.min(q), e.1.max(q)));
    let tolerance = TOLERANCE * normals.iter().map(|n| n.1).fold(high - low, f64::max);
    let mut y = normals.iter().map(own).sum::<f64>() / normals.len() as f64;
    for _ in 0..200 {
        let (mut cdf, mut density) = (0.0, 0.0);
        for (mean, std) in normals {
            let inverse = 1.0 / std;
            let (p, d) = table.cdf((y - mean) * inverse);
            cdf += p;
            density += d * inverse;
        }
        let gap = cdf - level * normals.len() as f64;
        if gap.abs() < 1e-13 {
            return y; // also in the middle between two peaks, where there is no density to go by
        }
        if gap < 0.0 {
            low = y
        } else {
            high = y
        }
        let newton = y - gap / density;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - y).abs() <= tolerance || high - low <= tolerance {
            return next;
        }
        y = next;
    }
    y
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

    /// Against the general solver on the exact distribution function; both are solved to 1e-9 of the spread, and the table's error of 1.3e-10
    /// is divided by a density of at least 0.01 of the spread.
    #[test]
    fn normals_by_newton_and_by_false_position() {
        use crate::math::special::normal_cdf;
        for normals in [
            vec![(0.0, 1.0)],
            vec![(0.0, 1.0), (0.1, 1.1), (-0.2, 0.9)],
            vec![(-50.0, 0.1), (50.0, 0.1)],
            vec![(0.0, 1e-3), (0.0, 100.0), (3.0, 5.0)],
            vec![(1e6, 1.0), (1e6 + 2.0, 0.5)],
        ] {
            for level in [1e-5, 0.025, 0.3, 0.5, 0.51, 0.95, 1.0 - 1e-6] {
                let q = of_normals(&normals, level, NormalTable::new());
                let cdf =
                    |y: f64| normals.iter().map(|(m, s)| normal_cdf((y - m) / s)).sum::<f64>() / normals.len() as f64;
                assert!((cdf(q) - level).abs() < 1e-8, "{normals:?} at {level}: {q} has {}", cdf(q));
            }
        }
    }

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
