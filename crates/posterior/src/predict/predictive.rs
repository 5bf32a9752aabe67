//! The predictive distribution: a mixture with one component per draw, kept whole.

use super::quantile;
use super::uncertainty::{ClassUncertainty, RealUncertainty};
use crate::likelihood::{Likelihood, Outcome};
use rayon::prelude::*;
use std::sync::Arc;

/// y = mean + std · (standardised y), per target; empty where targets are not standardised.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetScale {
    /// Mean and standard deviation of every target.
    pub targets: Vec<(f64, f64)>,
}

impl TargetScale {
    /// Mean and standard deviation of a target.
    pub fn of(&self, target: usize) -> (f64, f64) {
        self.targets.get(target).copied().unwrap_or((0.0, 1.0))
    }
}

/// Network outputs of S draws at N rows, with the likelihood that makes distributions of them.
#[derive(Debug, Clone)]
pub struct Predictive {
    likelihood: Arc<dyn Likelihood>,
    /// draws × rows × outputs
    f: Vec<f32>,
    /// draws × noise parameters
    noise: Vec<f64>,
    draws: usize,
    rows: usize,
    scale: TargetScale,
}

/// Rows that one task works through at a time.
const ROWS: usize = 64;

impl Predictive {
    /// From the outputs of S draws (`draws × rows × outputs`) and the draws' noise parameters.
    ///
    /// # Panics
    /// If the lengths do not agree.
    pub fn new(
        likelihood: Arc<dyn Likelihood>,
        f: Vec<f32>,
        noise: Vec<f32>,
        draws: usize,
        rows: usize,
        scale: TargetScale,
    ) -> Predictive {
        assert_eq!(f.len(), draws * rows * likelihood.outputs(), "draws × rows × outputs");
        Predictive { likelihood, f, noise: noise.into_iter().map(f64::from).collect(), draws, rows, scale }
    }

    /// The mixture of several predictives of the same rows, of equal weight because they have as many draws.
    ///
    /// # Panics
    /// If there is none, or their numbers of rows or of draws differ.
    pub fn joined(parts: Vec<Predictive>) -> Predictive {
        let mut parts = parts.into_iter();
        let mut all = parts.next().expect("a mixture has a part");
        let (rows, draws) = (all.rows, all.draws);
        for part in parts {
            assert_eq!((part.rows, part.draws), (rows, draws), "parts have the same rows and as many draws");
            all.f.extend(part.f);
            all.noise.extend(part.noise);
            all.draws += draws;
        }
        all
    }

    /// With all outputs divided by a temperature: above 1 the classes of every draw become more alike. For class outcomes.
    pub fn tempered(mut self, temperature: f64) -> Predictive {
        let factor = (1.0 / temperature) as f32;
        self.f.iter_mut().for_each(|f| *f *= factor);
        self
    }

    /// N.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// S.
    pub fn draws(&self) -> usize {
        self.draws
    }

    /// The outputs of draw s at all rows, in standardised units.
    pub fn outputs(&self, s: usize) -> &[f32] {
        let n = self.rows * self.likelihood.outputs();
        &self.f[s * n..(s + 1) * n]
    }

    pub(super) fn noise_of(&self, s: usize) -> &[f64] {
        let n = self.noise.len() / self.draws;
        &self.noise[s * n..(s + 1) * n]
    }

    pub(super) fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    /// Mean and standard deviation that take a standardised target to the user's units.
    pub(super) fn target_scale(&self, target: usize) -> (f64, f64) {
        self.scale.of(target)
    }

    /// The outputs of draw s at row n, widened into `out`.
    pub(super) fn output(&self, s: usize, n: usize, out: &mut [f64]) {
        let k = out.len();
        let from = (s * self.rows + n) * k;
        for (o, f) in out.iter_mut().zip(&self.f[from..from + k]) {
            *o = f64::from(*f);
        }
    }

    /// The outputs of draw s at `n` rows from row `from` on.
    pub(super) fn outputs_of(&self, s: usize, from: usize, n: usize) -> &[f32] {
        let k = self.likelihood.outputs();
        &self.outputs(s)[from * k..(from + n) * k]
    }

    /// Fills `width` numbers per row in parallel; `fill` gets the number of its first row and its rows' numbers, all 0.
    pub(super) fn by_blocks(&self, width: usize, fill: impl Fn(usize, &mut [f64]) + Sync) -> Vec<f64> {
        let mut out = vec![0.0; self.rows * width];
        out.par_chunks_mut((ROWS * width).max(1)).enumerate().for_each(|(b, rows)| fill(b * ROWS, rows));
        out
    }

