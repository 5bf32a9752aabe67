//! Mean-field variational inference by Bayes by Backprop (Blundell et al. 2015), with weights sampled
//! directly, by local reparameterisation or by flipout (the two are explained in `nn::noisy`).
//!
//! ELBO = E_q[log p(D | w)] − β·KL[q ‖ p], estimated per step by (N/|B|) Σ_B (1/K) Σ_k log p(y | x, w_k) − β·KL. The KL
//! is closed for normal priors; for others, Laplace included, its entropy part is closed and −log p(w) is taken at the draws,
//! which costs nothing beyond the draw that is made anyway.
//! Cost per step: K passes of the network (with noise by row, twice the products) and two fused passes over the 2P
//! variational parameters.

use super::observer::Observer;
use super::train::{StepPlan, Stepper, Tempering, has_training, train, training_fields};
use super::variational::{
    InitialMean, InitialScaling, RecordedKl, elbo, initial_mean, initial_std, variational_fields,
};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::family::{ByRow, MeanField as Family};
use crate::nn::{Gradient, Mode, Noisy, Role, RowNoise, Weights};
use crate::optim::{Decay, GaussianPenalty, Law};
use crate::posterior::MeanFieldPosterior;
use crate::prior::Prior;
use crate::problem::{Density, Problem, Rows};
use crate::rng::{Key, Purpose};
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::snapshot::{State, Stateful};

/// How a step's gradient is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Estimator {
    /// One draw of the weights for all rows.
    Direct,
    /// A draw for every row, see [`RowNoise`].
    ByRow(RowNoise),
}

/// The estimators a user can name.
pub const ESTIMATORS: &[(&str, Estimator)] = &[
    ("direct", Estimator::Direct),
    ("local", Estimator::ByRow(RowNoise::Local)),
    ("flipout", Estimator::ByRow(RowNoise::Flipout)),
];

crate::word_enum! {
    /// The estimator that a user asks for.
    pub enum EstimatorChoice {
        /// The one of lowest variance at equal cost that is exact for the network.
        Auto = "auto",
        /// One draw of the weights for all rows.
        Direct = "direct",
        /// A draw for every row by local reparameterisation.
        Local = "local",
        /// A draw for every row by flipout.
        Flipout = "flipout",
    }
}

impl EstimatorChoice {
    fn resolve(self, problem: &Problem) -> Estimator {
        match self {
            EstimatorChoice::Direct => Estimator::Direct,
            EstimatorChoice::Local => Estimator::ByRow(RowNoise::Local),
            EstimatorChoice::Flipout => Estimator::ByRow(RowNoise::Flipout),
            EstimatorChoice::Auto => {
                // Positions that share weights share their noise, which local draws would make independent.
                let tied = problem.network().affine_blocks().iter().any(|b| b.positions > 1);
                Estimator::ByRow(if tied { RowNoise::Flipout } else { RowNoise::Local })
            }
        }
    }
}

/// The fields of [`MeanField`].
macro_rules! mean_field_fields {
    ({ $($head:tt)* } $($rest:tt)*) => {
        $crate::options! { $($head)*
            ..training_fields!,
            /// one draw of the weights a step, or one for every row; auto is local without convolutions, flipout with them
            estimator: EstimatorChoice = EstimatorChoice::Auto,
            /// K: weights drawn per step
            samples: usize = 1 => Int(1, 10_000),
            ..variational_fields!,
            $($rest)*
        }
    };
}
pub(super) use mean_field_fields;

crate::options! {
    /// Mean-field variational inference: a Gaussian for every weight.
    pub struct MeanField: "mean-field" {
        ..mean_field_fields!,
    }
}
has_training!(MeanField);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: MeanField::NAME,
    summary: "mean-field variational inference (Bayes by Backprop): a Gaussian for every weight",
    gives: "a diagonal Gaussian",
    settings: MeanField::SETTINGS,
    build: |settings| Box::new(Checked::<MeanField>::from(settings)),
};

/// The state of a mean-field fit.
pub struct MeanFieldTrainer<'p> {
    density: Density<'p, f32>,
    family: Family,
    w: Vec<f32>,
    gradient: Vec<f32>,
    by_row: Option<ByRowBuffers>,
    penalties: Vec<GaussianPenalty>,
    /// For the blocks whose prior is not normal.
    other_prior: Option<Prior>,
    /// Where the likelihood's own parameters begin: these are drawn once a step.
    fixed: usize,
    samples: usize,
    removal: Option<Removal>,
    kl: RecordedKl,
    kept: Option<Family>,
    weights: Key,
    masks: Key,
}

