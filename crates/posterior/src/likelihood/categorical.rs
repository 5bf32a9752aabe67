//! K classes by softmax.
//!
//! log p(y|f) = f_y − ln Σₖ e^{fₖ}; d/df = 1[y] − p; −d²/df² = diag(p) − ppᵀ, positive semi-definite, its null direction
//! being a shift of all outputs. The largest output is subtracted before the exponential, so nothing overflows. Bishop,
//! PRML, §4.3.4. One exponential per number: about 1 ns per class in f32.

use super::special::log_sum_exp;
use super::{Likelihood, LikelihoodEntry, LikelihoodGradient, LikelihoodOps, Outcome};
use crate::error::{Error, Result};
use crate::math::Real;
use crate::rng::Stream;
use crate::settings::Settings;
use crate::simd_fn;
use std::sync::Arc;

/// The row of the table.
pub(super) const ENTRY: LikelihoodEntry = LikelihoodEntry {
    name: "categorical",
    summary: "any number of classes, by softmax",
    settings: &[],
    outcome: Outcome::Class,
    build: |settings, width| Ok(Arc::new(Categorical::new(settings, width)?)),
};

/// P(y = k) = e^{fₖ} / Σ e^{fⱼ}.
#[derive(Debug, Clone)]
pub struct Categorical {
    settings: Settings,
    classes: usize,
}

impl Categorical {
    /// For so many classes, at least 2.
    pub fn new(settings: &Settings, classes: usize) -> Result<Categorical> {
        if classes < 2 {
            let what = format!("the likelihood 'categorical' needs at least two classes, and there are {classes}");
            return Err(Error::setting(what, "choose a target with more than one value"));
        }
        Ok(Categorical { settings: settings.clone(), classes })
    }
}

/// Numbers that go through together: a block stays in the first-level cache over the three passes.
const BLOCK: usize = 1024;

/// The class in y, or `classes` if it is none of them.
#[inline(always)]
fn class<R: Real>(y: R, classes: usize) -> usize {
    let k = (y.f64() as usize).min(classes);
    if k as f64 == y.f64() { k } else { classes }
}

#[inline(always)]
fn largest<R: Real>(row: &[R]) -> R {
    row.iter().fold(row[0], |top, v| top.max(*v))
}

simd_fn! {
    /// Σ weight·log p and, into `d_f`, scale·weight·(1[y] − p).
    fn with_gradient<R>(k: usize, f: &[R], y: &[R], weights: Option<&[R]>, scale: f64, d_f: &mut [R]) -> f64 {
        let scale = R::of(scale);
        let mut total = 0.0;
        let rows = (BLOCK / k).max(1);
        let blocks = f.chunks(rows * k).zip(d_f.chunks_mut(rows * k)).zip(y.chunks(rows));
        for (b, ((f, d), y)) in blocks.enumerate() {
            // f − max, row by row; then one exponential pass over the whole block, whatever K is; then 1[y] − p.
            for (f, d) in f.chunks_exact(k).zip(d.chunks_exact_mut(k)) {
                let top = largest(f);
                for (d, f) in d.iter_mut().zip(f) {
                    *d = *f - top;
                }
            }
            // log p needs f_y − max, which the exponential overwrites: it is read from f again below.
            for d in d.iter_mut() {
                *d = d.exp::<F>();
            }
            for (n, ((f, d), y)) in f.chunks_exact(k).zip(d.chunks_exact_mut(k)).zip(y).enumerate() {
                let mut sum = R::ZERO;
                for d in d.iter() {
                    sum += *d;
                }
                let weight = weights.map_or(R::ONE, |w| w[b * rows + n]);
                let factor = weight * scale;
                let p = -(factor / sum);
                for d in d.iter_mut() {
                    *d *= p;
                }
                let class = class(*y, k);
                if class < k {
                    d[class] += factor;
                    // The largest exponential is 1, so 1 ≤ sum ≤ K.
                    let log = (f[class] - largest(f)).f64() - sum.ln_positive::<F>().f64();
                    total += weight.f64() * log;
                } else {
                    total = f64::NEG_INFINITY;
                }
            }
        }
        total
    }
}

