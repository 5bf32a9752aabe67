//! Exact Bayesian linear regression on fixed features: y = φ(x)ᵀw + b + ε, ε ~ N(0, σ²), w ~ N(0, s²S).
//!
//! The features are layers that learn nothing: the inputs themselves (polynomials of degree 1), polynomials, Fourier or random waves
//! (`nn/features.rs`); the model is one dense layer behind them. Posterior, predictive and log p(D) are closed (`exact/linear.rs`,
//! `predict/linearised.rs`); the scale s
//! of the weights' prior and the noise σ are those of the highest evidence (`exact/evidence.rs`), unless they are held. The prior of the bias is
//! not scaled; that of ln σ is not used, since σ is not averaged over.
//!
//! Reference: Bishop (2006), Pattern Recognition and Machine Learning, 3.3 to 3.5; MacKay (1992). Cost: N k² + k³ per step of the climb,
//! for k features.

use super::last_layer::{Last, exact, features_and_one, means, normal_prior};
use super::observer::Observer;
use super::train::{EpochRecord, FitSummary};
use super::{Fit, Method, MethodEntry};
use crate::error::{Error, Result};
use crate::exact::{LinearRegression, LinearStatistics, Scales};
use crate::family::FullCovariance;
use crate::math::MatRef;
use crate::math::linalg::{Cholesky, Eigen};
use crate::nn::{LayerSpec, NetworkSpec};
use crate::posterior::{BlockGaussian, ExactGaussian, GaussianBlock, Posterior};
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};
use std::time::Instant;

crate::word_enum! {
    /// What a model is linear in.
    pub enum Features {
        /// Products of inputs up to a degree.
        Polynomial = "polynomial",
        /// Sines and cosines of each input.
        Fourier = "fourier",
        /// Random waves.
        Random = "random",
        /// The inputs, or the network that is given.
        Raw = "raw",
    }
}

crate::word_enum! {
    /// How a linear model predicts.
    pub enum LinearPredictive {
        /// In closed form.
        Linearised = "linearised",
        /// From weights drawn.
        Sampling = "sampling",
    }
}

