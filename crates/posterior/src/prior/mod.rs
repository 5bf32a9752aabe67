//! p(w): what is believed of the weights before any data. One file per prior, one line each in [`PRIORS`].

use crate::math::Real;
use crate::rng::Key;
use std::fmt::Debug;

/// The density of each parameter of one block, in one precision.
pub trait BlockPriorOps<R: Real>: Send + Sync {
    /// Σ log p(wᵢ), with normalising constants, summed in f64; with `grad`, scale·d/dwᵢ is **added** to it.
    fn log_density(&self, w: &[R], scale: f64, grad: Option<&mut [R]>) -> f64;
}

/// Independent and identical density over the parameters of one block.
pub trait BlockPrior: BlockPriorOps<f32> + BlockPriorOps<f64> + Debug {
    /// Fills `out` with draws.
    fn sample(&self, key: Key, out: &mut [f32]);
    /// Σ KL[N(mᵢ, σᵢ²) ‖ p], where it has a closed form.
    fn kl_from_normal(&self, mean: &[f32], std: &[f32]) -> Option<f64>;
    /// Mean and standard deviation, if the density is normal: the variational update is then fused.
    fn as_normal(&self) -> Option<(f64, f64)> {
        None
    }
}
