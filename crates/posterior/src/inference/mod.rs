//! From a problem to a posterior: the table of methods, and one file per method.

mod annealing;
mod bbvi;
mod bootstrap;
mod chain_options;
mod chains;
mod checkpoint;
mod checkpoint_file;
mod course;
mod ensemble;
mod family_trainer;
mod feed;
mod full_covariance;
mod gaussian_dropout;
mod gradient_variance;
mod hmc;
mod importance;
mod ivon;
pub mod laplace;
mod last_layer;
mod linear;
mod low_rank;
mod map;
mod mc_dropout;
#[cfg(feature = "nuts")]
mod mclmc;
mod mean_field;
mod members;
mod metropolis;
mod mixture;
mod moments;
mod needs;
#[cfg(feature = "nuts")]
mod nuts;
#[cfg(feature = "nuts")]
mod nuts_chain;
mod observer;
mod point;
mod sample;
mod sghmc;
mod sgld;
mod sparse_dropout;
mod starts;
mod stochastic_chain;
mod swag;
mod train;
mod variational;

pub use annealing::{Annealing, AnnealingStart};
pub use bbvi::{BlackBox, BlackBoxTrainer};
pub use bootstrap::{Bootstrap, bootstrap_weights};
pub use chain_options::ChainOptions;
pub use chains::{ChainPlan, MakeChain, Transition, run_chains};
pub use checkpoint::{Checkpoint, Fingerprint, Unit};
pub use ensemble::Ensemble;
pub use family_trainer::FamilyTrainer;
pub use full_covariance::FullCovariance;
pub use gaussian_dropout::{AlphaPer, GaussianDropout, VariationalDropout};
pub use gradient_variance::{GradientVariance, gradient_variances};
pub use hmc::{Hmc, TemperedStart};
pub use importance::{Importance, Proposal};
pub use ivon::{Ivon, IvonMean, IvonOptions, IvonTrainer};
pub use laplace::{
    CurvatureStructure, KronBias, Laplace, LaplaceApproximation, LaplaceOptions, LaplacePredictive, PriorPrecision,
    Tuning, UncertainWeights, prior_scales,
};
pub use last_layer::LastLayer;
pub(crate) use linear::update as update_linear;
pub use linear::{Features, Linear, LinearPredictive};
pub use low_rank::LowRank;
pub use map::{Map, MaximumLikelihood};
pub use mc_dropout::{DropoutOn, McDropout};
#[cfg(feature = "nuts")]
pub use mclmc::Mclmc;
pub use mean_field::{ESTIMATORS, Estimator, EstimatorChoice, MeanField, MeanFieldTrainer};
pub(crate) use members::side_by_side;
pub use metropolis::RandomWalk;
pub use mixture::Mixture;
pub use moments::{Moments, MomentsTrainer};
#[cfg(feature = "nuts")]
pub use nuts::{MassMatrix, Nuts};
pub use observer::{ChainProgress, Flow, Observer, Progress, Silent};
pub use point::PointTrainer;
pub use sample::{GradientPrecision, Sampler, sample};
pub use sghmc::Sghmc;
pub use sgld::Sgld;
pub use sparse_dropout::{RemovalTime, SparseDropout};
pub use starts::Start;
pub use stochastic_chain::{ChainSchedule, Preconditioning, StochasticTrainer};
pub use swag::{PathMoments, Swag, SwagTrainer};
pub use train::{EpochRecord, FitSummary, StepPlan, Stepper, TrainingOptions};
pub use variational::{InitialMean, InitialScaling};

use crate::error::{Error, Result};
use crate::nn::NetworkSpec;
use crate::posterior::Posterior;
use crate::problem::Problem;
use crate::registry::Registry;
use crate::rng::Key;
use crate::settings::{Setting, Settings, Value};
use std::fmt::Debug;

/// What a fit gives: the posterior, and how it went.
#[derive(Debug)]
pub struct Fit {
    /// The approximation of p(w | D).
    pub posterior: Box<dyn Posterior>,
    /// Steps, seconds, the objective and its parts epoch by epoch.
    pub summary: FitSummary,
}

/// An inference method with its settings checked.
pub trait Method: Send + Sync + Debug {
    /// The name in [`METHODS`].
    fn name(&self) -> &'static str;

    /// The settings it was made with.
    fn settings(&self) -> &Settings;

