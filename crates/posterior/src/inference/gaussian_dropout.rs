//! Gaussian dropout with a fixed rate, and variational dropout, which learns it (Kingma, Salimans & Welling 2015).
//!
//! q(w) = N(θ, αθ²): multiplicative noise N(1, α) on every weight, with α = π/(1−π) for a dropout rate π. The prior
//! p(w) ∝ 1/|w| is the one for which KL[q ‖ p] depends on α alone ([`crate::distribution::log_uniform_kl`]): with α fixed the
//! objective is E_q[log p(D | w)]; with ln α learned, per layer or per input unit, it is that minus β·Σ KL(α). Gradients by
//! local reparameterisation with v = αθ²: dL/dθ = dL/dm + 2αθ·dL/dv, dL/d ln α = Σ αθ²·dL/dv. Biases and the likelihood's
//! parameters are points with the problem's prior. The prior being improper, there is no evidence to bound.
//! Cost: that of mean-field with the local estimator.

use super::observer::Observer;
use super::train::{StepPlan, Stepper, Tempering, has_training, train, training_fields};
use super::variational::{InitialMean, RecordedKl, initial_mean};
use super::{Fit, Method, MethodEntry};
use crate::distribution::{log_uniform_kl, log_uniform_kl_slope};
use crate::error::Result;
use crate::nn::{AnyNetwork, Gradient, Mode, Noisy, Role, RowNoise, Weights};
use crate::optim::{Adam, Decay, GaussianPenalty};
use crate::posterior::{MeanFieldPosterior, dropout_blocks};
use crate::prior::Prior;
use crate::problem::{Density, Problem, Rows};
use crate::rng::{Key, Purpose};
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::snapshot::{State, Stateful};

crate::word_enum! {
    /// What has an α of its own in `variational-dropout`.
    pub enum AlphaPer {
        /// Every layer.
        Layer = "layer",
        /// Every input unit of a layer.
        Unit = "unit",
    }
}

crate::options! {
    /// Dropout with Gaussian noise of a fixed rate.
    pub struct GaussianDropout: "gaussian-dropout" {
        ..training_fields!,
        /// means start as a fresh network's weights, at 0, or at a MAP fit with the same settings
        initial_mean: InitialMean = InitialMean::Random,
        /// π: probability of a hidden unit to be dropped
        rate: f64 = 0.1 => Float(0.0, 0.999),
    }
}
has_training!(GaussianDropout);

crate::options! {
    /// Dropout with Gaussian noise of learned rates.
    pub struct VariationalDropout: "variational-dropout" {
        ..training_fields!,
        /// weight of the KL; 1 is Bayes, less is a tempered (cold) posterior
        beta: f64 = 1.0 => Float(0.0, 1e6),
        /// fraction of the steps over which β first rises from 0
        kl_warmup: f64 = 0.1 => Float(0.0, 1.0),
        /// means start as a fresh network's weights, at 0, or at a MAP fit with the same settings
        initial_mean: InitialMean = InitialMean::Random,
        /// α starts at this; 0.1 is a dropout rate of 9 %
        initial_alpha: f64 = 0.1 => Float(1e-6, 1e3),
        /// one α for every layer, or one for every input unit of a layer
        per: AlphaPer = AlphaPer::Layer,
    }
}
has_training!(VariationalDropout);

pub(super) const GAUSSIAN: MethodEntry = MethodEntry {
    name: GaussianDropout::NAME,
    summary: "multiplicative Gaussian noise of a fixed rate on every weight",
    gives: "a diagonal Gaussian",
    settings: GaussianDropout::SETTINGS,
    build: |settings| Box::new(Checked::<GaussianDropout>::from(settings)),
};

pub(super) const VARIATIONAL: MethodEntry = MethodEntry {
    name: VariationalDropout::NAME,
    summary: "multiplicative Gaussian noise whose rates are learned",
    gives: "a diagonal Gaussian",
    settings: VariationalDropout::SETTINGS,
    build: |settings| Box::new(Checked::<VariationalDropout>::from(settings)),
};

