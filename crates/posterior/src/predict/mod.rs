//! From a posterior to a predictive distribution: p(y | x, D) ≈ (1/S) Σₛ p(y | f_{wₛ}(x)), wₛ ~ q.

pub mod calibration;
mod crps;
mod distance;
mod gaussians;
mod linearised;
mod linearised_forms;
mod linearised_mixture;
mod linearised_pairs;
mod linearised_unit;
mod mixture;
mod moments;
mod normals;
mod predictive;
mod predictor;
mod quantile;
mod uncertainty;

pub use distance::Distance;
pub use gaussians::{Gaussians, NoiseNode};
pub use linearised::{LinearisedPredictor, Link};
pub use linearised_mixture::LinearisedMixture;
pub use moments::MomentsPredictor;
pub use predictive::{DrawnOutputs, Outputs, Predictive, TargetScale};
pub use predictor::{NetworkPredictor, Predictor, check_memory};
pub use uncertainty::{ClassUncertainty, RealUncertainty};
