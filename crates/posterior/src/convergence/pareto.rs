//! Pareto-k and smoothed importance weights (PSIS): do weights p/q have a mean and a variance that an average may rely on?
//!
//! Beyond a threshold weights follow a generalised Pareto law, F(x) = 1 − (1 + k x/σ)^(−1/k), with 1/k moments. k and σ are
//! the estimates of Zhang & Stephens (2009, Technometrics 51), k drawn a little towards ½; the tail of M = min(S/5, 3√S) weights is
//! replaced by the quantiles of that law, none above the largest raw weight.
//! Reference: Vehtari, Simpson, Gelman, Yao & Gabry (2024), JMLR 25(72). Cost: a sort, and M·(30 + √M) for the fit.

use crate::math::special::log_sum_exp;

/// Smallest tail that a law is fitted to, and one more.
const FEWEST: usize = 5;

/// Log weights whose spread is below this come from q = p: what is left is rounding.
const EQUAL: f64 = 1e-9;

/// Log weights of draws from q, and what they tell of q.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// ln(p/q) of each draw, p up to a constant.
    raw: Vec<f64>,
    /// Normalised, the tail smoothed.
    smooth: Vec<f64>,
    k: f64,
}

impl Weights {
    /// From log weights, which need not be normalised; those that are not a number or +∞ count as −∞: such a draw has no weight.
    pub fn new(log_weights: &[f64]) -> Weights {
        let none = |w: &f64| if w.is_nan() || *w == f64::INFINITY { f64::NEG_INFINITY } else { *w };
        let raw: Vec<f64> = log_weights.iter().map(none).collect();
        let (smooth, k) = smoothed(&raw);
        Weights { raw, smooth, k }
    }

    /// ln(p/q) as given.
    pub fn raw(&self) -> &[f64] {
        &self.raw
    }

    /// Logarithms of weights that sum to 1, the tail smoothed.
    pub fn smooth(&self) -> &[f64] {
        &self.smooth
    }

    /// The shape of the tail: below 0.7 averages can be trusted, from 1 on they mean nothing. −∞ where all weights are equal, +∞
    /// where there are too few to tell.
    pub fn k(&self) -> f64 {
        self.k
    }

    /// (Σw)²/Σw² of the smoothed weights: how many draws from p itself they are worth, where k is small.
    pub fn ess(&self) -> f64 {
        let squares: Vec<f64> = self.smooth.iter().map(|w| 2.0 * w).collect();
        (-log_sum_exp(&squares)).exp()
    }

    /// ln of the mean raw weight: for normalised q, an estimate of ln ∫p.
    pub fn log_mean(&self) -> f64 {
        log_sum_exp(&self.raw) - (self.raw.len() as f64).ln()
    }

    /// The standard error of [`Weights::log_mean`], by the delta method: √((S Σw²/(Σw)² − 1)/(S − 1)).
    pub fn log_mean_error(&self) -> f64 {
        let s = self.raw.len() as f64;
        let doubled: Vec<f64> = self.raw.iter().map(|w| 2.0 * w).collect();
        let ratio = (log_sum_exp(&doubled) - 2.0 * log_sum_exp(&self.raw)).exp();
        ((s * ratio - 1.0).max(0.0) / (s - 1.0)).sqrt()
    }

    /// The largest k at which averages over so many draws can be trusted: min(1 − 1/log₁₀ S, 0.7).
    pub fn bound(&self) -> f64 {
        (1.0 - 1.0 / (self.raw.len() as f64).log10()).min(0.7)
    }

    /// Whether averages over these weights can be trusted.
    pub fn is_reliable(&self) -> bool {
        self.k < self.bound()
    }

    /// What k means, in one sentence.
    pub fn verdict(&self) -> String {
        if self.k == f64::NEG_INFINITY {
            return "all weights are equal: the proposal is the posterior".to_owned();
        }
        if !self.k.is_finite() {
            let highest = self.raw.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let alive = self.raw.iter().filter(|w| **w - highest > f64::MIN_POSITIVE.ln()).count();
            return match self.raw.len() {
                all if alive < all => format!("{} of {all} weights are 0: these weights mean nothing", all - alive),
                all => format!("{all} draws are too few to judge their weights"),
            };
        }
        let k = format!("k = {:.2}", self.k);
        match self.k {
            v if v >= 1.0 => format!("{k}: these weights mean nothing"),
            v if v >= self.bound() => format!("{k}: these weights cannot be relied on"),
            v if v >= 0.5 => format!("{k}: these weights can be used, but a few of them carry much"),
            _ => format!("{k}: these weights can be relied on"),
        }
    }

