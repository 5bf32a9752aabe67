//! What a fit climbs: log p(y | θ) + log p(θ) over the free parameters, from several starts.
//!
//! Type-II maximum a posteriori with weak priors, by L-BFGS. Each start climbs [`SHORT`] steps and the best is continued until it rises by less than [`RISE`] nats in
//! [`PATIENCE`] evaluations. Cost: an evaluation is one value with its gradient.

use super::kernel::Kernel;
use crate::optim;
use crate::rng::{Key, Stream};

/// Steps of every start.
const SHORT: usize = 20;
/// A rise that is not worth going on for, in nats over [`PATIENCE`] evaluations.
const RISE: f64 = 1e-3;
/// Evaluations that a rise is looked for in.
const PATIENCE: usize = 10;
/// No parameter goes further than this from its start, in logarithms: beyond, a kernel has reached its limit.
const FARTHEST: f64 = 18.0;

/// A value with its gradient in all parameters; nothing where it cannot be worked out.
pub(super) type Evidence<'e> = dyn FnMut(&[f64], &mut [f64]) -> Option<f64> + 'e;

/// Parameters of a model: those of the kernel, then ln σ².
#[derive(Debug, Clone)]
pub(super) struct Search {
    pub start: Vec<f64>,
    pub free: Vec<usize>,
    prior: Vec<(f64, f64)>,
    wanders: Vec<bool>,
}

impl Search {
    /// `noise` is ln σ² where it starts or is held, with its prior where it is learned.
    pub(super) fn new(kernel: &Kernel, noise: f64, noise_prior: Option<(f64, f64)>) -> Search {
        let mut start = kernel.start();
        start.push(noise);
        let mut prior: Vec<(f64, f64)> = kernel.parameters().iter().map(|p| p.prior).collect();
        prior.push(noise_prior.unwrap_or((noise, 1.0)));
        let mut free: Vec<usize> = (0..start.len() - 1).filter(|i| !kernel.parameters()[*i].fixed).collect();
        free.extend(noise_prior.map(|_| start.len() - 1));
        let mut wanders: Vec<bool> = kernel.parameters().iter().map(|p| p.wanders).collect();
        wanders.push(false);
        Search { start, free, prior, wanders }
    }

    /// All parameters from the free ones.
    pub(super) fn whole(&self, free: &[f64]) -> Vec<f64> {
        let mut all = self.start.clone();
        self.free.iter().zip(free).for_each(|(i, v)| all[*i] = *v);
        all
    }

    /// The free ones of all.
    pub(super) fn free_of(&self, all: &[f64]) -> Vec<f64> {
        self.free.iter().map(|i| all[*i]).collect()
    }

    /// Start s: the first is the usual one, the others move lengthscales and the like.
    fn start(&self, s: usize, key: Key) -> Vec<f64> {
        let mut stream = Stream::new(key.step(s as u64));
        let moved = |i: &usize| {
            let z = if self.wanders[*i] { stream.normal() } else { 0.0 };
            self.start[*i] + if s == 0 { 0.0 } else { z }
        };
        self.free.iter().map(moved).collect()
    }

    /// log p(θ), with its normalising constants, of the free parameters; adds its gradient.
    pub(super) fn log_prior(&self, free: &[f64], gradient: &mut [f64]) -> f64 {
        let mut sum = 0.0;
        for (k, (i, v)) in self.free.iter().zip(free).enumerate() {
            let (mean, std) = self.prior[*i];
            let z = (v - mean) / std;
            gradient[k] -= z / std;
            sum -= 0.5 * z * z + std.ln() + crate::math::special::HALF_LN_TAU;
        }
        sum
    }

    /// log p(y | θ) + log p(θ) and its gradient in the free parameters; −∞ where the first cannot be worked out.
    pub(super) fn log_joint(&self, free: &[f64], gradient: &mut [f64], evidence: &mut Evidence<'_>) -> f64 {
        let near = self.free.iter().zip(free).all(|(i, v)| (v - self.start[*i]).abs() < FARTHEST);
        let mut all = vec![0.0; self.start.len()];
        match if near { evidence(&self.whole(free), &mut all) } else { None } {
            Some(value) if value.is_finite() => {
                self.free.iter().enumerate().for_each(|(k, i)| gradient[k] = all[*i]);
                value + self.log_prior(free, gradient)
            }
            _ => {
                gradient.fill(f64::NAN);
                f64::NEG_INFINITY
            }
        }
    }

    /// The parameters of the highest log joint that is found, and the evaluations it took. `go` is asked before every evaluation whether to go on.
    pub(super) fn maximise(
        &self,
        from: Option<&[f64]>,
        starts: usize,
        steps: usize,
        key: Key,
        evidence: &mut Evidence<'_>,
        go: &mut dyn FnMut(usize, f64) -> bool,
    ) -> (Vec<f64>, usize) {
        if self.free.is_empty() {
            return (self.start.clone(), 0);
        }
        let mut evaluations = 0;
        let mut climb = |x: &mut Vec<f64>, steps: usize| {
            let (mut best, mut since, mut anchor, mut done) = (f64::NEG_INFINITY, 0, f64::NEG_INFINITY, false);
            optim::climb(x, steps, |at, gradient| {
                done = done || !go(evaluations, best);
                if done {
                    gradient.fill(f64::NAN);
                    return f64::NEG_INFINITY;
                }
                evaluations += 1;
                let value = self.log_joint(at, gradient, evidence);
                best = best.max(value);
                since += 1;
                if since == PATIENCE {
                    (done, since, anchor) = (best - anchor < RISE, 0, best);
                }
                value
            });
            best
        };
        let mut found: Option<(f64, Vec<f64>)> = None;
        for s in 0..starts.max(1) {
            let mut x = match from {
                Some(from) if s == 0 => self.free_of(from),
                _ => self.start(s, key),
            };
            let short = if starts > 1 { SHORT.min(steps) } else { steps };
            let value = climb(&mut x, short);
            if found.as_ref().is_none_or(|(best, _)| value > *best) {
                found = Some((value, x));
            }
        }
        let mut x = found.map(|(_, x)| x).unwrap_or_default();
        if starts > 1 && steps > SHORT {
            climb(&mut x, steps - SHORT);
        }
        (self.whole(&x), evaluations)
    }
}