crate::options! {
    /// Bayesian linear regression in closed form.
    pub struct Linear: "linear" {
        /// what the model is linear in: polynomials (of degree 1: the inputs), sines and cosines, random waves, or the inputs
        features: Features = Features::Polynomial,
        /// of polynomial features, all inputs together; 0 is a constant
        degree: usize = 1 => Int(0, 30),
        /// of Fourier features: harmonics per input
        frequencies: usize = 5 => Int(1, 10_000),
        /// of Fourier features: that of the lowest, in standard deviations of the input
        period: f64 = 8.0 => Above(0.0, 1e6),
        /// of random features
        count: usize = 200 => Int(1, 65_536),
        /// of random features: over how many standard deviations of the input functions change
        length_scale: f64 = 1.0 => Above(0.0, 1e6),
        /// which random features
        features_seed: usize = 0 => Int(0, i64::MAX),
        /// in closed form (a linear model is its own linearisation), or from weights drawn
        predictive: LinearPredictive = LinearPredictive::Linearised,
        /// whether the evidence scales the prior's weight_std; the noise is held by likelihood.noise=fixed
        learn_prior: bool = true,
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Linear::NAME,
    summary: "exact Bayesian linear regression on polynomial, Fourier or random features; log evidence",
    gives: "a Gaussian with a full covariance, exact",
    settings: Linear::SETTINGS,
    build: |settings| Box::new(Checked::<Linear>::from(settings)),
};

impl Checked<Linear> {
    /// The features as layers.
    fn layers(&self) -> NetworkSpec {
        let s = &**self;
        let layer = match s.features {
            Features::Fourier => LayerSpec::Fourier { frequencies: s.frequencies, period: s.period },
            Features::Random => {
                LayerSpec::RandomFeatures { count: s.count, length_scale: s.length_scale, seed: s.features_seed as u64 }
            }
            Features::Polynomial if s.degree != 1 => LayerSpec::Polynomial { degree: s.degree },
            Features::Polynomial | Features::Raw => return NetworkSpec { layers: Vec::new() },
        };
        NetworkSpec { layers: vec![layer] }
    }

    /// The parts of the model that have to be normal, or what is in the way.
    fn check(&self, problem: &Problem) -> Result<(Last, Vec<(f64, f64)>)> {
        let last = Last::of(ENTRY.name, &**problem.network())?;
        if last.start > 0 {
            return Err(Error::setting(
                "linear has no hidden layers to learn, and this network has",
                "leave ⟨network⟩ out and choose ⟨set features=…⟩, or use last-layer",
            ));
        }
        let noise = vec![problem.likelihood().initial_noise(); problem.dim() - last.len()];
        if problem.likelihood().as_gaussian(&noise).is_none() {
            return Err(Error::setting(
                format!(
                    "linear is exact for normal noise alone, and the likelihood is '{}'",
                    problem.likelihood().name()
                ),
                "use last-layer or mean-field with ⟨network=linear⟩",
            ));
        }
        let prior = normal_prior(problem, last).ok_or_else(|| {
            let what =
                format!("linear is exact for a normal prior alone, and this one is '{}'", problem.prior().name());
            Error::setting(what, "use ⟨prior=normal⟩, or mean-field with ⟨network=linear⟩")
        })?;
        Ok((last, prior))
    }
}

impl Method for Checked<Linear> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn network(&self, given: &NetworkSpec) -> Result<NetworkSpec> {
        let own = self.layers();
        if *given == own || *given == NetworkSpec::default() {
            return Ok(own);
        }
        if own.layers.is_empty() {
            return Ok(given.clone());
        }
        if given.layers.is_empty() {
            return Ok(own);
        }
        Err(Error::setting(
            format!("the network and the setting features={} both say what the model is linear in", self.features),
            "leave one of them out",
        ))
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        // Beside the matrices, which it asks for itself.
        super::needs::by_gradient(problem, problem.data().rows, 4)
    }

    fn fit(&self, problem: &Problem, _: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let started = Instant::now();
        let data = problem.whole(ENTRY.name)?;
        let (last, prior) = self.check(problem)?;
        FullCovariance::check(
            ENTRY.name,
            last.len(),
            1,
            false,
            "use fewer features, or mean-field with ⟨network=linear⟩",
        )?;
        let mut w = problem.initial_zero();
        let features = features_and_one(problem, last, &w);
        let by_target: Vec<Vec<(f64, f64)>> =
            (0..last.outputs).map(|t| prior.iter().skip(t).step_by(last.outputs).copied().collect()).collect();
        let rows = MatRef::new(&features, data.rows, last.inputs + 1);
        let statistics = LinearStatistics::new(rows, &data.y, data.weights.as_deref(), &by_target);
        let own: Vec<f64> = w[last.len()..].iter().map(|v| f64::from(*v)).collect();
        let (learn_prior, learn_noise) = (self.learn_prior, !own.is_empty());
        let noise = problem.likelihood().as_gaussian(&own).unwrap_or_default().iter().map(|v| v.sqrt()).collect();
        let mut scales = Scales { prior: 1.0, noise };
        if learn_prior || learn_noise {
            scales = statistics.maximise(&scales, last.inputs, learn_prior, learn_noise)?;
            observer.warn(&told(&scales, learn_prior, learn_noise));
        }
        // What the model file keeps is single precision: the posterior is that of the noise it will find there.
        w[last.len()..].iter_mut().zip(&scales.noise).for_each(|(w, noise)| *w = noise.ln() as f32);
        let own: Vec<f64> = w[last.len()..].iter().map(|v| f64::from(*v)).collect();
        let variances = problem.likelihood().as_gaussian(&own).unwrap_or_default();
        let scaled = |(i, (mean, std)): (usize, &(f64, f64))| {
            (*mean, if i < last.inputs * last.outputs { std * scales.prior } else { *std })
        };
        let prior: Vec<(f64, f64)> = prior.iter().enumerate().map(scaled).collect();
        let (fits, kl) = exact(problem, last, &features, &variances, &prior)?;
        w[..last.len()].copy_from_slice(&means(last, &fits));
        let log_evidence = fits.iter().map(LinearRegression::log_evidence).sum();
        let (block, exact) = block(last, &fits)?;
        let posterior = BlockGaussian::new(w, vec![block], Some(log_evidence)).with_exact(exact);
        // Where q is the posterior, log p(D) = E_q[log p(D | w)] − KL[q ‖ p].
        let record = EpochRecord { epoch: 1, objective: log_evidence, nll: -log_evidence - kl, penalty: kl, beta: 1.0 };
        let summary = FitSummary {
            steps: 1,
            seconds: started.elapsed().as_secs_f64(),
            stopped_early: false,
            penalty_name: "KL".to_owned(),
            epochs: 1,
            trace: vec![record],
        };
        Ok(Fit { posterior: Box::new(posterior), summary })
    }
}

