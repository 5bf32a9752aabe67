//! Mean-field variational inference without sampling: moments pass through the network (Wu et al. 2019,
//! Hernández-Lobato & Adams 2015).
//!
//! ELBO = E_q[log p(D | w)] − β·KL[q ‖ p], q of independent Gaussians as in mean-field. The expectation is that of
//! [`MomentsDensity`]: means and variances pass through dense layers, whose activations are taken as independent normals, and a
//! cubature takes the likelihood's. On a linear model with fixed Gaussian noise nothing of this is approximate. The gradient has no
//! noise but that of mini-batches. The bound is approximate for other networks and may lie above log p(D), so that the
//! posterior has no evidence to report. The KL is closed for normal priors; for others −log p(w) is taken at one draw a step,
//! as in mean-field, and that alone is drawn.
//! Cost per step: some three plain passes with gradients, ten times the activations (relu once), 2D likelihoods, and two fused
//! passes over the 2P variational parameters.

use super::observer::Observer;
use super::train::{StepPlan, Stepper, Tempering, has_training, train, training_fields};
use super::variational::{InitialMean, InitialScaling, RecordedKl, initial_mean, initial_std, variational_fields};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::family::{ByRow, MeanField};
use crate::nn::{Gradient, RowNoise};
use crate::optim::{Decay, GaussianPenalty};
use crate::posterior::MeanFieldPosterior;
use crate::prior::Prior;
use crate::problem::{MomentsDensity, Problem, Rows};
use crate::rng::{Key, Purpose};
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::snapshot::{State, Stateful};

crate::options! {
    /// Mean-field variational inference by moments that are propagated, without draws.
    pub struct Moments: "moments" {
        ..training_fields!,
        ..variational_fields!,
    }
}
has_training!(Moments);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Moments::NAME,
    summary: "mean-field variational inference without sampling: means and variances pass through a dense network",
    gives: "a diagonal Gaussian",
    settings: Moments::SETTINGS,
    build: |settings| Box::new(Checked::<Moments>::from(settings)),
};

/// The state of a fit by moments.
pub struct MomentsTrainer<'p> {
    density: MomentsDensity<'p, f32>,
    family: MeanField,
    mean: Vec<f32>,
    variance: Vec<f32>,
    d_mean: Vec<f32>,
    d_variance: Vec<f32>,
    penalties: Vec<GaussianPenalty>,
    /// For the blocks whose prior is not normal, with room for a draw.
    other_prior: Option<(Prior, Vec<f32>)>,
    kl: RecordedKl,
    kept: Option<MeanField>,
    weights: Key,
}

impl<'p> MomentsTrainer<'p> {
    /// Starts at q = N(mean, std²). A step has at most `batch_size` rows. An error where a layer of the network is not dense.
    pub fn new(problem: &'p Problem, mean: &[f32], std: &[f32], batch_size: usize, key: Key) -> Result<Self> {
        let zeros = || vec![0.0; mean.len()];
        Ok(MomentsTrainer {
            density: MomentsDensity::new(problem, batch_size)?,
            family: MeanField::new(mean, std, 1),
            mean: zeros(),
            variance: zeros(),
            d_mean: zeros(),
            d_variance: zeros(),
            penalties: problem.penalties(),
            other_prior: problem.prior().without_normal().map(|prior| (prior, zeros())),
            kl: RecordedKl::default(),
            kept: None,
            weights: key.purpose(Purpose::Weights),
        })
    }

    /// One step; returns E_q[log p(D | w)] before it. Allocates nothing.
    pub fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        // Nothing is drawn once for all rows, the likelihood's own parameters neither.
        let (noise, fixed) = (RowNoise::Local, self.mean.len());
        let drawn = self.other_prior.as_mut().map(|(_, w)| &mut w[..]);
        let (mean, variance) = (&mut self.mean[..], &mut self.variance[..]);
        let key = self.weights.step(plan.step);
        let mut kl = self.family.draw_by_row(key, noise, &self.penalties, fixed, mean, variance, drawn);
        let gradient = Gradient { centre: &mut self.d_mean, spread: &mut self.d_variance };
        let value = self.density.expected_log_likelihood(mean, variance, rows, gradient);
        if let Some((prior, w)) = &self.other_prior {
            // The means are not needed any more: their place takes the prior's gradient.
            self.mean.fill(0.0);
            kl -= prior.log_density(w, plan.beta, Some(&mut self.mean));
            self.family.add_direct(noise, &self.mean, &mut self.d_mean, &mut self.d_variance);
        }
        let by_row = ByRow { noise, spread: &self.d_variance, fixed };
        self.family.update(&self.d_mean, Some(by_row), &self.penalties, plan.beta, plan.rate);
        self.kl.record(kl);
        value
    }

    /// KL[q ‖ p] before the last step (an estimate from its draw where the prior is not normal).
    pub fn kl(&self) -> f64 {
        self.kl.last()
    }

    /// Means and standard deviations of q.
    pub fn moments(&self) -> (Vec<f32>, Vec<f32>) {
        self.family.moments()
    }
}

impl Stateful for MomentsTrainer<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.part("family", &mut self.family)?;
        state.part("kl", &mut self.kl)?;
        state.optional("kept", &mut self.kept, || self.family.clone())
    }
}

impl Stepper for MomentsTrainer<'_> {
    fn kind(&self) -> &'static str {
        "moments"
    }
    fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        MomentsTrainer::step(self, rows, plan)
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
        }
    }
    fn is_finite(&self) -> bool {
        let (mean, std) = self.family.moments();
        mean.iter().chain(&std).all(|v| v.is_finite())
    }
}

impl Method for Checked<Moments> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_row_noise(problem, self.batch_size, 20)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let (s, training) = (&**self, (&**self).into());
        // A network that it is not for is refused before a MAP fit is made.
        MomentsDensity::<f32>::network(problem)?;
        let (mean, std) = (
            initial_mean(problem, s.initial_mean, &training, key, observer)?,
            initial_std(problem.layout(), s.initial_std, s.initial_scaling),
        );
        let mut trainer = MomentsTrainer::new(problem, &mean, &std, s.batch_size, key)?;
        let tempering = Tempering { beta: s.beta, warmup: s.kl_warmup };
        let summary = train(&mut trainer, problem, &training, &tempering, key, observer)?;
        let (mean, std) = trainer.moments();
        Ok(Fit { posterior: Box::new(MeanFieldPosterior::new(mean, std, None)), summary })
    }
}
