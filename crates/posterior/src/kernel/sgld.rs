//! Stochastic-gradient Langevin dynamics: w ← w + η∇ + √(2η) z with a mini-batch's estimate ∇ of the gradient of the log joint.
//!
//! No accept step: the draws are biased by the step size (on N(0, σ²) their variance is σ²/(1 − η/2σ²)) and by the gradient's
//! noise (η/2 times its variance is added to that of the diffusion). With a preconditioner G, diagonal and fixed after
//! warm-up: w ← w + ηG∇ + √(2ηG) z, G = 1/(√τ + √v), v the running mean of ∇², τ the prior's precision, so that what the data do not know is not thrown about. A rate is then, as RMSprop's, about the
//! distance of a step. References: Welling & Teh (2011), ICML; Li et al. (2016), AAAI. Cost: one gradient of a mini-batch and one
//! fused pass over memory.

use crate::error::Result;
use crate::math::Real;
use crate::optim::{BLOCKS_PER_TASK, GaussianPenalty, overlapping};
use crate::rng::{BLOCK, Key, Normals};
use crate::simd_fn;
use crate::snapshot::{State, Stateful};

/// How fast v forgets.
const DECAY: f32 = 0.99;

/// v, block by block, and how the scale of a step follows from it.
#[derive(Debug, Clone)]
pub struct Preconditioner {
    /// The running mean of squared gradients; empty without a preconditioner.
    pub(super) squares: Vec<f32>,
    /// The least that stands for √τ, where the prior is not normal.
    damping: f32,
    steps: u64,
    /// Undoes the penalty of v towards its start at 0.
    correction: f32,
    learning: bool,
}

impl Preconditioner {
    /// None: G = 1.
    pub fn none() -> Self {
        Preconditioner { squares: Vec::new(), damping: 0.0, steps: 0, correction: 1.0, learning: false }
    }

    /// By root mean squares, for `dim` parameters.
    pub fn rms(dim: usize, damping: f64) -> Self {
        let squares = vec![0.0; dim];
        Preconditioner { squares, damping: damping as f32, steps: 0, correction: 1.0, learning: true }
    }

    /// Whether v follows the gradients; it has to stand still while draws are kept.
    pub fn learn(&mut self, learning: bool) {
        self.learning = learning && !self.squares.is_empty();
    }

    /// Before a step.
    pub(super) fn advance(&mut self) -> Rms {
        if self.learning {
            self.steps += 1;
            let t = i32::try_from(self.steps).unwrap_or(i32::MAX);
            self.correction = (1.0 / (1.0 - f64::from(DECAY).powi(t))) as f32;
        }
        Rms { decay: if self.learning { DECAY } else { 1.0 }, correction: self.correction, damping: self.damping }
    }
}

impl Stateful for Preconditioner {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.array("squares", &mut self.squares)?;
        state.count("steps", &mut self.steps)?;
        state.array("correction", std::slice::from_mut(&mut self.correction))?;
        state.flag("learning", &mut self.learning)
    }
}

/// What is the same for all parameters in one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rms {
    decay: f32,
    correction: f32,
    damping: f32,
}

impl Rms {
    /// √τ, of parameters whose prior has this precision.
    #[inline(always)]
    pub(super) fn damping(self, precision: f32) -> f32 {
        precision.sqrt().max(self.damping)
    }
}

/// G of one parameter; v follows the gradient where it learns.
#[inline(always)]
pub(super) fn scale<const F: bool>(v: &mut f32, g: f32, rms: Rms, damping: f32) -> f32 {
    *v = Real::mul_add::<F>(1.0 - rms.decay, g * g - *v, *v);
    1.0 / (damping + (rms.correction * *v).sqrt())
}

simd_fn! {
    wider fn plain(w: &mut [f32], g: &[f32], z: &[f32], centre: f32, precision: f32, rate: f32, noise: f32) {
        let n = w.len();
        let (g, z) = (&g[..n], &z[..n]);
        for i in 0..n {
            let g = g[i] - precision * (w[i] - centre);
            w[i] += Real::mul_add::<F>(rate, g, noise * z[i]);
        }
    }
}

