//! p(y | f): how outcomes scatter around the network's outputs. One file per likelihood, one line each in [`LIKELIHOODS`].

mod bernoulli;
mod categorical;
pub(crate) mod closed_form;
mod cubature;
mod gaussian;
mod heteroscedastic;
mod noise;
mod pointwise;
mod poisson;
mod sites;
mod special;
mod student_t;
#[cfg(test)]
mod tests;

pub use crate::math::special::Standard;
pub use bernoulli::{Bernoulli, BernoulliOptions};
pub use categorical::{Categorical, CategoricalOptions};
pub use closed_form::{ClosedForm, NormalPart, mean_logistic, normal_nodes, probit_logistic};
pub use cubature::{BeliefGradient, Beliefs, Cubature};
pub use gaussian::{Gaussian, GaussianOptions};
pub use heteroscedastic::{Heteroscedastic, HeteroscedasticOptions};
pub use noise::Noise;
pub use poisson::{Poisson, PoissonOptions};
pub use sites::AtSites;
pub use student_t::{StudentT, StudentTOptions};

use crate::error::{Error, Result};
use crate::math::Real;
use crate::nn::BlockSpec;
use crate::registry::Registry;
use crate::rng::Stream;
use crate::settings::{Setting, Settings};
use std::fmt::Debug;
use std::sync::Arc;

/// What kind of thing y is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A real number; standardised before the fit.
    Real,
    /// 0, 1, 2, …; left as it is.
    Count,
    /// One of so many classes, numbered from 0.
    Class,
}

/// Where the gradient of a log-likelihood goes.
#[derive(Debug)]
pub struct LikelihoodGradient<'a, R> {
    /// scale·weight·d log p/df per row, `rows × outputs`; overwritten.
    pub d_f: &'a mut [R],
    /// d/d noise, one number per noise parameter; added to, in f64.
    pub d_noise: &'a mut [f64],
}

/// The arithmetic of a likelihood in one precision. `f` is `rows × sites() × outputs()`, `y` is `rows × sites() × targets()`, both row-major;
/// `noise` holds the likelihood's own parameters in unconstrained form. Classes are stored as numbers in `y`.
pub trait LikelihoodOps<R: Real>: Send + Sync {
    /// scale · Σₙ weightₙ · log p(yₙ | fₙ), with normalising constants, summed in f64; and its gradient, if wanted.
    fn log_prob(
        &self,
        f: &[R],
        y: &[R],
        noise: &[R],
        weights: Option<&[R]>,
        scale: f64,
        gradient: Option<LikelihoodGradient<'_, R>>,
    ) -> f64;
}

/// A likelihood. Methods without a precision work on single sites in f64, which are rows unless images are predicted: predictives, scores, tests.
pub trait Likelihood: LikelihoodOps<f32> + LikelihoodOps<f64> + Debug {
    /// The name in [`LIKELIHOODS`].
    fn name(&self) -> &'static str;
    /// The settings it was made with.
    fn settings(&self) -> &Settings;
    /// What y is.
    fn outcome(&self) -> Outcome;
    /// Sites of a row: 1 for a row of a table, as many as pixels for an image that is predicted ([`AtSites`]). Everything else is told of one site.
    fn sites(&self) -> usize {
        1
    }
    /// Numbers per site in y.
    fn targets(&self) -> usize;
    /// Numbers per site in f.
    fn outputs(&self) -> usize;
    /// Which of the outputs give the noise, where the network does.
    fn noise_outputs(&self) -> std::ops::Range<usize> {
        0..0
    }
    /// Classes, for [`Outcome::Class`]; else 0.
    fn classes(&self) -> usize {
        0
    }
    /// Its own parameters, in unconstrained form.
    fn blocks(&self) -> Vec<BlockSpec> {
        Vec::new()
    }
    /// Prior mean and standard deviation of its own parameters (normal in the unconstrained form).
    fn noise_prior(&self) -> (f64, f64) {
        (0.0, 1.0)
    }
    /// Where a fit starts its own parameters (unconstrained form).
    fn initial_noise(&self) -> f64 {
        0.0
    }
    /// The noise variance of every target where y = f + normal noise that is the same for all rows: linear models are then exact.
    fn as_gaussian(&self, _noise: &[f64]) -> Option<Vec<f64>> {
        None
    }
    /// Whether every target is normal given f, with the mean and variance that [`Likelihood::moments`] tells.
    fn is_normal(&self) -> bool {
        false
    }
    /// The distribution of (y_target − mean)/scale given f where it is the same for every f, with scale² the variance that [`Likelihood::moments`] tells over the
    /// standard distribution's own: quantiles and scores of many draws are then fast.
    fn standard(&self) -> Option<&Standard> {
        self.is_normal().then(Standard::normal)
    }
    /// Gaussian outputs as a mixture of normals, where that is exact or a sum of stated error; without it they are met at points of f.
    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        None
    }
    /// log p(y | f) of one row.
    fn log_prob_row(&self, f: &[f64], y: &[f64], noise: &[f64]) -> f64;
    /// log p(y_target | f) of one of several targets; none where the likelihood does not tell it.
    fn log_prob_target(&self, _target: usize, f: &[f64], y: f64, noise: &[f64]) -> Option<f64> {
        (self.targets() == 1).then(|| self.log_prob_row(f, &[y], noise))
    }
    /// −d² log p/df² of one row, `outputs × outputs`; its expectation under p(y|f) where that makes it positive
    /// semi-definite (the generalised Gauss–Newton matrix needs it so).
    fn hessian_row(&self, f: &[f64], y: &[f64], noise: &[f64], out: &mut [f64]);
    /// [`Likelihood::hessian_row`] as diag(d) − v vᵀ, where it has this form and that saves work; returns whether it has.
    fn hessian_parts(&self, _f: &[f64], _diagonal: &mut [f64], _vector: &mut [f64]) -> bool {
        false
    }
    /// Mean and variance of every target given f, for real and count outcomes; of the class number for classes.
    fn moments(&self, f: &[f64], noise: &[f64], mean: &mut [f64], variance: &mut [f64]);
    /// [`Likelihood::moments`] of several rows under the same noise. Overridden where the noise need not be worked out anew
    /// for every row.
    fn moments_rows(&self, f: &[f32], noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        let (outputs, targets) = (self.outputs(), self.targets());
        let mut wide = vec![0.0; outputs];
        let rows = mean.chunks_exact_mut(targets).zip(variance.chunks_exact_mut(targets));
        for (f, (mean, variance)) in f.chunks_exact(outputs).zip(rows) {
            wide.iter_mut().zip(f).for_each(|(w, f)| *w = f64::from(*f));
            self.moments(&wide, noise, mean, variance);
        }
    }
    /// P(y_target ≤ value | f), for real and count outcomes; of the class number for classes.
    fn cdf(&self, target: usize, value: f64, f: &[f64], noise: &[f64]) -> f64;
    /// [`Likelihood::cdf`] of counts, continued to all numbers: the same at whole numbers, and as smooth as can be between them. A straight line unless overridden.
    fn smooth_cdf(&self, target: usize, value: f64, f: &[f64], noise: &[f64]) -> f64 {
        let (below, part) = (value.floor(), value - value.floor());
        let at = self.cdf(target, below, f, noise);
        if part == 0.0 { at } else { at + part * (self.cdf(target, below + 1.0, f, noise) - at) }
    }
    /// Class probabilities given f, for class outcomes; others have no classes and leave `out` alone.
    fn probabilities(&self, f: &[f64], out: &mut [f64]);
    /// One outcome drawn from p(y | f).
    fn sample(&self, f: &[f64], noise: &[f64], stream: &mut Stream, y: &mut [f64]);
}

