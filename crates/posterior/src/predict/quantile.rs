//! Quantiles of the mixture Σₛ p(y | fₛ)/S itself, not of a Gaussian fitted to it.
//!
//! Where every draw has the same distribution around its own location and scale ([`Likelihood::standard`](crate::likelihood::Likelihood::standard)) the
//! components of a block of rows are gathered once and solved in `mixture.rs`. Other real outcomes go through F(y) = (1/S) Σₛ Fₛ(y) by bracketed false position
//! (Illinois), some ten evaluations of S distribution functions each. For counts the smallest y with F(y) ≥ p is found by halving between the bounds that Cantelli's
//! inequality gives, mean − σ √((1 − p)/p) and mean + σ √(p/(1 − p)) of the outermost draws: at most 64 evaluations, since past 2⁵³ the order of the
//! floating-point numbers is halved.

use super::Predictive;
use super::mixture::{Components, Level};
use crate::likelihood::Outcome;
use crate::math::special::{Scratch, Standard};

/// Solved to this part of the mixture's spread.
const TOLERANCE: f64 = 1e-9;
/// Counts beyond this are told as infinite: rates stop there.
pub(super) const LARGEST_COUNT: f64 = 1e300;

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

/// [`cdf`] of counts, smooth between whole numbers.
pub(super) fn smooth_cdf(p: &Predictive, n: usize, t: usize, y: f64, f: &mut [f64]) -> f64 {
    let sum: f64 = (0..p.draws())
        .map(|s| {
            p.output(s, n, f);
            p.sum_weight(s) * p.likelihood().smooth_cdf(t, y, f, p.noise_of(s))
        })
        .sum();
    sum / p.weight_sum()
}

/// The locations and scales of target t under every draw, at `rows` rows from row `from` on.
pub(super) fn components(p: &Predictive, standard: &Standard, from: usize, rows: usize, t: usize) -> Components {
    let targets = p.likelihood().targets();
    let weights: Vec<f64> = (0..p.draws()).map(|s| p.sum_weight(s)).collect();
    let mut all = Components::new(rows, weights.into_iter());
    let (mut mean, mut variance) = (vec![0.0; rows * targets], vec![0.0; rows * targets]);
    let unit = 1.0 / standard.variance();
    for s in 0..p.draws() {
        p.likelihood().moments_rows(p.outputs_of(s, from, rows), p.noise_of(s), &mut mean, &mut variance);
        for row in 0..rows {
            let at = row * targets + t;
            all.set(row, s, mean[at], (unit * variance[at]).sqrt());
        }
    }
    all
}

/// The quantiles of target t at row n at every level, in standardised units. Not a number where a draw's location or scale is not one or is beyond 1e100;
/// infinite for counts beyond [`LARGEST_COUNT`].
pub(super) fn of_mixture(p: &Predictive, n: usize, t: usize, levels: &[f64], out: &mut [f64]) {
    of_rows(p, n, t, levels, 0, out.len(), out);
}

/// [`of_mixture`] of several rows from row `from` on: those of a row stand at `offset` in every `stride` numbers of `out`.
pub(super) fn of_rows(
    p: &Predictive,
    from: usize,
    t: usize,
    levels: &[f64],
    offset: usize,
    stride: usize,
    out: &mut [f64],
) {
    let rows = out.chunks_mut(stride.max(1)).map(|row| &mut row[offset..offset + levels.len()]);
    if let Some(marginals) = p.marginals() {
        rows.enumerate().for_each(|(i, row)| marginals.quantiles(from + i, t, levels, row));
        return;
    }
    let Some(standard) = p.likelihood().standard() else {
        rows.enumerate().for_each(|(i, row)| of_row(p, from + i, t, levels, row));
        return;
    };
    let all = components(p, standard, from, rows.len(), t);
    let levels: Vec<Level> = levels.iter().map(|l| Level::new(standard, *l)).collect();
    let mut scratch = Scratch::default();
    for (i, row) in rows.enumerate() {
        match all.row(i) {
            Some(parts) => {
                row.iter_mut().zip(&levels).for_each(|(q, level)| *q = level.quantile(standard, parts, &mut scratch).0)
            }
            None => row.fill(f64::NAN),
        }
    }
}