/// When a fit takes weights out, see [`MeanFieldTrainer::with_removal`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Removal {
    /// Weights with α = σ²/m² above this go.
    pub alpha: f32,
    /// Steps between two looks.
    pub every: u64,
    /// β at its end: none go before it is reached.
    pub beta: f64,
}

/// What a step with noise by row needs beside.
struct ByRowBuffers {
    noise: RowNoise,
    centre: Vec<f32>,
    spread: Vec<f32>,
    d_spread: Vec<f32>,
}

impl<'p> MeanFieldTrainer<'p> {
    /// Starts at q = N(mean, std²). A step draws `samples` weights and has at most `batch_size` rows.
    pub fn new(problem: &'p Problem, mean: &[f32], std: &[f32], samples: usize, batch_size: usize, key: Key) -> Self {
        MeanFieldTrainer {
            density: problem.density(batch_size),
            family: Family::new(mean, std, samples),
            w: vec![0.0; mean.len()],
            gradient: vec![0.0; mean.len()],
            by_row: None,
            penalties: problem.penalties(),
            other_prior: problem.prior().without_normal(),
            fixed: problem.network().layout().len(),
            samples,
            removal: None,
            kl: RecordedKl::default(),
            kept: None,
            weights: key.purpose(Purpose::Weights),
            masks: key.purpose(Purpose::Mask),
        }
    }

    /// With another estimator than [`Estimator::Direct`].
    pub fn with_estimator(mut self, estimator: Estimator) -> Self {
        let zeros = || vec![0.0; self.w.len()];
        self.by_row = match estimator {
            Estimator::Direct => None,
            Estimator::ByRow(noise) => {
                Some(ByRowBuffers { noise, centre: zeros(), spread: zeros(), d_spread: zeros() })
            }
        };
        self
    }

    /// With the improper prior p(w) ∝ 1/|w| of variational dropout for every weight; biases and the likelihood's
    /// parameters keep the problem's.
    pub fn with_log_uniform_weights(mut self) -> Self {
        let problem = self.density.problem();
        self.other_prior = problem.prior().without_weights().without_normal();
        for (penalty, block) in self.penalties.iter_mut().zip(problem.layout().blocks()) {
            if block.role == Role::Weight {
                *penalty = GaussianPenalty {
                    centre: 0.0,
                    precision: 0.0,
                    kl_constant: 0.0,
                    law: Law::LogUniform,
                    ..penalty.clone()
                };
            }
        }
        self
    }

    /// Takes weights with the prior of [`Self::with_log_uniform_weights`] out while it trains: what is left learns without them and
    /// without their noise.
    pub(super) fn with_removal(mut self, removal: Removal) -> Self {
        self.family.make_room_to_remove();
        self.removal = Some(removal);
        self
    }

