//! Hamiltonian Monte Carlo: p ~ N(0, M), L leapfrog steps of size ε on H(w, p) = −log p(w) + ½pᵀM⁻¹p, taken with
//! probability min(1, exp(H − H*)).
//!
//! Leapfrog: p ← p + ½ε∇; w ← w + εM⁻¹p; p ← p + ½ε∇. It is reversible and keeps volume whatever function of w stands for ∇, so that a
//! force in single precision costs acceptance and nothing else: H* is taken with the exact density. The energy error of a path is O(ε²).
//! M is diagonal. Reference: Neal (2011), Handbook of MCMC, ch. 5. Cost: L gradients.

use super::{Info, State, Target, normals_and_uniforms};
use crate::error::Result;
use crate::math::elementwise::{axpy, dot};
use crate::rng::{Key, Stream, fill_normals};
use crate::simd_fn;

/// An energy error beyond which a path is called divergent.
const DIVERGENT: f64 = 1000.0;

simd_fn! {
    /// w ← w + ε·variance∘p
    fn drift(epsilon: f64, variance: &[f64], p: &[f64], w: &mut [f64]) {
        let n = w.len();
        let (variance, p) = (&variance[..n], &p[..n]);
        for i in 0..n {
            w[i] = crate::math::Real::mul_add::<F>(epsilon * variance[i], p[i], w[i]);
        }
    }
}

simd_fn! {
    /// ½ Σ variance p²
    fn kinetic(variance: &[f64], p: &[f64]) -> f64 {
        let mut lanes = [0.0; 8];
        let p = &p[..variance.len()];
        let ((v, v_rest), (p, p_rest)) = (variance.as_chunks::<8>(), p.as_chunks::<8>());
        for (v, p) in v.iter().zip(p) {
            for l in 0..8 {
                lanes[l] = crate::math::Real::mul_add::<F>(v[l] * p[l], p[l], lanes[l]);
            }
        }
        let rest: f64 = v_rest.iter().zip(p_rest).map(|(v, p)| v * p * p).sum();
        0.5 * (lanes.iter().sum::<f64>() + rest)
    }
}

/// A point in phase space, with the force there.
#[derive(Debug, Clone)]
pub struct Trajectory {
    /// Position.
    pub w: Vec<f64>,
    /// Momentum.
    pub p: Vec<f64>,
    /// The force at w.
    pub force: Vec<f64>,
    /// log p(w), where the force came with it.
    pub value: Option<f64>,
}

/// One leapfrog step; false where the density is not finite.
pub fn leapfrog(at: &mut Trajectory, target: &mut Target<'_>, epsilon: f64, variance: &[f64]) -> Result<bool> {
    axpy(0.5 * epsilon, &at.force, &mut at.p);
    drift(epsilon, variance, &at.p, &mut at.w);
    let Some(value) = target.force(&at.w, &mut at.force)? else { return Ok(false) };
    axpy(0.5 * epsilon, &at.force, &mut at.p);
    at.value = value;
    Ok(true)
}

/// How to move.
#[derive(Debug, Clone, Copy)]
pub struct Move<'a> {
    /// ε
    pub epsilon: f64,
    /// L
    pub steps: u32,
    /// The diagonal of M⁻¹: about the variance of each parameter.
    pub variance: &'a [f64],
    /// Go on from step L up to so many steps to see where the path turns back; 0 means not to look.
    pub look: u32,
}

/// Buffers of the kernel.
#[derive(Debug, Clone)]
pub struct Hmc {
    path: Trajectory,
    /// The state at the end of the path while it is followed further.
    end: Trajectory,
    offset: Vec<f64>,
}

impl Hmc {
    /// For `dim` parameters.
    pub fn new(dim: usize) -> Self {
        let zeros = || vec![0.0; dim];
        let path = Trajectory { w: zeros(), p: zeros(), force: zeros(), value: None };
        Hmc { end: path.clone(), path, offset: zeros() }
    }

    /// One transition; with it the steps after which the path first came nearer to where it began, if it was looked for:
    /// (w − w₀)·p < 0.
    pub fn step(
        &mut self,
        state: &mut State,
        target: &mut Target<'_>,
        how: Move<'_>,
        key: Key,
    ) -> Result<(Info, Option<u32>)> {
        let (normals, uniforms) = normals_and_uniforms(key);
        fill_normals(normals, &mut self.path.p);
        for (p, v) in self.path.p.iter_mut().zip(how.variance) {
            *p /= v.sqrt();
        }
        self.path.w.copy_from_slice(&state.w);
        self.path.force.copy_from_slice(&state.force);
        self.path.value = Some(state.value);
        let energy = kinetic(how.variance, &self.path.p) - state.value;
        let (mut turned, mut lost, mut acceptance) = (None, false, 0.0);
        for step in 1..=how.steps.max(how.look) {
            if !leapfrog(&mut self.path, target, how.epsilon, how.variance)? {
                lost = step <= how.steps;
                break;
            }
            if step == how.steps {
                acceptance = self.accept_probability(target, how.variance, energy, &mut lost)?;
                if how.look > step {
                    self.end.clone_from_path(&self.path);
                }
            }
            if how.look > 0 && turned.is_none() {
                for ((o, w), start) in self.offset.iter_mut().zip(&self.path.w).zip(&state.w) {
                    *o = w - start;
                }
                turned = (dot(&self.offset, &self.path.p) < 0.0).then_some(step);
            }
            if step >= how.steps && (turned.is_some() || lost) {
                break;
            }
        }
        let accepted = Stream::new(uniforms).uniform() < acceptance;
        if accepted {
            let end = if how.look > how.steps { &mut self.end } else { &mut self.path };
            std::mem::swap(&mut state.w, &mut end.w);
            std::mem::swap(&mut state.force, &mut end.force);
            state.value = end.value.unwrap_or(state.value);
        }
        let turned = if how.look > 0 && !lost { Some(turned.unwrap_or(how.steps.max(how.look))) } else { None };
        Ok((Info { accepted, acceptance, divergent: lost, energy, log_density: state.value }, turned))
    }

    /// The acceptance of a single leapfrog step, from which the first step size is found; the state stays.
    pub fn probe(&mut self, state: &State, target: &mut Target<'_>, how: Move<'_>, key: Key) -> Result<f64> {
        let mut copy = state.clone();
        Ok(self.step(&mut copy, target, Move { steps: 1, look: 0, ..how }, key)?.0.acceptance)
    }

    fn accept_probability(
        &mut self,
        target: &mut Target<'_>,
        variance: &[f64],
        energy: f64,
        lost: &mut bool,
    ) -> Result<f64> {
        self.path.value = match self.path.value {
            Some(value) => Some(value),
            None => target.value(&self.path.w)?,
        };
        let Some(value) = self.path.value else {
            *lost = true;
            return Ok(0.0);
        };
        let error = kinetic(variance, &self.path.p) - value - energy;
        *lost = error.is_nan() || error > DIVERGENT;
        // What is no number is not taken.
        Ok(if error <= 0.0 { 1.0 } else { (-error).exp().max(0.0) })
    }
}

impl Trajectory {
    fn clone_from_path(&mut self, path: &Trajectory) {
        self.w.copy_from_slice(&path.w);
        self.force.copy_from_slice(&path.force);
        self.value = path.value;
    }
}