simd_fn! {
    /// Σ weight·log p.
    fn without_gradient<R>(k: usize, f: &[R], y: &[R], weights: Option<&[R]>) -> f64 {
        const LANES: usize = 8;
        let mut total = 0.0;
        for (n, (f, y)) in f.chunks_exact(k).zip(y).enumerate() {
            let top = largest(f);
            let (chunks, rest) = f.as_chunks::<LANES>();
            let mut lanes = [R::ZERO; LANES];
            for chunk in chunks {
                for l in 0..LANES {
                    lanes[l] += (chunk[l] - top).exp::<F>();
                }
            }
            let mut sum = R::ZERO;
            for v in rest {
                sum += (*v - top).exp::<F>();
            }
            for v in lanes {
                sum += v;
            }
            let weight = weights.map_or(1.0, |w| w[n].f64());
            let class = class(*y, k);
            if class < k {
                total += weight * ((f[class] - top).f64() - sum.ln_positive::<F>().f64());
            } else {
                total = f64::NEG_INFINITY;
            }
        }
        total
    }
}

impl<R: Real> LikelihoodOps<R> for Categorical {
    fn log_prob(
        &self,
        f: &[R],
        y: &[R],
        _noise: &[R],
        weights: Option<&[R]>,
        scale: f64,
        gradient: Option<LikelihoodGradient<'_, R>>,
    ) -> f64 {
        let total = match gradient {
            Some(gradient) => with_gradient(self.classes, f, y, weights, scale, gradient.d_f),
            None => without_gradient(self.classes, f, y, weights),
        };
        scale * total
    }
}

impl Likelihood for Categorical {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
    fn settings(&self) -> &Settings {
        &self.settings
    }
    fn outcome(&self) -> Outcome {
        Outcome::Class
    }
    fn targets(&self) -> usize {
        1
    }
    fn outputs(&self) -> usize {
        self.classes
    }
    fn classes(&self) -> usize {
        self.classes
    }
    fn log_prob_row(&self, f: &[f64], y: &[f64], _noise: &[f64]) -> f64 {
        match class(y[0], self.classes) {
            k if k < self.classes => f[k] - log_sum_exp(f),
            _ => f64::NEG_INFINITY,
        }
    }
    fn hessian_row(&self, f: &[f64], _y: &[f64], _noise: &[f64], out: &mut [f64]) {
        let k = self.classes;
        let all = log_sum_exp(f);
        let p = |i: usize| (f[i] - all).exp();
        for i in 0..k {
            let mut others = 0.0;
            for j in (0..k).filter(|j| *j != i) {
                out[i * k + j] = -p(i) * p(j);
                others += p(j);
            }
            out[i * k + i] = p(i) * others; // p(1 − p), exact when p is nearly 1
        }
    }
    /// Of the class as a number.
    fn moments(&self, f: &[f64], _noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        let all = log_sum_exp(f);
        let p = || f.iter().enumerate().map(|(k, v)| (k as f64, (v - all).exp()));
        mean[0] = p().map(|(k, p)| k * p).sum();
        variance[0] = p().map(|(k, p)| (k - mean[0]).powi(2) * p).sum();
    }
    /// Of the class as a number.
    fn cdf(&self, _target: usize, value: f64, f: &[f64], _noise: &[f64]) -> f64 {
        let all = log_sum_exp(f);
        f.iter().enumerate().filter(|(k, _)| *k as f64 <= value).map(|(_, v)| (v - all).exp()).sum::<f64>().min(1.0)
    }
    fn probabilities(&self, f: &[f64], out: &mut [f64]) {
        let all = log_sum_exp(f);
        for (out, v) in out.iter_mut().zip(f) {
            *out = (v - all).exp();
        }
    }
    fn sample(&self, f: &[f64], _noise: &[f64], stream: &mut Stream, y: &mut [f64]) {
        let all = log_sum_exp(f);
        let mut left = stream.uniform();
        // If rounding leaves something over, it goes to the last class.
        let chosen = f.iter().position(|v| {
            left -= (v - all).exp();
            left < 0.0
        });
        y[0] = chosen.unwrap_or(self.classes - 1) as f64;
    }
}