/// A row of [`LIKELIHOODS`].
#[derive(Debug, Clone, Copy)]
pub struct LikelihoodEntry {
    /// What a user writes.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// Its settings.
    pub settings: &'static [Setting],
    /// What outcomes it is for.
    pub outcome: Outcome,
    /// Makes one for `width` targets (real, count) or `width` classes.
    pub build: fn(&Settings, width: usize) -> Result<Arc<dyn Likelihood>>,
}

/// Every likelihood there is.
pub const LIKELIHOODS: &[LikelihoodEntry] =
    &[gaussian::ENTRY, heteroscedastic::ENTRY, categorical::ENTRY, bernoulli::ENTRY, poisson::ENTRY, student_t::ENTRY];

static REGISTERED: Registry<LikelihoodEntry> = Registry::new("likelihood", LIKELIHOODS, |l| l.name);

/// Every likelihood, those of other crates included.
pub fn likelihoods() -> Vec<&'static LikelihoodEntry> {
    REGISTERED.all()
}

/// Adds a likelihood of another crate: it is then found by its name, in configurations and model files too. An error where the name is taken.
pub fn register_likelihood(entry: LikelihoodEntry) -> Result<()> {
    REGISTERED.add(entry)
}

/// The row of that name; an unknown name is an error that tells the nearest one.
pub fn find(name: &str) -> Result<&'static LikelihoodEntry> {
    REGISTERED.find(name)
}

/// The likelihood for outcomes of this kind when the user names none.
pub fn default_for(outcome: Outcome, classes: usize) -> &'static str {
    match outcome {
        Outcome::Real => "gaussian",
        Outcome::Count => "poisson",
        Outcome::Class if classes == 2 => "bernoulli",
        Outcome::Class => "categorical",
    }
}

fn require_targets(name: &str, targets: usize) -> Result<()> {
    if targets == 0 {
        return Err(Error::setting(
            format!("the likelihood '{name}' has no target"),
            "name at least one target column",
        ));
    }
    Ok(())
}

/// The two halves of a gradient, each if wanted.
fn split<R>(gradient: Option<LikelihoodGradient<'_, R>>) -> (Option<&mut [R]>, Option<&mut [f64]>) {
    match gradient {
        Some(LikelihoodGradient { d_f, d_noise }) => (Some(d_f), Some(d_noise)),
        None => (None, None),
    }
}

/// Fills a `size × size` matrix with a diagonal.
fn diagonal(out: &mut [f64], size: usize, entry: impl Fn(usize) -> f64) {
    out.fill(0.0);
    for i in 0..size {
        out[i * size + i] = entry(i);
    }
}