/// A weight block and which of its weights share an α.
struct Group {
    start: usize,
    len: usize,
    /// Weights `(o·units + u)·inner + i` have the α of unit `u`.
    units: usize,
    inner: usize,
    /// Where its αs begin.
    alpha: usize,
}

impl Group {
    /// Calls `f` with every run of weights that share an α, and which.
    fn runs(&self, mut f: impl FnMut(std::ops::Range<usize>, usize)) {
        for r in 0..self.len / self.inner {
            f(self.start + r * self.inner..self.start + (r + 1) * self.inner, self.alpha + r % self.units);
        }
    }
}

fn groups(network: &dyn AnyNetwork, per_unit: bool) -> Vec<Group> {
    let mut alpha = 0;
    // Any rate above 0: every block is wanted.
    let blocks = dropout_blocks(network, 0.5, 0.5).into_iter().map(|b| {
        let len = b.outer * b.units * b.inner;
        let (units, inner) = if per_unit { (b.units, b.inner) } else { (1, len) };
        let group = Group { start: b.start, len, units, inner, alpha };
        alpha += units;
        group
    });
    blocks.filter(|g| g.len > 0).collect()
}

/// The state of a fit.
struct Trainer<'p> {
    density: Density<'p, f32>,
    w: Vec<f32>,
    variance: Vec<f32>,
    gradient: Vec<f32>,
    d_variance: Vec<f32>,
    groups: Vec<Group>,
    log_alpha: Vec<f32>,
    d_log_alpha: Vec<f32>,
    /// How many weights have it.
    counts: Vec<f64>,
    learned: bool,
    adam: Adam,
    alpha_adam: Adam,
    penalties: Vec<GaussianPenalty>,
    other_prior: Option<Prior>,
    kl: RecordedKl,
    kept: (Vec<f32>, Vec<f32>),
    masks: Key,
}

impl<'p> Trainer<'p> {
    fn new(
        problem: &'p Problem,
        w: Vec<f32>,
        alpha: f64,
        per_unit: bool,
        learned: bool,
        batch: usize,
        key: Key,
    ) -> Self {
        let groups = groups(&**problem.network(), per_unit);
        let alphas = groups.last().map_or(0, |g| g.alpha + g.units);
        let mut counts = vec![0.0; alphas];
        groups.iter().for_each(|g| g.runs(|r, a| counts[a] += r.len() as f64));
        let mut penalties = problem.penalties();
        for (penalty, block) in penalties.iter_mut().zip(problem.layout().blocks()) {
            if block.role == Role::Weight {
                penalty.precision = 0.0;
            }
        }
        let zeros = vec![0.0; w.len()];
        Trainer {
            density: problem.density(batch),
            variance: zeros.clone(),
            gradient: zeros.clone(),
            d_variance: zeros,
            log_alpha: vec![alpha.ln() as f32; alphas],
            d_log_alpha: vec![0.0; alphas],
            counts,
            learned,
            adam: Adam::new(w.len()),
            alpha_adam: Adam::new(alphas),
            penalties,
            other_prior: problem.prior().without_weights().without_normal(),
            kl: RecordedKl::default(),
            kept: (Vec::new(), Vec::new()),
            masks: key.purpose(Purpose::Mask),
            groups,
            w,
        }
    }

    /// v = αθ² for weights, 0 for all else.
    fn set_variance(&mut self) {
        for group in &self.groups {
            group.runs(|range, a| {
                let alpha = self.log_alpha[a].exp();
                for (v, w) in self.variance[range.clone()].iter_mut().zip(&self.w[range]) {
                    *v = alpha * w * w;
                }
            });
        }
    }

    fn moments(&mut self) -> (Vec<f32>, Vec<f32>) {
        self.set_variance();
        (self.w.clone(), self.variance.iter().map(|v| v.sqrt()).collect())
    }
}

impl Stateful for Trainer<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.array("w", &mut self.w)?;
        state.array("log_alpha", &mut self.log_alpha)?;
        state.part("adam", &mut self.adam)?;
        state.part("alpha_adam", &mut self.alpha_adam)?;
        state.part("kl", &mut self.kl)?;
        state.array_or_none("kept_w", &mut self.kept.0, self.w.len())?;
        state.array_or_none("kept_log_alpha", &mut self.kept.1, self.log_alpha.len())
    }
}

