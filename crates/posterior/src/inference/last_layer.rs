//! Deterministic features and a Bayesian last layer: f(x) = φ(x)ᵀW + b with φ from a MAP fit, full-covariance over W, b.
//!
//! (a) The whole network is fitted by MAP. (b) φ(x) of all rows is what goes into its last layer. (c) Given φ the model is
//! linear. With normal noise, kept at its MAP scale, and a normal prior its posterior is exact: Σ = (ΦᵀΦ/σ² + S⁻¹)⁻¹,
//! μ = ΣΦᵀy/σ², one block per target (`exact/linear.rs`). Otherwise q = N(m, L Lᵀ) over the last layer and the likelihood's own
//! parameters is fitted by variational inference, from the MAP values on. The evidence, or its bound, is that of the linear model.
//!
//! Reference: Snoek et al. (2015), ICML. Cost: a MAP fit, one pass over the rows, and N k² + k³ for k features, or steps of
//! some n² for n parameters of the last layer.

use super::full_covariance;
use super::map;
use super::observer::Observer;
use super::train::{FitSummary, has_training, training_fields};
use super::variational::elbo;
use super::{Fit, Method, MethodEntry};
use crate::Precision;
use crate::data::{Dataset, Values};
use crate::error::{Error, Result};
use crate::exact::LinearRegression;
use crate::family::{FullCovariance, packed_len};
use crate::math::linalg::Cholesky;
use crate::math::{MatRef, Threads};
use crate::nn::{Activation, AffineKind, AnyNetwork, Dense, Graph, Mode, Op, Pass, Shape};
use crate::optim::Decay;
use crate::posterior::FullCovariancePosterior;
use crate::problem::{Problem, full_layout};
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};
use std::sync::Arc;

crate::options! {
    /// A Bayesian last layer on the features of a MAP network.
    pub struct LastLayer: "last-layer" {
        ..training_fields!,
        /// passes over the data for the last layer where it is not exact; 0 means as many as epochs
        vi_epochs: usize = 0 => Int(0, 1_000_000),
        /// K: weights drawn per step
        samples: usize = 1 => Int(1, 10_000),
    }
}
has_training!(LastLayer);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: LastLayer::NAME,
    summary: "a MAP network whose last layer is Bayesian: exact for normal noise, else full-covariance variational",
    gives: "a full-covariance Gaussian over the last layer",
    settings: LastLayer::SETTINGS,
    build: |settings| Box::new(Checked::<LastLayer>::from(settings)),
};

/// Rows of a pass for features: bounds the memory of activations.
const ROWS: usize = 1024;

/// The last layer of a network: where its parameters stand, and its size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub start: usize,
    pub inputs: usize,
    pub outputs: usize,
}

impl Last {
    /// The last layer has to be a dense one without an activation, as [`crate::nn::NetworkSpec`] makes it.
    pub fn of(method: &str, network: &dyn AnyNetwork) -> Result<Last> {
        if let Some(last) = network.output_block()
            && last.kind == AffineKind::Dense
            && last.activation == Activation::Identity
        {
            return Ok(Last { start: last.start, inputs: last.inputs, outputs: last.units });
        }
        let lines = network.describe();
        let last = lines.last().map_or("nothing", String::as_str);
        Err(Error::setting(
            format!("{method} needs a network that ends in a dense layer without activation, and this ends in {last}"),
            "add one, or use mean-field",
        ))
    }

    pub fn len(&self) -> usize {
        (self.inputs + 1) * self.outputs
    }

    /// Where feature i of a target stands, from the layer's start on: W is in × out, and b comes after it like one more row.
    pub fn at(&self, i: usize, target: usize) -> usize {
        i * self.outputs + target
    }
}

/// φ of all rows.
fn features<R: Precision>(problem: &Problem, last: Last, w: &[f32]) -> Vec<R> {
    let (network, data) = (R::network(&**problem.network()), problem.data());
    let width = data.shape.len();
    let w: Vec<R> = w[..problem.network().layout().len()].iter().map(|v| R::of(f64::from(*v))).collect();
    let x = data.x.to::<R>();
    let mut workspace = network.workspace(ROWS.min(data.rows));
    let mut out = Vec::with_capacity(data.rows * last.inputs);
    for (i, x) in x.chunks(ROWS * width).enumerate() {
        let rows = x.len() / width;
        let pass = Pass { mode: Mode::Plain, layer: 0, first_row: (i * ROWS) as u64, threads: Threads::Pool };
        network.forward(w[..].into(), MatRef::new(x, rows, width), &pass, &mut workspace);
        out.extend_from_slice(workspace.last_input().map_or(x, |f| &f[..rows * last.inputs]));
    }
    out
}

/// The prior's mean and standard deviation of every parameter of the last layer, if it is normal.
pub(super) fn normal_prior(problem: &Problem, last: Last) -> Option<Vec<(f64, f64)>> {
    let mut out = Vec::with_capacity(last.len());
    let end = last.start + last.len();
    for (range, density) in problem.prior().blocks().iter().filter(|(r, _)| r.start >= last.start && r.end <= end) {
        let normal = density.as_normal()?;
        out.extend((0..range.len()).map(|i| normal.at(i)));
    }
    Some(out)
}

/// φ of all rows, and a 1 behind each for the bias.
pub(super) fn features_and_one(problem: &Problem, last: Last, w: &[f32]) -> Vec<f64> {
    let mut all = Vec::with_capacity(problem.data().rows * (last.inputs + 1));
    for row in features::<f64>(problem, last, w).chunks(last.inputs) {
        all.extend_from_slice(row);
        all.push(1.0);
    }
    all
}