/// The posterior of a linear model after the rows of `problem`, and log p(these rows | those before); noise and features stay what they are. None where it was not kept in
/// double precision.
pub(crate) fn update(problem: &Problem, before: &BlockGaussian) -> Result<Option<(BlockGaussian, f64)>> {
    let Some(old) = before.exact() else { return Ok(None) };
    let data = problem.whole(ENTRY.name)?;
    let last = Last::of(ENTRY.name, &**problem.network())?;
    let (n, k) = (last.len(), last.inputs + 1);
    if last.start > 0 || old.mean.len() != n {
        return Ok(None);
    }
    let mut w = before.mean().to_vec();
    let own: Vec<f64> = w[n..].iter().map(|v| f64::from(*v)).collect();
    let Some(variances) = problem.likelihood().as_gaussian(&own) else { return Ok(None) };
    let features = features_and_one(problem, last, &w);
    let mut fits = Vec::with_capacity(last.outputs);
    for target in 0..last.outputs {
        let at = |i: usize| last.at(i, target);
        // Σ = F Fᵀ with F = L⁻ᵀ, so that L is the inverse of Fᵀ, which is lower triangular.
        let transposed: Vec<f64> = (0..k * k).map(|e| old.root[at(e % k) * n + at(e / k)]).collect();
        let inverse = Cholesky::from_factor(transposed, k)?.lower_inverse();
        let mean: Vec<f64> = (0..k).map(|i| old.mean[at(i)]).collect();
        let y: Vec<f64> = data.y.iter().skip(target).step_by(last.outputs).copied().collect();
        let rows = MatRef::new(&features, data.rows, k);
        let precision = Cholesky::from_factor(inverse, k)?;
        let weights = data.weights.as_deref();
        fits.push(LinearRegression::update((&mean, &precision), rows, &y, weights, variances[target])?);
    }
    w[..n].copy_from_slice(&means(last, &fits));
    let predictive: f64 = fits.iter().map(LinearRegression::log_evidence).sum();
    let (block, exact) = block(last, &fits)?;
    let evidence = before.log_evidence().map(|e| e + predictive);
    Ok(Some((BlockGaussian::new(w, vec![block], evidence).with_exact(exact), predictive)))
}

/// The covariance of all targets by its eigenvectors; and, with the means, in double precision.
fn block(last: Last, fits: &[LinearRegression]) -> Result<(GaussianBlock, ExactGaussian)> {
    let (n, k) = (last.len(), last.inputs + 1);
    let (mut left, mut std) = (vec![0.0; n * n], vec![0.0; n]);
    let mut exact = ExactGaussian { mean: vec![0.0; n], root: vec![0.0; n * n] };
    for (target, fit) in fits.iter().enumerate() {
        // Σ = A⁻¹ = L⁻ᵀL⁻¹ with A = L Lᵀ.
        let inverse = fit.precision().lower_inverse();
        for i in 0..k {
            exact.mean[last.at(i, target)] = fit.mean()[i];
            (0..k).for_each(|j| exact.root[last.at(i, target) * n + last.at(j, target)] = inverse[j * k + i]);
        }
        let eigen = Eigen::new(&fit.covariance(), k)?;
        for j in 0..k {
            let column = last.at(j, target);
            // What rounding may leave of a direction that the data pin down.
            std[column] = eigen.values()[j].max(f64::from(f32::MIN_POSITIVE)).sqrt() as f32;
            (0..k).for_each(|i| left[last.at(i, target) * n + column] = eigen.vectors()[i * k + j] as f32);
        }
    }
    let (scale, right) = (vec![1.0; n], Vec::new());
    Ok((GaussianBlock { start: 0, rows: n, columns: 1, turned: 0, scale, left, right, std }, exact))
}

/// What the evidence chose, for the user.
fn told(scales: &Scales, prior: bool, noise: bool) -> String {
    let number = |v: f64| if v >= 1e-3 { format!("{v:.4}") } else { format!("{v:.1e}") };
    let stds: Vec<String> = scales.noise.iter().map(|v| number(*v)).collect();
    let noise = noise.then(|| format!("noise_std {}", stds.join(", ")));
    let prior = prior.then(|| format!("weight_std {} times the prior's", number(scales.prior)));
    let parts: Vec<String> = prior.into_iter().chain(noise).collect();
    format!("the evidence is highest at {} (of standardised columns)", parts.join(" and "))
}
