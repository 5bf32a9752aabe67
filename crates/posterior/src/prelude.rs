//! What most programs need: `use posterior::prelude::*`.

pub use crate::artifact;
pub use crate::data::{Dataset, EncodeOptions, Encoder, Missing, ReadOptions, Table, Task, Values};
pub use crate::error::{Error, Result};
pub use crate::inference::{METHODS, Method, Observer, Silent};
pub use crate::likelihood::{LIKELIHOODS, Likelihood, Outcome};
pub use crate::model::{Choice, Model, Recipe};
pub use crate::nn::{Activation, NetworkSpec, Shape};
pub use crate::options;
pub use crate::posterior::Posterior;
pub use crate::predict::{MomentsPredictor, NetworkPredictor, Predictive, Predictor};
pub use crate::prior::{PRIORS, Prior};
pub use crate::problem::Problem;
pub use crate::rng::Key;
pub use crate::settings::Value;
