//! Typed options of every method, likelihood and prior: what Rust users write in place of names and settings.
//!
//! Each is a row of a table with its fields as settings, so that both ways end in the same place: values are checked when the recipe is resolved, and the
//! model file is the same bit for bit.
//!
//! ```
//! use posterior::options::likelihood::StudentT;
//! use posterior::options::{InitialMean, MeanField};
//! use posterior::prelude::*;
//! # use posterior::data::Column;
//!
//! # fn main() -> posterior::Result<()> {
//! # let x: Vec<f64> = (0..50).map(|i| i as f64 / 10.0).collect();
//! # let y = x.iter().map(|v| v.sin()).collect();
//! # let table = Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), Column::Number(y))])?;
//! let typed = Recipe::new(NetworkSpec::parse("20", Activation::Tanh)?)
//!     .method(MeanField { epochs: 200, initial_mean: InitialMean::Zero, ..Default::default() })
//!     .likelihood(StudentT { degrees: 5.0, ..Default::default() });
//! let encode = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
//! let model = Model::fit(&typed, &table, &encode, 0, &mut Silent)?;
//!
//! let mut named = Recipe::new(NetworkSpec::parse("20", Activation::Tanh)?).method("mean-field").likelihood("student-t");
//! for assignment in ["epochs=200", "initial_mean=zero", "likelihood.degrees=5"] {
//!     named.set(assignment)?;
//! }
//! assert_eq!(Model::fit(&named, &table, &encode, 0, &mut Silent)?.recipe, model.recipe);
//! # Ok(())
//! # }
//! ```

pub use crate::inference::{
    AlphaPer, Annealing, AnnealingStart, BlackBox, Bootstrap, ChainOptions, ChainSchedule, CurvatureStructure,
    DropoutOn, Ensemble, EstimatorChoice, Features, FullCovariance, GaussianDropout, GradientPrecision, Hmc,
    Importance, InitialMean, InitialScaling, Ivon, IvonMean, KronBias, Laplace, LaplacePredictive, LastLayer, Linear,
    LinearPredictive, LowRank, Map, MaximumLikelihood, McDropout, MeanField, Mixture, Moments, Preconditioning,
    PriorPrecision, Proposal, RandomWalk, RemovalTime, Sghmc, Sgld, SparseDropout, Start, Swag, TemperedStart,
    TrainingOptions, Tuning, UncertainWeights, VariationalDropout,
};
#[cfg(feature = "nuts")]
pub use crate::inference::{MassMatrix, Mclmc, Nuts};
pub use crate::optim::Decay;

/// Options of likelihoods.
pub mod likelihood {
    pub use crate::likelihood::{
        BernoulliOptions as Bernoulli, CategoricalOptions as Categorical, GaussianOptions as Gaussian,
        HeteroscedasticOptions as Heteroscedastic, Noise, PoissonOptions as Poisson, StudentTOptions as StudentT,
    };
}

/// Options of priors.
pub mod prior {
    pub use crate::prior::{
        LaplaceOptions as Laplace, LogUniformOptions as LogUniform, NormalOptions as Normal,
        ScaleMixtureOptions as ScaleMixture, Scaling,
    };
}