simd_fn! {
    wider fn preconditioned(w: &mut [f32], v: &mut [f32], g: &[f32], z: &[f32], centre: f32, precision: f32, rate: f32, noise: f32, rms: Rms) {
        let n = w.len();
        let (v, g, z, damping) = (&mut v[..n], &g[..n], &z[..n], rms.damping(precision));
        for i in 0..n {
            let g = g[i] - precision * (w[i] - centre);
            let scale = scale::<F>(&mut v[i], g, rms, damping);
            w[i] += Real::mul_add::<F>(rate * scale, g, noise * scale.sqrt() * z[i]);
        }
    }
}

/// A step of a stochastic-gradient sampler.
#[derive(Debug, Clone, Copy)]
pub struct NoisyStep<'a> {
    /// An estimate of the gradient of the log joint, without what `penalties` adds.
    pub gradient: &'a [f32],
    /// Normal priors, in order, without gaps; empty where the gradient has everything in it.
    pub penalties: &'a [GaussianPenalty],
    /// η
    pub rate: f64,
    /// The square root of the temperature: 1, or 0 to explore.
    pub noise: f64,
    /// Of this step's random numbers.
    pub key: Key,
    /// Whether to keep to the calling thread; the bits are the same.
    pub alone: bool,
}

/// One step of SGLD.
pub fn sgld_step(w: &mut [f32], preconditioner: &mut Preconditioner, step: NoisyStep<'_>) {
    let rms = preconditioner.advance();
    let (rate, noise) = (step.rate as f32, (step.noise * (2.0 * step.rate).sqrt()) as f32);
    by_blocks(0, w, &mut preconditioner.squares, &mut [], step, &|w, v, _, g, z, centre, precision| {
        if v.is_empty() {
            plain(w, g, z, centre, precision, rate, noise);
        } else {
            preconditioned(w, v, g, z, centre, precision, rate, noise, rms);
        }
    });
}

/// What is done to a part of w, v, momentum, gradient and normals, the second and third empty where there is none, under a prior's
/// centre and precision.
pub(super) type OnPart<'a> = &'a (dyn Fn(&mut [f32], &mut [f32], &mut [f32], &[f32], &[f32], f32, f32) + Sync);

/// Walks over blocks of [`BLOCK`] numbers from block `first` on, on the pool or alone.
pub(super) fn by_blocks(
    first: usize,
    w: &mut [f32],
    v: &mut [f32],
    m: &mut [f32],
    step: NoisyStep<'_>,
    each: OnPart<'_>,
) {
    let blocks = w.len().div_ceil(BLOCK);
    if !step.alone && blocks > BLOCKS_PER_TASK {
        let half = blocks / 2 * BLOCK;
        let ((w1, w2), (v1, v2)) = (w.split_at_mut(half), v.split_at_mut(half.min(v.len())));
        let (m1, m2) = m.split_at_mut(half.min(m.len()));
        let middle = first + blocks / 2;
        rayon::join(|| by_blocks(first, w1, v1, m1, step, each), || by_blocks(middle, w2, v2, m2, step, each));
        return;
    }
    let mut z = [0.0; BLOCK];
    for (i, w) in w.chunks_mut(BLOCK).enumerate() {
        let (from, here) = ((first + i) * BLOCK, i * BLOCK);
        let z = &mut z[..w.len()];
        f32::fill_block(step.key.block((first + i) as u64), z);
        let v = v.get_mut(here..here + w.len()).unwrap_or(&mut []);
        let m = m.get_mut(here..here + w.len()).unwrap_or(&mut []);
        let g = &step.gradient[from..from + w.len()];
        if step.penalties.is_empty() {
            each(w, v, m, g, z, 0.0, 0.0);
            continue;
        }
        for penalty in overlapping(step.penalties, from..from + w.len()) {
            let r = penalty.range.start.max(from) - from..penalty.range.end.min(from + w.len()) - from;
            let (v, m) = (v.get_mut(r.clone()).unwrap_or(&mut []), m.get_mut(r.clone()).unwrap_or(&mut []));
            each(&mut w[r.clone()], v, m, &g[r.clone()], &z[r], penalty.centre, penalty.precision);
        }
    }
}
