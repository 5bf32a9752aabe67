//! Adam (Kingma & Ba 2015), ascending, with a normal prior's penalty fused in.
//!
//! g ← ∇ − τ(w − c); m ← β₁m + (1−β₁)g; v ← β₂v + (1−β₂)g²; w ← w + η·c·m/(√v + ε), c = √(1−β₂ᵗ)/(1−β₁ᵗ). One pass over memory: reads w, m, v, ∇
//! and writes w, m, v. State is kept in blocks of [`BLOCK`] numbers, which threads share out; each number's arithmetic is
//! its own, so the bits do not depend on how.

use crate::error::Result;
use crate::math::Real;
use crate::rng::BLOCK;
use crate::simd_fn;
use crate::snapshot::{State, Stateful};
use rayon::prelude::*;
use std::ops::Range;

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;
/// Blocks a thread takes at the least: about 10 µs of work.
pub(crate) const BLOCKS_PER_TASK: usize = 16;

/// What is the same for all numbers in one step: the rate with both bias corrections in it.
#[derive(Debug, Clone, Copy)]
pub struct AdamStep {
    rate: f32,
}

impl AdamStep {
    /// Step number `t`, from 1, at learning rate `rate`.
    pub fn new(t: u64, rate: f64) -> AdamStep {
        let t = i32::try_from(t).unwrap_or(i32::MAX);
        let correction = (1.0 - f64::from(BETA2).powi(t)).sqrt() / (1.0 - f64::from(BETA1).powi(t));
        AdamStep { rate: (rate * correction) as f32 }
    }
}

/// What is smaller is 0: a parameter, its first and its second moment.
///
/// A weight that only a prior penalties at dies away without end, and with it products of weights and moments become subnormal, each of which costs
/// many processors a hundred cycles: a fit then takes ten times as long. Products of three such weights are still normal numbers.
const SMALLEST: [f32; 3] = [1e-12, 1e-20, 1e-37];

#[inline(always)]
fn or_zero(x: f32, smallest: f32) -> f32 {
    if x.abs() < smallest { 0.0 } else { x }
}

/// One number's update.
#[inline(always)]
pub(crate) fn ascend<const F: bool>(p: &mut f32, m: &mut f32, v: &mut f32, g: f32, step: AdamStep) {
    let [parameter, first, second] = SMALLEST;
    *m = or_zero(Real::mul_add::<F>(1.0 - BETA1, g - *m, *m), first);
    *v = or_zero(Real::mul_add::<F>(1.0 - BETA2, g * g - *v, *v), second);
    *p = or_zero(*p + step.rate * *m / (v.sqrt() + EPSILON), parameter);
}

/// Moments of a block of gradients.
#[derive(Debug, Clone)]
struct Moments {
    first: [f32; BLOCK],
    second: [f32; BLOCK],
}

/// The optimiser's state for a flat parameter vector.
#[derive(Debug, Clone)]
pub struct Adam {
    blocks: Vec<Moments>,
    steps: u64,
}

/// Which closed form the KL of a Gaussian to the prior has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Law {
    /// A normal prior's, or, with precision 0, the negative entropy alone.
    #[default]
    Normal,
    /// p(w) ∝ 1/|w|: a function of α = σ²/m² alone (see [`crate::distribution::log_uniform_kl`]).
    LogUniform,
}

/// A range of parameters and the normal prior that penalties them: gradient −τ(w − c).
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianPenalty {
    /// Which parameters.
    pub range: Range<usize>,
    /// c
    pub centre: f32,
    /// τ = 1/variance; 0 where the prior is not normal.
    pub precision: f32,
    /// What KL[q ‖ p] of one parameter has beside −ln σ + ½τ(σ² + (m−c)²): ln of the prior's σ − ½, or, where the prior
    /// is not normal, −½ln(2πe), which leaves the negative entropy.
    pub kl_constant: f64,
    /// Which KL this is.
    pub law: Law,
}

simd_fn! {
    fn update(w: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32], centre: f32, precision: f32, step: AdamStep) {
        let n = w.len();
        let (m, v, g) = (&mut m[..n], &mut v[..n], &g[..n]);
        for i in 0..n {
            let pulled = g[i] - precision * (w[i] - centre);
            ascend::<F>(&mut w[i], &mut m[i], &mut v[i], pulled, step);
        }
    }
}

impl Adam {
    /// For `dim` parameters, all moments 0.
    pub fn new(dim: usize) -> Adam {
        let zero = Moments { first: [0.0; BLOCK], second: [0.0; BLOCK] };
        Adam { blocks: vec![zero; dim.div_ceil(BLOCK)], steps: 0 }
    }