    /// The likelihood of real outcomes where the user names none.
    fn real_likelihood(&self) -> &'static str {
        "gaussian"
    }

    /// The network it is for, given the user's, which is [`Recipe::default`](crate::model::Recipe)'s where there is none.
    fn network(&self, given: &NetworkSpec) -> Result<NetworkSpec> {
        Ok(given.clone())
    }

    /// Bytes that a fit of the problem holds at its peak, about and rather more: what memory is asked for before it begins. Methods
    /// with matrices ask for these themselves, with advice of their own.
    fn bytes(&self, problem: &Problem) -> u128 {
        let batch = self.settings().typed("batch_size").unwrap_or(problem.data().rows);
        needs::by_gradient(problem, batch, 12)
    }

    /// Approximates the problem's posterior. The same key gives the same bits.
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit>;

    /// Itself, if it can sample any density and not only a network's.
    fn sampler(&self) -> Option<&dyn Sampler> {
        None
    }
}

/// Refuses a fit for which there is not enough memory (see [`memory`](crate::memory)), before it allocates any.
pub fn check_memory(method: &dyn Method, problem: &Problem) -> Result<()> {
    let what = format!("{} on {} parameters", method.name(), problem.dim());
    let fix =
        "make the network smaller, use fewer rows, or choose a method that keeps less for each parameter, such as map";
    crate::memory::request(method.bytes(problem), what, fix)
}

/// A row of [`METHODS`].
#[derive(Debug, Clone, Copy)]
pub struct MethodEntry {
    /// What a user writes.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// What the draws of its posterior are.
    pub gives: &'static str,
    /// Its settings.
    pub settings: &'static [Setting],
    /// Makes the method from checked settings.
    pub build: fn(Settings) -> Box<dyn Method>,
}

/// Every method. The program, the documentation and the conformance tests iterate this table.
pub const METHODS: &[MethodEntry] = &[
    map::ML,
    map::MAP,
    mean_field::ENTRY,
    low_rank::ENTRY,
    full_covariance::ENTRY,
    mixture::ENTRY,
    ensemble::ENTRY,
    bootstrap::ENTRY,
    swag::ENTRY,
    linear::ENTRY,
    last_layer::ENTRY,
    laplace::ENTRY,
    ivon::ENTRY,
    bbvi::ENTRY,
    mc_dropout::ENTRY,
    gaussian_dropout::GAUSSIAN,
    gaussian_dropout::VARIATIONAL,
    sparse_dropout::ENTRY,
    moments::ENTRY,
    hmc::ENTRY,
    #[cfg(feature = "nuts")]
    nuts::ENTRY,
    #[cfg(feature = "nuts")]
    mclmc::ENTRY,
    metropolis::ENTRY,
    annealing::ENTRY,
    sgld::ENTRY,
    sghmc::ENTRY,
    importance::ENTRY,
];

impl MethodEntry {
    /// Checks settings and makes the method.
    pub fn configure(&self, given: &[(String, Value)]) -> Result<Box<dyn Method>> {
        let settings = Settings::resolve(self.settings, given, &format!("method '{}'", self.name))?;
        Ok((self.build)(settings))
    }
}

static REGISTERED: Registry<MethodEntry> = Registry::new("method", METHODS, |m| m.name);

/// Every method, those of other crates included.
pub fn methods() -> Vec<&'static MethodEntry> {
    REGISTERED.all()
}

/// Adds a method of another crate: it is then found by its name, in configurations and model files too. An error where the name is taken.
pub fn register_method(entry: MethodEntry) -> Result<()> {
    REGISTERED.add(entry)
}

/// Methods of the feature `nuts`.
const NUTS: [&str; 2] = ["nuts", "mclmc"];

pub(crate) fn not_built(name: &str) -> Error {
    let what = format!("this build of posterior does not have the method '{name}'");
    Error::setting(what, "build it with the cargo feature 'nuts', or use 'hmc'")
}

/// A method by name.
pub fn find(name: &str) -> Result<&'static MethodEntry> {
    find_beside(name, &[])
}

/// A method by name; the error about an unknown one knows of `others` too.
pub(crate) fn find_beside(name: &str, others: &[&str]) -> Result<&'static MethodEntry> {
    if !cfg!(feature = "nuts") && NUTS.contains(&name) && REGISTERED.get(name).is_none() {
        return Err(not_built(name));
    }
    REGISTERED.get(name).ok_or_else(|| REGISTERED.unknown(name, others))
}