    /// How often each draw stands among `count` resampled ones: systematic resampling by the smoothed weights, from one
    /// uniform number on [0, 1). Each draw's number is within 1 of count times its weight.
    pub fn resampled(&self, count: usize, uniform: f64) -> Vec<u32> {
        let mut counts = vec![0; self.smooth.len()];
        let (mut sum, mut taken) = (0.0, 0usize);
        for (n, w) in counts.iter_mut().zip(&self.smooth) {
            sum += w.exp();
            while taken < count && (taken as f64 + uniform) < sum * count as f64 {
                *n += 1;
                taken += 1;
            }
        }
        // Rounding may leave the sum just below 1: the largest takes what is left.
        let largest = (0..counts.len()).max_by(|a, b| self.smooth[*a].total_cmp(&self.smooth[*b]));
        if let Some(i) = largest {
            counts[i] += (count - taken) as u32;
        }
        counts
    }
}

/// Normalised log weights with a smoothed tail, and k.
fn smoothed(raw: &[f64]) -> (Vec<f64>, f64) {
    let highest = raw.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !highest.is_finite() {
        return (vec![-(raw.len() as f64).ln(); raw.len()], f64::INFINITY);
    }
    let mut x: Vec<f64> = raw.iter().map(|w| w - highest).collect();
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|a, b| x[*a].total_cmp(&x[*b]));
    let count = x.len() as f64;
    let wanted = (count / 5.0).min(3.0 * count.sqrt()).ceil() as usize;
    let mut k = f64::INFINITY;
    if x[order[0]] > -EQUAL {
        k = f64::NEG_INFINITY;
    } else if wanted < x.len() {
        let cutoff = x[order[x.len() - wanted - 1]].max(f64::MIN_POSITIVE.ln());
        // Weights equal to the cutoff belong to the body.
        let first = order.partition_point(|i| x[*i] <= cutoff);
        let tail = &order[first..];
        if tail.len() >= FEWEST {
            let base = cutoff.exp();
            let excess: Vec<f64> = tail.iter().map(|i| x[*i].exp() - base).collect();
            let law = GeneralisedPareto::fit(&excess);
            k = law.k;
            if k.is_finite() && law.sigma > 0.0 {
                for (j, i) in tail.iter().enumerate() {
                    let p = (j as f64 + 0.5) / tail.len() as f64;
                    x[*i] = (law.quantile(p) + base).ln().min(0.0);
                }
            }
        }
    }
    let total = log_sum_exp(&x);
    x.iter_mut().for_each(|w| *w -= total);
    (x, k)
}

/// F(x) = 1 − (1 + k x/σ)^(−1/k), x ≥ 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeneralisedPareto {
    /// Shape.
    pub k: f64,
    /// Scale.
    pub sigma: f64,
}

impl GeneralisedPareto {
    /// From positive numbers in ascending order: the posterior mean of b = −k/σ on a grid under the profile likelihood, and with it k and
    /// σ; k is then averaged with ½ at a weight of 10 observations.
    pub fn fit(sorted: &[f64]) -> GeneralisedPareto {
        let n = sorted.len();
        let points = 30 + (n as f64).sqrt() as usize;
        let quarter = sorted[((n as f64 / 4.0 + 0.5) as usize).max(1) - 1];
        let b_of = |j: usize| {
            let step = 1.0 - (points as f64 / (j as f64 + 0.5)).sqrt();
            step / (3.0 * quarter) + 1.0 / sorted[n - 1]
        };
        let k_of = |b: f64| sorted.iter().map(|x| (-b * x).ln_1p()).sum::<f64>() / n as f64;
        let grid: Vec<f64> = (0..points).map(b_of).collect();
        let profile = |b: f64| {
            let k = k_of(b);
            n as f64 * ((-(b / k)).ln() - k - 1.0)
        };
        let profiles: Vec<f64> = grid.iter().map(|b| profile(*b)).collect();
        let total = log_sum_exp(&profiles);
        let (mut b, mut sum) = (0.0, 0.0);
        for (point, profile) in grid.iter().zip(&profiles) {
            let weight = (profile - total).exp();
            if weight >= 10.0 * f64::EPSILON {
                b += weight * point;
                sum += weight;
            }
        }
        let b = b / sum;
        let k = k_of(b);
        GeneralisedPareto { k: (n as f64 * k + 5.0) / (n as f64 + 10.0), sigma: -k / b }
    }

    /// x with F(x) = p.
    pub fn quantile(&self, p: f64) -> f64 {
        let log = -(-p).ln_1p();
        self.sigma * if self.k.abs() < f64::EPSILON { log } else { (self.k * log).exp_m1() / self.k }
    }
}