/// The exact posterior of the last layer, target by target, from what [`features_and_one`] gives, and the KL of them all to the prior.
pub(super) fn exact(
    problem: &Problem,
    last: Last,
    with_bias: &[f64],
    variances: &[f64],
    prior: &[(f64, f64)],
) -> Result<(Vec<LinearRegression>, f64)> {
    let (data, k) = (problem.data(), last.inputs + 1);
    let (mut fits, mut kl) = (Vec::with_capacity(last.outputs), 0.0);
    for target in 0..last.outputs {
        let y: Vec<f64> = data.y.iter().skip(target).step_by(last.outputs).copied().collect();
        let (prior_mean, precision): (Vec<f64>, Vec<f64>) =
            (0..k).map(|i| prior[last.at(i, target)]).map(|(mean, std)| (mean, 1.0 / (std * std))).unzip();
        let features = MatRef::new(with_bias, data.rows, k);
        let weights = data.weights.as_deref();
        let fit = LinearRegression::fit(features, &y, weights, variances[target], &prior_mean, &precision)?;
        kl += fit.kl(&prior_mean, &precision);
        fits.push(fit);
    }
    Ok((fits, kl))
}

/// Means of all targets in the order of w.
pub(super) fn means(last: Last, fits: &[LinearRegression]) -> Vec<f32> {
    let mut mean = vec![0.0; last.len()];
    for (target, fit) in fits.iter().enumerate() {
        fit.mean().iter().enumerate().for_each(|(i, m)| mean[last.at(i, target)] = *m as f32);
    }
    mean
}

/// L of all targets in the order of w, row after row, each up to its diagonal.
fn lower(last: Last, fits: &[LinearRegression]) -> Result<Vec<f32>> {
    let (k, mut lower) = (last.inputs + 1, vec![0.0; packed_len(last.len()).unwrap_or(0)]);
    for (target, fit) in fits.iter().enumerate() {
        // Targets are independent and each one's parameters stand in the order of its features: so L's rows interleave.
        let root = Cholesky::new(&fit.covariance(), k)?;
        for i in 0..k {
            let at = last.at(i, target);
            let row = at * (at + 1) / 2;
            (0..=i).for_each(|j| lower[row + last.at(j, target)] = root.factor()[i * k + j] as f32);
        }
    }
    Ok(lower)
}

/// The model of the outcomes given φ: one dense layer, the same likelihood, the prior of the last blocks.
fn features_problem(problem: &Problem, last: Last, w: &[f32]) -> Result<Problem> {
    let (shape, data) = (Shape::Flat(last.inputs), problem.data());
    let dense = Dense::new(shape, last.outputs, Activation::Identity);
    let network: Arc<dyn AnyNetwork> = Arc::new(Graph::chain(vec![Op::affine(dense)])?);
    let layout = full_layout(&*network, &**problem.likelihood());
    let x = Values::F32(features::<f32>(problem, last, w).into());
    let data = Dataset { x, shape, ..data.clone() };
    Problem::new(network, problem.likelihood().clone(), problem.prior().of_last_blocks(&layout), data)
}

impl LastLayer {
    /// The options of the variational fit of the last layer.
    fn variational(&self) -> full_covariance::FullCovariance {
        full_covariance::FullCovariance {
            epochs: if self.vi_epochs > 0 { self.vi_epochs } else { self.epochs },
            batch_size: self.batch_size,
            learning_rate: self.learning_rate,
            schedule: self.schedule,
            warmup: self.warmup,
            patience: self.patience,
            samples: self.samples,
            // It starts at a mode already: nothing to be found before the prior counts.
            kl_warmup: 0.0,
            ..Default::default()
        }
    }
}

impl Method for Checked<LastLayer> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        // Beside the matrix of the last layer, which it asks for itself. Measured: 21.5 numbers a parameter, most of them while the posterior of the
        // last layer is made beside what the training left.
        super::needs::by_gradient(problem, self.batch_size, 24)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &**self;
        problem.whole(ENTRY.name)?;
        let last = Last::of(ENTRY.name, &**problem.network())?;
        let uncertain = problem.dim() - last.start;
        let fix = "make the last hidden layer narrower, or use low-rank";
        FullCovariance::check(ENTRY.name, uncertain, s.samples, s.patience > 0, fix)?;
        let map = map::fit(problem, &s.into(), true, key, observer)?;
        let mut w = map.posterior.draw(key).w;
        let noise: Vec<f64> = w[last.start + last.len()..].iter().map(|v| f64::from(*v)).collect();
        let gaussian = problem.likelihood().as_gaussian(&noise).zip(normal_prior(problem, last));
        if let Some((variances, prior)) = gaussian {
            let (fits, _) = exact(problem, last, &features_and_one(problem, last, &w), &variances, &prior)?;
            w[last.start..last.start + last.len()].copy_from_slice(&means(last, &fits));
            let log_evidence = fits.iter().map(LinearRegression::log_evidence).sum();
            let posterior = FullCovariancePosterior::new(w, last.start, lower(last, &fits)?, Some(log_evidence));
            return Ok(Fit { posterior: Box::new(posterior), summary: map.summary });
        }
        let linear = features_problem(problem, last, &w)?;
        // A key that no purpose has, for a fit of its own.
        let key = key.derive(u64::MAX);
        let (mean, lower, fitted) =
            full_covariance::fit_from(&linear, &w[last.start..], &s.variational(), key, observer)?;
        w[last.start..].copy_from_slice(&mean);
        let posterior = FullCovariancePosterior::new(w, last.start, lower, elbo(&linear, &fitted));
        let summary = FitSummary {
            steps: map.summary.steps + fitted.steps,
            seconds: map.summary.seconds + fitted.seconds,
            stopped_early: map.summary.stopped_early || fitted.stopped_early,
            ..fitted
        };
        Ok(Fit { posterior: Box::new(posterior), summary })
    }
}
