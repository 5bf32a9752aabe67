//! The score-function gradient of an expectation under a diagonal Gaussian: needs values of f, never its gradient.
//!
//! ∇E_q[f(w)] = E_q[f(w) h(w)] with the score h = ∇ log q(w): ε/σ in m and (ε² − 1)/σ in σ, for w = m + σε. (Where f has a term
//! −log q(w) itself, nothing is added: E_q[h] = 0.) Because E_q[h] = 0, any a gives the same mean for (f − a)h, and
//! aᵢ = Cov(f hᵢ, hᵢ)/Var(hᵢ) = E[f hᵢ²]/E[hᵢ²] the least variance in parameter i. It is estimated for each draw from the
//! **other** draws, Σ_{r≠s} f_r h_r²/Σ_{r≠s} h_r², which does not depend on h_s: the gradient stays unbiased, exactly. Estimated from all
//! draws it would have a bias of order 1/S.
//!
//! Ranganath, Gerrish & Blei, Black Box Variational Inference, AISTATS 2014. Cost: two passes over S·P numbers.

use crate::rng::BLOCK;
use crate::simd_fn;
use rayon::prelude::*;

/// The estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreFunction {
    /// Whether aᵢ is subtracted; with a single draw there is none to estimate it from, and it is not.
    pub control_variate: bool,
}

/// Σ_s (f_s − c) h_s² and Σ_s h_s² for both scores, times σ².
struct Squares {
    mean: [(f64, f64); BLOCK],
    std: [(f64, f64); BLOCK],
}

#[inline(always)]
fn scores(noise: f32) -> (f64, f64) {
    let e = f64::from(noise);
    (e, e * e - 1.0)
}

simd_fn! {
    fn add_squares(noise: &[f32], f: f64, squares: &mut Squares) {
        let n = noise.len();
        let (mean, std) = (&mut squares.mean[..n], &mut squares.std[..n]);
        for i in 0..n {
            let (in_mean, in_std) = scores(noise[i]);
            mean[i].0 += f * (in_mean * in_mean);
            mean[i].1 += in_mean * in_mean;
            std[i].0 += f * (in_std * in_std);
            std[i].1 += in_std * in_std;
        }
    }
}

/// a of the other draws, for the draw whose f and h are given.
#[inline(always)]
fn scaling_of_others((weighted, total): (f64, f64), f: f64, h: f64) -> f64 {
    let rest = total - h * h;
    if rest > 0.0 { (weighted - f * (h * h)) / rest } else { 0.0 }
}

simd_fn! {
    fn add_controlled(noise: &[f32], f: f64, squares: &Squares, sums: &mut [(f64, f64)]) {
        let n = noise.len();
        let (mean, std, sums) = (&squares.mean[..n], &squares.std[..n], &mut sums[..n]);
        for i in 0..n {
            let (in_mean, in_std) = scores(noise[i]);
            sums[i].0 += (f - scaling_of_others(mean[i], f, in_mean)) * in_mean;
            sums[i].1 += (f - scaling_of_others(std[i], f, in_std)) * in_std;
        }
    }
}

simd_fn! {
    fn add_plain(noise: &[f32], f: f64, sums: &mut [(f64, f64)]) {
        let n = noise.len();
        let sums = &mut sums[..n];
        for i in 0..n {
            let (in_mean, in_std) = scores(noise[i]);
            sums[i].0 += f * in_mean;
            sums[i].1 += f * in_std;
        }
    }
}

impl ScoreFunction {
    /// The gradient of f's expectation in m and in σ, from S draws: `values` are f_s, `noise` their ε, draw after draw (S × P),
    /// `std` is σ. Allocates nothing; the same bits on any number of threads.
    ///
    /// # Panics
    /// If the lengths do not agree.
    pub fn gradient(self, values: &[f64], noise: &[f32], std: &[f32], d_mean: &mut [f32], d_std: &mut [f32]) {
        let (draws, dim) = (values.len(), std.len());
        assert_eq!(noise.len(), draws * dim, "a noise for every draw and parameter");
        assert_eq!((d_mean.len(), d_std.len()), (dim, dim), "gradients of every parameter");
        let controlled = self.control_variate && draws > 1;
        // The differences between f's are what counts: without their common part no digits are lost. It cancels in f − a.
        let common = if controlled { values.iter().sum::<f64>() / draws as f64 } else { 0.0 };
        let of_draw = |s: usize, from: usize, n: usize| &noise[s * dim + from..s * dim + from + n];
        let blocks = d_mean.par_chunks_mut(BLOCK).zip(d_std.par_chunks_mut(BLOCK)).zip(std.par_chunks(BLOCK));
        blocks.enumerate().for_each(|(b, ((d_mean, d_std), std))| {
            let (from, n) = (b * BLOCK, std.len());
            let mut sums = [(0.0, 0.0); BLOCK];
            if controlled {
                let mut squares = Squares { mean: [(0.0, 0.0); BLOCK], std: [(0.0, 0.0); BLOCK] };
                for (s, f) in values.iter().enumerate() {
                    add_squares(of_draw(s, from, n), f - common, &mut squares);
                }
                for (s, f) in values.iter().enumerate() {
                    add_controlled(of_draw(s, from, n), f - common, &squares, &mut sums);
                }
            } else {
                for (s, f) in values.iter().enumerate() {
                    add_plain(of_draw(s, from, n), *f, &mut sums);
                }
            }
            for i in 0..n {
                let share = 1.0 / (draws as f64 * f64::from(std[i]));
                d_mean[i] = (share * sums[i].0) as f32;
                d_std[i] = (share * sums[i].1) as f32;
            }
        });
    }
}