    /// One step; returns the estimate of E_q[log p(D | w)] before it. Allocates nothing, once the first has made its room.
    pub fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        if let Some(r) = self.removal
            && plan.step > 0
            && plan.step.is_multiple_of(r.every)
            && plan.beta >= r.beta
        {
            self.family.remove(&self.penalties, r.alpha);
        }
        let (mut value, mut kl) = (0.0, 0.0);
        let share = 1.0 / self.samples as f64;
        for k in 0..self.samples {
            let (v, part) = self.gradient(rows, plan, k as u64);
            (value, kl) = (value + share * v, kl + share * part);
            if self.samples > 1 {
                self.family.accumulate(&self.gradient, by_row(&self.by_row, self.fixed), share as f32);
            }
        }
        if self.samples > 1 {
            self.family.update_accumulated(&self.penalties, plan.beta, plan.rate);
        } else if let (Some(b), None) = (&mut self.by_row, &self.other_prior)
            && b.noise == RowNoise::Local
        {
            let (centre, spread) = (&mut b.centre[..], &mut b.spread[..]);
            let (g, penalties) = (&self.gradient[..], &self.penalties[..]);
            self.family.update_ahead(g, &b.d_spread, self.fixed, penalties, plan.beta, plan.rate, centre, spread);
        } else if self.by_row.is_some() {
            let by_row = by_row(&self.by_row, self.fixed);
            self.family.update(&self.gradient, by_row, &self.penalties, plan.beta, plan.rate);
        } else {
            let (next, penalties) = (self.draw_key(plan.step + 1, 0), &self.penalties[..]);
            self.family.update_and_draw(&self.gradient, penalties, plan.beta, plan.rate, next, &mut self.w);
        }
        self.kl.record(kl);
        value
    }

    /// The estimate of the ELBO's gradient in m and σ that a step would use.
    pub fn elbo_gradient(&mut self, rows: Rows<'_>, plan: StepPlan, d_mean: &mut [f32], d_std: &mut [f32]) {
        self.family.make_sums();
        for k in 0..self.samples {
            self.gradient(rows, plan, k as u64);
            let share = 1.0 / self.samples as f32;
            self.family.accumulate(&self.gradient, by_row(&self.by_row, self.fixed), share);
        }
        self.family.take_gradients(&self.penalties, plan.beta, d_mean, d_std);
    }

    /// Of draw `k` of a step.
    fn draw_key(&self, step: u64, k: u64) -> Key {
        self.weights.step(step).derive(k)
    }

    /// Draw `k` of a step: the gradient of the log-likelihood (and of priors that are not normal), left in the buffers;
    /// returns the log-likelihood and the KL.
    fn gradient(&mut self, rows: Rows<'_>, plan: StepPlan, k: u64) -> (f64, f64) {
        let key = self.draw_key(plan.step, k);
        let mode = Mode::Train(self.masks.step(plan.step).derive(k));
        let Some(b) = &mut self.by_row else {
            let mut kl = self.family.draw(key, &self.penalties, &mut self.w);
            let value = self.density.log_likelihood(&self.w, rows, mode, Some(&mut self.gradient));
            if let Some(prior) = &self.other_prior {
                kl -= prior.log_density(&self.w, plan.beta, Some(&mut self.gradient));
            }
            return (value, kl);
        };
        let drawn = self.other_prior.is_some().then_some(&mut self.w[..]);
        let (centre, spread) = (&mut b.centre[..], &mut b.spread[..]);
        let mut kl = self.family.draw_by_row(key, b.noise, &self.penalties, self.fixed, centre, spread, drawn);
        let weights = Weights::Noisy(Noisy { noise: b.noise, mean: &b.centre, spread: &b.spread });
        let gradient = Gradient { centre: &mut self.gradient, spread: &mut b.d_spread };
        let value = self.density.log_likelihood_of(weights, rows, mode, Some(gradient));
        if let Some(prior) = &self.other_prior {
            // The means are not needed any more: their place takes the prior's gradient.
            b.centre.fill(0.0);
            kl -= prior.log_density(&self.w, plan.beta, Some(&mut b.centre));
            self.family.add_direct(b.noise, &b.centre, &mut self.gradient, &mut b.d_spread);
        }
        (value, kl)
    }

    /// KL[q ‖ p] before the last step (an estimate from its draws where the prior is not normal).
    pub fn kl(&self) -> f64 {
        self.kl.last()
    }

    /// Means and standard deviations of q.
    pub fn moments(&self) -> (Vec<f32>, Vec<f32>) {
        self.family.moments()
    }
}

fn by_row(buffers: &Option<ByRowBuffers>, fixed: usize) -> Option<ByRow<'_>> {
    buffers.as_ref().map(|b| ByRow { noise: b.noise, spread: &b.d_spread, fixed })
}

impl Stateful for MeanFieldTrainer<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.part("family", &mut self.family)?;
        state.part("kl", &mut self.kl)?;
        state.optional("kept", &mut self.kept, || self.family.clone())
    }
}

impl Stepper for MeanFieldTrainer<'_> {
    fn kind(&self) -> &'static str {
        "mean-field"
    }
    fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        MeanFieldTrainer::step(self, rows, plan)
    }
    fn penalty(&mut self) -> f64 {
        self.kl.take_mean()
    }
    fn penalty_name(&self) -> &'static str {
        "KL"
    }
    fn keep(&mut self) {
        match &mut self.kept {
            Some(kept) => kept.clone_from(&self.family),
            none => *none = Some(self.family.clone()),
        }
    }
    fn restore(&mut self) {
        if let Some(kept) = &self.kept {
            self.family.clone_from(kept);
            self.family.forget();
        }
    }
    fn is_finite(&self) -> bool {
        let (mean, std) = self.family.moments();
        mean.iter().chain(&std).all(|v| v.is_finite())
    }
}

impl Method for Checked<MeanField> {
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
        let mean = initial_mean(problem, s.initial_mean, &training, key, observer)?;
        let std = initial_std(problem.layout(), s.initial_std, s.initial_scaling);
        let mut trainer = MeanFieldTrainer::new(problem, &mean, &std, s.samples, s.batch_size, key)
            .with_estimator(s.estimator.resolve(problem));
        let tempering = Tempering { beta: s.beta, warmup: s.kl_warmup };
        let summary = train(&mut trainer, problem, &training, &tempering, key, observer)?;
        let (mean, std) = trainer.moments();
        Ok(Fit { posterior: Box::new(MeanFieldPosterior::new(mean, std, elbo(problem, &summary))), summary })
    }
}