/// Through the distribution function alone.
fn of_row(p: &Predictive, n: usize, t: usize, levels: &[f64], out: &mut [f64]) {
    let targets = p.likelihood().targets();
    let mut f = vec![0.0; p.likelihood().outputs()];
    let (mut mean, mut variance) = (vec![0.0; targets], vec![0.0; targets]);
    let mut each = Vec::with_capacity(p.draws());
    for s in (0..p.draws()).filter(|s| p.sum_weight(*s) > 0.0) {
        p.output(s, n, &mut f);
        p.likelihood().moments(&f, p.noise_of(s), &mut mean, &mut variance);
        each.push((mean[t], variance[t].sqrt()));
    }
    if each.iter().any(|(m, s)| !(m.is_finite() && s.is_finite())) {
        out.fill(f64::NAN);
        return;
    }
    // The lowest and the highest of mean + z·std, with z of either side.
    let ends = |below: f64, above: f64| {
        let low = each.iter().map(|(m, s)| m - below * s).fold(f64::INFINITY, f64::min);
        (low, each.iter().map(|(m, s)| m + above * s).fold(f64::NEG_INFINITY, f64::max))
    };
    for (q, &level) in out.iter_mut().zip(levels) {
        let mut f_minus_p = |y: f64| cdf(p, n, t, y, &mut f) - level;
        *q = if p.likelihood().outcome() != Outcome::Count {
            let (low, high) = ends(4.0, 4.0);
            root(&mut f_minus_p, low, high)
        } else if level > 0.0 && level < 1.0 {
            let (low, high) = ends(((1.0 - level) / level).sqrt(), (level / (1.0 - level)).sqrt());
            smallest_count(&mut f_minus_p, low, high)
        } else if level == 0.0 {
            0.0
        } else if level == 1.0 {
            f64::INFINITY
        } else {
            f64::NAN
        };
    }
}

/// Counts in order: whole numbers, and past 2⁵³ all numbers there are.
const WHOLE: u64 = 1 << 53;

fn count_at(index: u64) -> f64 {
    if index <= WHOLE { index as f64 } else { f64::from_bits((WHOLE as f64).to_bits() + (index - WHOLE)) }
}

/// Of the smallest count that is not below y.
fn index_of(y: f64) -> u64 {
    let y = y.clamp(0.0, 2.0 * LARGEST_COUNT).ceil();
    if y <= WHOLE as f64 { y as u64 } else { WHOLE + (y.to_bits() - (WHOLE as f64).to_bits()) }
}

/// The smallest count with g ≥ 0, which lies between low and high.
fn smallest_count(g: &mut dyn FnMut(f64) -> f64, low: f64, high: f64) -> f64 {
    // One less and one more than the bounds, for their rounding.
    let (mut first, mut reached) = (index_of(low).saturating_sub(1), index_of(high) + 1);
    while first < reached {
        let middle = first + (reached - first) / 2;
        if g(count_at(middle)) >= 0.0 { reached = middle } else { first = middle + 1 }
    }
    let count = count_at(reached);
    if count > LARGEST_COUNT { f64::INFINITY } else { count }
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

    /// Against counting up; and 64 evaluations at most, whatever the bounds.
    #[test]
    fn counts_are_found_in_few_steps() {
        for wanted in [0.0, 1.0, 7.0, 1e6, WHOLE as f64, 1e20, 1e299] {
            for (low, high) in [(wanted, wanted), (0.0, wanted), (wanted, 1e308), (-5.0, f64::MAX)] {
                let mut calls = 0;
                let mut g = |k: f64| {
                    calls += 1;
                    if k >= wanted { 0.1 } else { -0.1 }
                };
                assert_eq!(smallest_count(&mut g, low, high), wanted);
                assert!(calls <= 64, "{calls}");
            }
        }
        assert_eq!(smallest_count(&mut |_| -0.1, 0.0, 1e308), f64::INFINITY);
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
