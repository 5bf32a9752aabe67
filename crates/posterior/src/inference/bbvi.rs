//! Black-box variational inference: a mean-field Gaussian fitted without any gradient of the model.
//!
//! ∇ELBO = E_q[f(w) ∇ log q(w)], f(w) = log p(D | w) + β (log p(w) − log q(w)), estimated from S draws per step, with a control variate
//! for each parameter ([`ScoreFunction`]); Adam ascends in m and ρ, σ = softplus(ρ). Ranganath, Gerrish & Blei, Black Box
//! Variational Inference, AISTATS 2014. It asks nothing of the model but values, and pays in variance, which grows with the number of
//! parameters: `mean-field` reaches the same optimum in far fewer steps wherever there are gradients.
//! Cost per step: S forward passes, S·P random numbers, which are kept, and two passes over them.

use super::observer::Observer;
use super::train::{StepPlan, Stepper, Tempering, has_training, train, training_fields};
use super::variational::{
    InitialMean, InitialScaling, RecordedKl, elbo, initial_mean, initial_std, variational_fields,
};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::family::{ScoreFunction, inverse_softplus};
use crate::math::Real;
use crate::math::special::HALF_LN_TAU;
use crate::nn::Mode;
use crate::optim::{Adam, Decay};
use crate::posterior::MeanFieldPosterior;
use crate::problem::{Density, Problem, Rows};
use crate::rng::{Key, Purpose, fill_normals_par};
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::simd_fn;
use crate::snapshot::{State, Stateful};

crate::options! {
    /// Black-box variational inference by the score function.
    pub struct BlackBox: "bbvi" {
        ..training_fields!,
        /// S: weights drawn per step; their noise is kept, so memory grows with it
        samples: usize = 16 => Int(1, 1000),
        /// whether the gradient's variance is lowered by what the other draws of a step say
        control_variate: bool = true,
        ..variational_fields!,
    }
}
has_training!(BlackBox);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: BlackBox::NAME,
    summary: "black-box variational inference: a Gaussian for every weight, by the score function, without gradients",
    gives: "a diagonal Gaussian",
    settings: BlackBox::SETTINGS,
    build: |settings| Box::new(Checked::<BlackBox>::from(settings)),
};

/// σ never falls below: 1/σ stays finite.
const STD_FLOOR: f32 = 1e-9;

/// q, without what the optimiser keeps.
#[derive(Debug, Clone, Default)]
struct Gaussian {
    mean: Vec<f32>,
    rho: Vec<f32>,
}

/// The state of a fit.
pub struct BlackBoxTrainer<'p> {
    density: Density<'p, f32>,
    estimator: ScoreFunction,
    q: Gaussian,
    std: Vec<f32>,
    w: Vec<f32>,
    /// ε, draw after draw.
    noise: Vec<f32>,
    values: Vec<f64>,
    d_mean: Vec<f32>,
    d_std: Vec<f32>,
    adams: [Adam; 2],
    kl: RecordedKl,
    kept: Gaussian,
    weights: Key,
    masks: Key,
}

simd_fn! {
    fn stds(rho: &[f32], std: &mut [f32]) {
        let rho = &rho[..std.len()];
        for i in 0..rho.len() {
            std[i] = rho[i].softplus::<F>().max(STD_FLOOR);
        }
    }
}

simd_fn! {
    /// w = m + σε
    fn shift(mean: &[f32], std: &[f32], noise: &[f32], w: &mut [f32]) {
        let n = w.len();
        let (mean, std, noise) = (&mean[..n], &std[..n], &noise[..n]);
        for i in 0..n {
            w[i] = Real::mul_add::<F>(std[i], noise[i], mean[i]);
        }
    }
}

simd_fn! {
    /// From the gradient in σ to that in ρ: times d softplus/dρ = sigmoid(ρ).
    fn chain_to_rho(rho: &[f32], gradient: &mut [f32]) {
        let rho = &rho[..gradient.len()];
        for i in 0..rho.len() {
            gradient[i] *= rho[i].sigmoid::<F>();
        }
    }
}

impl<'p> BlackBoxTrainer<'p> {
    /// Starts at q = N(mean, std²). A step draws `samples` weights and has at most `batch_size` rows.
    pub fn new(
        problem: &'p Problem,
        mean: &[f32],
        std: &[f32],
        estimator: ScoreFunction,
        samples: usize,
        batch_size: usize,
        key: Key,
    ) -> Self {
        let (dim, rho) = (mean.len(), std.iter().map(|s| inverse_softplus(f64::from(*s)) as f32).collect());
        BlackBoxTrainer {
            density: problem.density(batch_size),
            estimator,
            q: Gaussian { mean: mean.to_vec(), rho },
            std: std.to_vec(),
            w: vec![0.0; dim],
            noise: vec![0.0; samples * dim],
            values: vec![0.0; samples],
            d_mean: vec![0.0; dim],
            d_std: vec![0.0; dim],
            adams: [Adam::new(dim), Adam::new(dim)],
            kl: RecordedKl::default(),
            kept: Gaussian::default(),
            weights: key.purpose(Purpose::Weights),
            masks: key.purpose(Purpose::Mask),
        }
    }

