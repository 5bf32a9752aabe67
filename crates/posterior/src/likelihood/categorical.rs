//! K classes by softmax.
//!
//! log p(y|f) = f_y − ln Σₖ e^{fₖ}; d/df = 1{y} − p; −d²/df² = diag(p) − ppᵀ, positive semi-definite, its null direction
//! being a shift of all outputs. The largest output is subtracted before the exponential, so nothing overflows. Bishop,
//! PRML, §4.3.4. One exponential per number: about 2 ns per class in f32 on AVX2.

use super::{Likelihood, LikelihoodEntry, LikelihoodGradient, LikelihoodOps, Outcome};
use crate::error::{Error, Result};
use crate::math::Real;
use crate::math::special::log_sum_exp;
use crate::rng::Stream;
use crate::settings::{NamedOptions, Options, Settings};
use crate::simd_fn;
use std::sync::Arc;

crate::options! {
    /// Any number of classes, by softmax.
    pub struct CategoricalOptions: "categorical" {}
}

/// The row of the table.
pub(super) const ENTRY: LikelihoodEntry = LikelihoodEntry {
    name: CategoricalOptions::NAME,
    summary: "any number of classes, by softmax",
    settings: CategoricalOptions::SETTINGS,
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

/// Numbers and rows that go through together: a block stays in the first-level cache over its passes.
const BLOCK: usize = 1024;
const ROWS: usize = 128;

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
    /// Σ weight·log p and, into `d_f`, scale·weight·(1{y} − p).
    fn softmax<R>(k: usize, f: &[R], y: &[R], weights: Option<&[R]>, scale: f64, d_f: Option<&mut [R]>) -> f64 {
        // Ten classes are common enough to have the loops over a row unrolled.
        if k == 10 {
            blocks::<R, F>(10, f, y, weights, scale, d_f)
        } else {
            blocks::<R, F>(k, f, y, weights, scale, d_f)
        }
    }
}

/// Rows are short, so the dear steps run over a whole block at once: the exponentials over all its numbers, the
/// logarithms over all its rows.
#[inline(always)]
fn blocks<R: Real, const F: bool>(
    k: usize,
    f: &[R],
    y: &[R],
    weights: Option<&[R]>,
    scale: f64,
    mut d_f: Option<&mut [R]>,
) -> f64 {
    let scale = R::of(scale);
    let rows = (BLOCK / k).clamp(1, ROWS);
    let mut scratch = [R::ZERO; BLOCK];
    let mut classes = [0_usize; ROWS];
    let (mut chosen, mut sums, mut weight) = ([R::ZERO; ROWS], [R::ONE; ROWS], [R::ONE; ROWS]);
    let mut total = 0.0;
    for (b, (f, y)) in f.chunks(rows * k).zip(y.chunks(rows)).enumerate() {
        let first = b * rows;
        let wants_gradient = d_f.is_some();
        let d = match d_f.as_deref_mut() {
            Some(d) => &mut d[first * k..first * k + f.len()],
            None if f.len() <= BLOCK => &mut scratch[..f.len()],
            None => {
                // One row, longer than the scratch space.
                let w = weights.map_or(1.0, |w| w[first].f64());
                total += w * long_row::<R, F>(f, y[0], &mut scratch);
                continue;
            }
        };
        if let Some(w) = weights {
            weight[..y.len()].copy_from_slice(&w[first..first + y.len()]);
        }
        for (n, (f, d)) in f.chunks_exact(k).zip(d.chunks_exact_mut(k)).enumerate() {
            let top = largest(f);
            for i in 0..k {
                d[i] = f[i] - top;
            }
            classes[n] = class(y[n], k);
            chosen[n] = if classes[n] < k { d[classes[n]] } else { R::of(f64::NEG_INFINITY) };
        }
        for d in d.iter_mut() {
            *d = d.exp::<F>();
        }
        for (n, d) in d.chunks_exact(k).enumerate() {
            let mut sum = R::ZERO;
            for i in 0..k {
                sum += d[i];
            }
            sums[n] = sum;
        }
        // The largest exponential is 1, so 1 ≤ sum ≤ K.
        for n in 0..y.len() {
            chosen[n] -= sums[n].ln_positive::<F>();
        }
        for n in 0..y.len() {
            total += weight[n].f64() * chosen[n].f64();
        }
        if wants_gradient {
            for (n, d) in d.chunks_exact_mut(k).enumerate() {
                let factor = weight[n] * scale;
                let p = -(factor / sums[n]);
                for i in 0..k {
                    d[i] *= p;
                }
                if classes[n] < k {
                    d[classes[n]] += factor;
                }
            }
        }
    }
    total
}

#[inline(always)]
fn long_row<R: Real, const F: bool>(f: &[R], y: R, scratch: &mut [R; BLOCK]) -> f64 {
    let class = class(y, f.len());
    if class == f.len() {
        return f64::NEG_INFINITY;
    }
    let top = largest(f);
    let mut sum = 0.0;
    for f in f.chunks(BLOCK) {
        for (e, f) in scratch.iter_mut().zip(f) {
            *e = (*f - top).exp::<F>();
        }
        sum += scratch[..f.len()].iter().map(|e| e.f64()).sum::<f64>();
    }
    (f[class] - top).f64() - Real::ln::<F>(sum)
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
        let (d_f, _) = super::split(gradient);
        scale * softmax(self.classes, f, y, weights, scale, d_f)
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
        (0..k).for_each(|i| out[i * k + i] = (f[i] - all).exp());
        for i in 0..k {
            let p = out[i * k + i];
            for j in 0..i {
                let product = -p * out[j * k + j];
                (out[i * k + j], out[j * k + i]) = (product, product);
            }
        }
        for i in 0..k {
            // p(1 − p) as the sum of p times the others: exact when p is nearly 1.
            out[i * k + i] = 0.0;
            out[i * k + i] = -out[i * k..(i + 1) * k].iter().sum::<f64>();
        }
    }
    fn hessian_parts(&self, f: &[f64], diagonal: &mut [f64], vector: &mut [f64]) -> bool {
        self.probabilities(f, diagonal);
        vector.copy_from_slice(diagonal);
        true
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
