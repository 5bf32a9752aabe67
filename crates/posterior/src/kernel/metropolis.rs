//! Random-walk Metropolis: w* = w + s·σ∘z, z ~ N(0, I), taken with probability min(1, (p(w*)/p(w))^{1/T}).
//!
//! Reference: Metropolis et al. (1953), J. Chem. Phys. 21. Cost: one density, no gradient. At T ≠ 1 its invariant density is p^{1/T}.

use super::{Info, State, Target, normals_and_uniforms};
use crate::error::Result;
use crate::rng::{Key, Stream, fill_normals};

/// Buffers of the kernel.
#[derive(Debug, Clone)]
pub struct Metropolis {
    proposal: Vec<f64>,
}

impl Metropolis {
    /// For `dim` parameters.
    pub fn new(dim: usize) -> Self {
        Metropolis { proposal: vec![0.0; dim] }
    }

    /// One transition with proposals of the scale `scale` times `std` of each parameter, at a temperature.
    pub fn step(
        &mut self,
        state: &mut State,
        target: &mut Target<'_>,
        scale: f64,
        std: &[f64],
        temperature: f64,
        key: Key,
    ) -> Result<Info> {
        let (normals, uniforms) = normals_and_uniforms(key);
        fill_normals(normals, &mut self.proposal);
        for ((to, from), std) in self.proposal.iter_mut().zip(&state.w).zip(std) {
            *to = from + scale * std * *to;
        }
        let proposed = target.value(&self.proposal)?;
        let acceptance = proposed.map_or(0.0, |value| ((value - state.value) / temperature).exp().min(1.0));
        let accepted = Stream::new(uniforms).uniform() < acceptance;
        if let Some(value) = proposed.filter(|_| accepted) {
            std::mem::swap(&mut state.w, &mut self.proposal);
            state.value = value;
        }
        Ok(Info { accepted, acceptance, divergent: false, energy: f64::NAN, log_density: state.value })
    }
}
