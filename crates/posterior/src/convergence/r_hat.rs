//! R-hat: √((B/W + n − 1)/n), the variance of all draws over that within chains; 1 where chains agree.
//!
//! Chains are split, so that a trend shows, and ranked, so that no moment need exist; the larger of the plain and the folded
//! value counts, so that chains of another spread show too. Above 1.01 chains have not mixed.
//! Reference: Vehtari et al. (2021), Bayesian Analysis 16(2), equations 3.1–3.4 and 4.1. Cost: two sorts.

use super::trace::{Trace, mean, variance};

/// R-hat of a quantity; infinite where every chain stands still at a place of its own, NaN where all draws are equal, where
/// there are fewer than four, or where one is not finite. Of one chain its halves are compared.
pub fn r_hat(trace: &Trace) -> f64 {
    if !trace.is_usable() {
        return f64::NAN;
    }
    let split = trace.split();
    between_over_within(&split.rank_normalised()).max(between_over_within(&split.folded().rank_normalised()))
}

fn between_over_within(trace: &Trace) -> f64 {
    let n = trace.draws() as f64;
    let means: Vec<f64> = trace.by_chain().map(mean).collect();
    let variances: Vec<f64> = trace.by_chain().map(variance).collect();
    let (between, within) = (n * variance(&means), mean(&variances));
    // Means of equal numbers differ by rounding, so that variances of constant chains are not exactly 0.
    let rounding = 1e-25;
    if within < rounding {
        return if between < rounding { f64::NAN } else { f64::INFINITY };
    }
    ((between / within + n - 1.0) / n).sqrt()
}
