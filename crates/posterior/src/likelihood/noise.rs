//! The noise scale σ of a likelihood, fixed or learned: shared by the Gaussian and Student's t.
//!
//! A learned scale is the parameter block `log_noise`, ln σ of every target. Its prior is N(mean, std²) **on ln σ**, the
//! parameter that is fitted: as a density of σ that is the log-normal N(ln σ | mean, std²)/σ, and since the density is
//! taken over ln σ the factor |dσ/d ln σ| = σ is already in it. No other Jacobian is due.

use crate::math::Real;
use crate::nn::{BlockSpec, Role};

crate::word_enum! {
    /// Whether the noise scale is a parameter.
    pub enum Noise {
        /// Learned from the data.
        Learned = "learned",
        /// Fixed at `noise_std`.
        Fixed = "fixed",
    }
}

/// Fields of likelihoods with one noise scale.
macro_rules! noise_fields {
    ({ $($head:tt)* } $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// whether the noise scale is learned from the data or fixed at noise_std
            noise: Noise = Noise::Learned,
            /// noise scale in units of the target's standard deviation; where the fit starts when it is learned
            noise_std: f64 = 0.3 => Float(1e-6, 1e6),
            /// prior mean of the logarithm of a learned noise scale
            noise_prior_mean: f64 = -1.0 => Float(-50.0, 50.0),
            /// prior standard deviation of the logarithm of a learned noise scale
            noise_prior_std: f64 = 1.0 => Float(1e-3, 1e3),
            $($rest)*
        }
    };
}
pub(super) use noise_fields;

/// A scale per target.
#[derive(Debug, Clone)]
pub(super) struct NoiseScale {
    learned: bool,
    log_std: f64,
    prior: (f64, f64),
}

impl NoiseScale {
    pub(super) fn new(noise: Noise, std: f64, prior: (f64, f64)) -> NoiseScale {
        NoiseScale { learned: noise == Noise::Learned, log_std: std.ln(), prior }
    }

    /// ln σ of a target; `noise` is the block `log_noise`, empty when the scale is fixed.
    pub(super) fn log_std<R: Real>(&self, noise: &[R], target: usize) -> f64 {
        if self.learned { noise[target].f64() } else { self.log_std }
    }

    /// σ of a target.
    pub(super) fn std<R: Real>(&self, noise: &[R], target: usize) -> f64 {
        self.log_std(noise, target).exp()
    }

    /// Adds to d/d ln σ, if that is a parameter.
    pub(super) fn add_gradient(&self, d_noise: &mut [f64], target: usize, value: f64) {
        if self.learned {
            d_noise[target] += value;
        }
    }

    /// The block `log_noise`, or none.
    pub(super) fn blocks(&self, targets: usize) -> Vec<BlockSpec> {
        if self.learned { vec![BlockSpec::new("log_noise", vec![targets], Role::Noise, 1)] } else { Vec::new() }
    }

    /// Mean and standard deviation of ln σ.
    pub(super) fn prior(&self) -> (f64, f64) {
        self.prior
    }

    /// ln σ where a fit starts.
    pub(super) fn initial(&self) -> f64 {
        self.log_std
    }
}