    /// One step; returns the estimate of E_q[log p(D | w)] before it. Allocates nothing.
    pub fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        let value = self.estimate(rows, plan);
        chain_to_rho(&self.q.rho, &mut self.d_std);
        let [in_mean, in_rho] = &mut self.adams;
        in_mean.ascend(&mut self.q.mean, &self.d_mean, &[], plan.rate);
        in_rho.ascend(&mut self.q.rho, &self.d_std, &[], plan.rate);
        value
    }

    /// The estimate of E_q[log p(D | w)], with the gradient of the ELBO in m and σ left in [`BlackBoxTrainer::gradient`].
    pub fn estimate(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        let (dim, share) = (self.w.len(), 1.0 / self.values.len() as f64);
        stds(&self.q.rho, &mut self.std);
        let log_scale: f64 = self.std.iter().map(|s| f64::from(*s).ln()).sum::<f64>() + dim as f64 * HALF_LN_TAU;
        let prior = self.density.problem().prior();
        let (mut value, mut kl) = (0.0, 0.0);
        for (k, (f, noise)) in self.values.iter_mut().zip(self.noise.chunks_exact_mut(dim)).enumerate() {
            fill_normals_par(self.weights.step(plan.step).derive(k as u64), noise);
            shift(&self.q.mean, &self.std, noise, &mut self.w);
            let log_q = -0.5 * noise.iter().map(|e| f64::from(*e).powi(2)).sum::<f64>() - log_scale;
            let log_prior = prior.log_density(&self.w, 1.0, None);
            let mode = Mode::Train(self.masks.step(plan.step).derive(k as u64));
            let log_likelihood = self.density.log_likelihood(&self.w, rows, mode, None);
            *f = log_likelihood + plan.beta * (log_prior - log_q);
            value += share * log_likelihood;
            kl += share * (log_q - log_prior);
        }
        self.kl.record(kl);
        self.estimator.gradient(&self.values, &self.noise, &self.std, &mut self.d_mean, &mut self.d_std);
        value
    }

    /// What [`BlackBoxTrainer::estimate`] has found: the gradient in m and in σ.
    pub fn gradient(&self) -> (&[f32], &[f32]) {
        (&self.d_mean, &self.d_std)
    }

    /// Means and standard deviations of q.
    pub fn moments(&self) -> (Vec<f32>, Vec<f32>) {
        let mut std = vec![0.0; self.q.rho.len()];
        stds(&self.q.rho, &mut std);
        (self.q.mean.clone(), std)
    }
}

impl Stateful for BlackBoxTrainer<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        let dim = self.q.mean.len();
        state.array("mean", &mut self.q.mean)?;
        state.array("rho", &mut self.q.rho)?;
        let [in_mean, in_rho] = &mut self.adams;
        state.part("adam_mean", in_mean)?;
        state.part("adam_rho", in_rho)?;
        state.part("kl", &mut self.kl)?;
        state.array_or_none("kept_mean", &mut self.kept.mean, dim)?;
        state.array_or_none("kept_rho", &mut self.kept.rho, dim)
    }
}

impl Stepper for BlackBoxTrainer<'_> {
    fn kind(&self) -> &'static str {
        "bbvi"
    }
    fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        BlackBoxTrainer::step(self, rows, plan)
    }
    fn penalty(&mut self) -> f64 {
        // Closed where it can be, which has no noise; else as the draws have it.
        let (mean, std) = self.moments();
        let estimate = self.kl.take_mean();
        self.density.problem().prior().kl_from_normal(&mean, &std).unwrap_or(estimate)
    }
    fn penalty_name(&self) -> &'static str {
        "KL"
    }
    fn keep(&mut self) {
        self.kept.clone_from(&self.q);
    }
    fn restore(&mut self) {
        self.q.clone_from(&self.kept);
    }
    fn is_finite(&self) -> bool {
        self.q.mean.iter().chain(&self.q.rho).all(|v| v.is_finite())
    }
}

impl Method for Checked<BlackBox> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_row_noise(problem, self.batch_size, 24)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let (s, training) = (&**self, (&**self).into());
        let (mean, std) = (
            initial_mean(problem, s.initial_mean, &training, key, observer)?,
            initial_std(problem.layout(), s.initial_std, s.initial_scaling),
        );
        let estimator = ScoreFunction { control_variate: s.control_variate };
        let (samples, batch_size) = (s.samples, s.batch_size);
        let mut trainer = BlackBoxTrainer::new(problem, &mean, &std, estimator, samples, batch_size, key);
        let tempering = Tempering { beta: s.beta, warmup: s.kl_warmup };
        let summary = train(&mut trainer, problem, &training, &tempering, key, observer)?;
        let (mean, std) = trainer.moments();
        Ok(Fit { posterior: Box::new(MeanFieldPosterior::new(mean, std, elbo(problem, &summary))), summary })
    }
}