    /// One ascent step along `gradient`, plus the penalty of normal priors (`penalties` in order, without gaps; an empty list
    /// penalties nothing).
    pub fn ascend(&mut self, w: &mut [f32], gradient: &[f32], penalties: &[GaussianPenalty], rate: f64) {
        self.steps += 1;
        let step = AdamStep::new(self.steps, rate);
        self.blocks
            .par_iter_mut()
            .with_min_len(BLOCKS_PER_TASK)
            .zip(w.par_chunks_mut(BLOCK))
            .zip(gradient.par_chunks(BLOCK))
            .enumerate()
            .for_each(|(b, ((moments, w), g))| {
                let n = w.len();
                let Moments { first, second } = moments;
                if penalties.is_empty() {
                    update(w, first, second, g, 0.0, 0.0, step);
                    return;
                }
                let from = b * BLOCK;
                for penalty in overlapping(penalties, from..from + n) {
                    let r = penalty.range.start.max(from) - from..penalty.range.end.min(from + n) - from;
                    let (w, g) = (&mut w[r.clone()], &g[r.clone()]);
                    update(w, &mut first[r.clone()], &mut second[r], g, penalty.centre, penalty.precision, step);
                }
            });
    }
}

impl Stateful for Adam {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.count("steps", &mut self.steps)?;
        state.parts("first", self.blocks.iter_mut().map(|b| &mut b.first[..]))?;
        state.parts("second", self.blocks.iter_mut().map(|b| &mut b.second[..]))
    }
}

/// The ranges that touch `range`, found by bisection.
pub(crate) fn overlapping(
    penalties: &[GaussianPenalty],
    range: Range<usize>,
) -> impl Iterator<Item = &GaussianPenalty> {
    let first = penalties.partition_point(|p| p.range.end <= range.start);
    penalties[first..].iter().take_while(move |p| p.range.start < range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook form, in f64.
    fn reference(w: &mut [f64], grads: &[Vec<f64>], rate: f64) {
        let (mut m, mut v) = (vec![0.0; w.len()], vec![0.0; w.len()]);
        for (t, g) in grads.iter().enumerate() {
            for i in 0..w.len() {
                m[i] = 0.9 * m[i] + 0.1 * g[i];
                v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
                let (a, b) = (1.0 - 0.9f64.powi(t as i32 + 1), 1.0 - 0.999f64.powi(t as i32 + 1));
                w[i] += rate * (m[i] / a) / ((v[i] / b).sqrt() + 1e-8);
            }
        }
    }

    #[test]
    fn agrees_with_the_textbook() {
        let n = 3000;
        let grads: Vec<Vec<f64>> =
            (0..5).map(|t| (0..n).map(|i| ((i * 7 + t * 13) as f64).sin() * 100.0).collect()).collect();
        let mut w = vec![0.5; n];
        reference(&mut w, &grads, 0.01);
        let (mut adam, mut ours) = (Adam::new(n), vec![0.5f32; n]);
        for g in &grads {
            adam.ascend(&mut ours, &g.iter().map(|v| *v as f32).collect::<Vec<_>>(), &[], 0.01);
        }
        // Rounding to f32 of numbers near 0.5, five times over.
        assert!(ours.iter().zip(&w).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-6));
    }

    #[test]
    fn penalties_act_on_their_ranges() {
        let n = 2 * BLOCK + 10;
        let cut = BLOCK + 7;
        let penalties = [
            GaussianPenalty { range: 0..cut, centre: 0.0, precision: 2.0, kl_constant: 0.0, law: Law::Normal },
            GaussianPenalty { range: cut..n, centre: 3.0, precision: 1.0, kl_constant: 0.0, law: Law::Normal },
        ];
        let (mut w, zero) = (vec![1.0f32; n], vec![0.0f32; n]);
        Adam::new(n).ascend(&mut w, &zero, &penalties, 0.1);
        assert!(w[..cut].iter().all(|v| (v - 0.9).abs() < 1e-6));
        assert!(w[cut..].iter().all(|v| (v - 1.1).abs() < 1e-6));
    }

    /// Pulled at by priors alone, with hardly any effect or much: nothing ever becomes subnormal, and in the end all is 0.
    #[test]
    fn what_dies_away_becomes_0() {
        let (mut w, g) = ([0.5f32, -1e-3, 1e-9, 0.3], [0.0f32; 4]);
        let penalty = |i: usize, precision: f32| GaussianPenalty {
            range: i..i + 1,
            centre: 0.0,
            precision,
            kl_constant: 0.0,
            law: Law::Normal,
        };
        let penalties = [penalty(0, 1.0), penalty(1, 25.0), penalty(2, 1e-3), penalty(3, 1e-8)];
        let mut adam = Adam::new(4);
        for _ in 0..60_000 {
            adam.ascend(&mut w, &g, &penalties, 0.01);
            let moments = &adam.blocks[0];
            let all = w.iter().chain(&moments.first[..4]).chain(&moments.second[..4]);
            assert!(all.clone().all(|v| !v.is_subnormal()), "{w:?}");
        }
        assert_eq!(w, [0.0; 4]);
    }
}