impl Stepper for Trainer<'_> {
    fn kind(&self) -> &'static str {
        "dropout"
    }
    fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        self.set_variance();
        let weights = Weights::Noisy(Noisy { noise: RowNoise::Local, mean: &self.w, spread: &self.variance });
        let gradient = Gradient { centre: &mut self.gradient, spread: &mut self.d_variance };
        let mode = Mode::Train(self.masks.step(plan.step));
        let value = self.density.log_likelihood_of(weights, rows, mode, Some(gradient));
        self.d_log_alpha.fill(0.0);
        for group in &self.groups {
            group.runs(|range, a| {
                let alpha = self.log_alpha[a].exp();
                let mut sum = 0.0f64;
                for i in range {
                    let through = alpha * self.w[i] * self.d_variance[i];
                    sum += f64::from(through * self.w[i]);
                    self.gradient[i] += through + through;
                }
                self.d_log_alpha[a] += sum as f32;
            });
        }
        if let Some(prior) = &self.other_prior {
            prior.log_density(&self.w, 1.0, Some(&mut self.gradient));
        }
        self.adam.ascend(&mut self.w, &self.gradient, &self.penalties, plan.rate);
        let alphas = self.log_alpha.iter().zip(&self.counts);
        self.kl.record(alphas.map(|(a, n)| n * log_uniform_kl(f64::from(*a))).sum());
        if self.learned {
            for ((d, a), n) in self.d_log_alpha.iter_mut().zip(&self.log_alpha).zip(&self.counts) {
                *d -= (plan.beta * n * log_uniform_kl_slope(f64::from(*a))) as f32;
            }
            self.alpha_adam.ascend(&mut self.log_alpha, &self.d_log_alpha, &[], plan.rate);
        }
        value
    }
    fn penalty(&mut self) -> f64 {
        self.kl.take_mean()
    }
    fn penalty_name(&self) -> &'static str {
        "KL"
    }
    fn keep(&mut self) {
        self.kept = (self.w.clone(), self.log_alpha.clone());
    }
    fn restore(&mut self) {
        (self.w, self.log_alpha) = self.kept.clone();
    }
    fn is_finite(&self) -> bool {
        self.w.iter().chain(&self.log_alpha).all(|v| v.is_finite())
    }
}

impl Method for Checked<GaussianDropout> {
    fn name(&self) -> &'static str {
        GAUSSIAN.name
    }
    fn settings(&self) -> &Settings {
        self.settings()
    }
    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_row_noise(problem, self.batch_size, 20)
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let (s, training) = (&**self, (&**self).into());
        let rate = s.rate;
        let w = initial_mean(problem, s.initial_mean, &training, key, observer)?;
        // A rate of 0 is no noise.
        let alpha = (rate / (1.0 - rate)).max(1e-30);
        let mut trainer = Trainer::new(problem, w, alpha, false, false, s.batch_size, key);
        let fixed = Tempering { beta: 0.0, warmup: 0.0 };
        let summary = train(&mut trainer, problem, &training, &fixed, key, observer)?;
        let (mean, std) = trainer.moments();
        Ok(Fit { posterior: Box::new(MeanFieldPosterior::new(mean, std, None)), summary })
    }
}

impl Method for Checked<VariationalDropout> {
    fn name(&self) -> &'static str {
        VARIATIONAL.name
    }
    fn settings(&self) -> &Settings {
        self.settings()
    }
    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_row_noise(problem, self.batch_size, 20)
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let (s, training) = (&**self, (&**self).into());
        let w = initial_mean(problem, s.initial_mean, &training, key, observer)?;
        let (alpha, per_unit) = (s.initial_alpha, s.per == AlphaPer::Unit);
        let mut trainer = Trainer::new(problem, w, alpha, per_unit, true, s.batch_size, key);
        let tempering = Tempering { beta: s.beta, warmup: s.kl_warmup };
        let summary = train(&mut trainer, problem, &training, &tempering, key, observer)?;
        let (mean, std) = trainer.moments();
        Ok(Fit { posterior: Box::new(MeanFieldPosterior::new(mean, std, None)), summary })
    }
}
