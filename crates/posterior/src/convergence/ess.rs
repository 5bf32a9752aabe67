//! Effective sample size: S/τ with τ = 1 + 2 Σ ρ_t, how many independent draws the autocorrelated ones are worth.
//!
//! ρ_t = 1 − (W − mean_c γ_c(t))/V, with γ_c(t) the autocovariance of chain c, W the variance within chains and V that of all,
//! so that chains that disagree count for little. The sum ends where pairs ρ_{2t} + ρ_{2t+1} turn negative, and
//! is made to fall monotonically (Geyer 1992, Statistical Science 7). ESS of the bulk is that of the rank-normalised draws;
//! of the tail, the smaller of those of the indicators of the 5 % and 95 % quantiles. At most S·log₁₀S.
//! Reference: Vehtari et al. (2021), Bayesian Analysis 16(2), section 3.2. Cost: S for each lag up to where the sum ends.

use super::trace::{Trace, mean, quantiles, variance};
use crate::math::elementwise::dot;

/// Draws nearer to each other than this are all the same.
const RESOLUTION: f64 = 1e-15;

/// For the location of the whole distribution.
pub fn ess_bulk(trace: &Trace) -> f64 {
    usable(trace, || ess(&trace.split().rank_normalised()))
}

/// For the 5 % and 95 % quantiles.
pub fn ess_tail(trace: &Trace) -> f64 {
    ess_quantile(trace, 0.05).min(ess_quantile(trace, 0.95))
}

/// For the mean.
pub fn ess_mean(trace: &Trace) -> f64 {
    usable(trace, || ess(&trace.split()))
}

/// For the standard deviation.
pub fn ess_std(trace: &Trace) -> f64 {
    let centre = trace.mean();
    usable(trace, || ess(&trace.map(|v| (v - centre).powi(2)).split()))
}

/// For the quantile of a level.
pub fn ess_quantile(trace: &Trace, level: f64) -> f64 {
    usable(trace, || ess(&trace.at_most(quantiles(&trace.sorted(), &[level])[0]).split()))
}

fn usable(trace: &Trace, ess: impl FnOnce() -> f64) -> f64 {
    if trace.is_usable() { ess() } else { f64::NAN }
}

/// Of chains as they are, without splitting or ranking.
pub fn ess(trace: &Trace) -> f64 {
    let all = trace.values().len() as f64;
    let (low, high) = trace.values().iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
    if high - low < RESOLUTION {
        return all;
    }
    let correlations = Correlations::new(trace);
    let tau = autocorrelation_time(trace.draws(), |t| correlations.at(t));
    all / tau.max(1.0 / all.log10())
}

/// ρ_t, one lag at a time: few are needed where chains mix well.
struct Correlations {
    centred: Vec<f64>,
    draws: usize,
    chains: usize,
    within: f64,
    all: f64,
}

impl Correlations {
    fn new(trace: &Trace) -> Correlations {
        let (draws, chains) = (trace.draws(), trace.chains());
        let means: Vec<f64> = trace.by_chain().map(mean).collect();
        let centred: Vec<f64> = trace.by_chain().zip(&means).flat_map(|(c, m)| c.iter().map(move |v| v - m)).collect();
        let mut new = Correlations { centred, draws, chains, within: 0.0, all: 0.0 };
        let n = draws as f64;
        let variance_0 = new.covariance(0);
        new.within = variance_0 * n / (n - 1.0);
        new.all = variance_0 + if chains > 1 { variance(&means) } else { 0.0 };
        new
    }

    /// The mean over chains of γ_c(t).
    fn covariance(&self, t: usize) -> f64 {
        let of = |c: &[f64]| dot(&c[..c.len() - t], &c[t..]) / self.draws as f64;
        self.centred.chunks(self.draws).map(of).sum::<f64>() / self.chains as f64
    }

    fn at(&self, t: usize) -> f64 {
        1.0 - (self.within - self.covariance(t)) / self.all
    }
}

/// τ by Geyer's initial monotone sequence, from correlations of lags below `draws`.
fn autocorrelation_time(draws: usize, correlation: impl Fn(usize) -> f64) -> f64 {
    // Pairs (ρ_{2k}, ρ_{2k+1}); the first begins with ρ_0 = 1.
    let mut pairs = vec![(1.0, correlation(1))];
    let mut ended_by: Option<f64> = None;
    // The last lags hold too few products to be used.
    while 2 * pairs.len() + 2 < draws {
        let (even, odd) = pairs[pairs.len() - 1];
        if even + odd <= 0.0 || f64::is_nan(even + odd) {
            break;
        }
        let t = 2 * pairs.len();
        let next = (correlation(t), correlation(t + 1));
        if next.0 + next.1 < 0.0 {
            ended_by = Some(next.0);
            break;
        }
        pairs.push(next);
    }
    // One more term follows the sum of pairs: the first of the pair that ended it, if it is positive, or of the last there was.
    let tail = match ended_by {
        Some(even) => even.max(0.0),
        None => pairs.pop().map_or(0.0, |(even, _)| even),
    };
    let mut sum = 0.0;
    let mut bound = f64::INFINITY;
    for (even, odd) in pairs {
        bound = bound.min(even + odd);
        sum += bound;
    }
    -1.0 + 2.0 * sum + tail
}