    /// [`Predictive::by_blocks`] row by row.
    pub(super) fn by_rows(&self, width: usize, fill: impl Fn(usize, &mut [f64]) + Sync) -> Vec<f64> {
        self.by_blocks(width, |from, rows| {
            for (i, row) in rows.chunks_mut(width).enumerate() {
                fill(from + i, row);
            }
        })
    }

    /// Mean and variance split in two, for real and count outcomes, in the user's units.
    pub fn real(&self) -> RealUncertainty {
        RealUncertainty::of(self, &self.scale)
    }

    /// Class probabilities and entropies, for class outcomes.
    pub fn classes(&self) -> ClassUncertainty {
        ClassUncertainty::of(self)
    }

    /// E[y | w_s] of the first target (the probability of the last class, for classes) under draw s at all rows, in the user's
    /// units: the draw as a function.
    pub fn draw_mean(&self, s: usize) -> Vec<f64> {
        let likelihood = self.likelihood();
        let (mean, std) = self.scale.of(0);
        self.by_rows(1, |n, out| {
            let mut f = vec![0.0; likelihood.outputs()];
            self.output(s, n, &mut f);
            if likelihood.outcome() == Outcome::Class {
                let mut p = vec![0.0; likelihood.classes()];
                likelihood.probabilities(&f, &mut p);
                out[0] = p[p.len() - 1];
            } else {
                let (mut m, mut v) = (vec![0.0; likelihood.targets()], vec![0.0; likelihood.targets()]);
                likelihood.moments(&f, self.noise_of(s), &mut m, &mut v);
                out[0] = mean + std * m[0];
            }
        })
    }

    /// Quantiles of the mixture, `rows × targets × levels`, in the user's units. For counts, the smallest count that
    /// reaches the level.
    pub fn quantiles(&self, levels: &[f64]) -> Vec<f64> {
        let targets = self.likelihood.targets();
        self.by_rows(targets * levels.len(), |n, row| {
            for (t, row) in row.chunks_mut(levels.len()).enumerate() {
                let (mean, std) = self.scale.of(t);
                quantile::of_mixture(self, n, t, levels, row);
                row.iter_mut().for_each(|q| *q = mean + std * *q);
            }
        })
    }

    /// P(y_target ≤ value) at row n under the mixture; `value` in the user's units.
    pub fn cdf(&self, n: usize, target: usize, value: f64) -> f64 {
        let (mean, std) = self.scale.of(target);
        quantile::mixture_cdf(self, n, target, (value - mean) / std)
    }

    /// Where yₙ lies in its predictive distribution, as (P(y < yₙ), P(y ≤ yₙ)): one number twice unless outcomes are counts. For
    /// real and count outcomes of one target; `y` in the user's units.
    pub fn pit(&self, y: &[f64]) -> Vec<(f64, f64)> {
        let (targets, count) = (self.likelihood.targets(), self.likelihood.outcome() == Outcome::Count);
        let both = self.by_rows(2, |n, out| {
            let y = y[n * targets];
            out[1] = self.cdf(n, 0, y);
            out[0] = if count { self.cdf(n, 0, y - 1.0) } else { out[1] };
        });
        both.chunks_exact(2).map(|p| (p[0], p[1])).collect()
    }

    /// log p(yₙ | xₙ, D) per row, by log-sum-exp over draws; `y` (`rows × targets`) in the user's units, and so is the density.
    pub fn log_likelihood(&self, y: &[f64]) -> Vec<f64> {
        let targets = self.likelihood.targets();
        let standardised = self.likelihood.outcome() == Outcome::Real;
        let jacobian: f64 = if standardised { (0..targets).map(|t| self.scale.of(t).1.ln()).sum() } else { 0.0 };
        self.by_rows(1, |n, out| {
            let mut yn = y[n * targets..(n + 1) * targets].to_vec();
            if standardised {
                for (t, v) in yn.iter_mut().enumerate() {
                    let (mean, std) = self.scale.of(t);
                    *v = (*v - mean) / std;
                }
            }
            let mut f = vec![0.0; self.likelihood.outputs()];
            let (mut largest, mut sum) = (f64::NEG_INFINITY, 0.0);
            for s in 0..self.draws {
                self.output(s, n, &mut f);
                let l = self.likelihood.log_prob_row(&f, &yn, self.noise_of(s));
                if l == f64::NEG_INFINITY {
                    continue; // nothing to add, and −∞ − (−∞) is no number
                }
                if l > largest {
                    sum = sum * (largest - l).exp() + 1.0;
                    largest = l;
                } else {
                    sum += (l - largest).exp();
                }
            }
            out[0] = largest + (sum / self.draws as f64).ln() - jacobian;
        })
    }
}
