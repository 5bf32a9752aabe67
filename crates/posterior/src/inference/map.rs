//! Maximum likelihood, argmax log p(D | w), and MAP, argmax log p(D | w) + log p(w): the same code path, with and
//! without the prior (METHODS F2).
//!
//! Where the network gives the noise as well, the mean is learned first: for half of the steps the weights that the noise depends on inputs by are 0, so
//! that it is one number, learned too. Else rows that are hard to fit at first get a large σ, their errors are divided by σ², and they are never
//! fitted (Seitzer et al. 2022, ICLR, who weigh rows instead). After that all parameters are free, and the objective is the same throughout.

use super::observer::Observer;
use super::point::PointTrainer;
use super::train::{BATCH_SIZE, EPOCHS, PATIENCE, Tempering, epochs, train};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::optim::{LEARNING_RATE, SCHEDULE, WARMUP};
use crate::posterior::PointPosterior;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Setting, Settings};

pub(super) const SETTINGS: &[Setting] = &[EPOCHS, BATCH_SIZE, LEARNING_RATE, SCHEDULE, WARMUP, PATIENCE];

pub(super) const ML: MethodEntry = MethodEntry {
    name: "ml",
    summary: "maximum likelihood: one network, no prior",
    gives: "one point",
    settings: SETTINGS,
    build: |settings| Box::new(MaximumLikelihood { settings }),
};

pub(super) const MAP: MethodEntry = MethodEntry {
    name: "map",
    summary: "maximum a posteriori: one network, the prior as regulariser",
    gives: "one point",
    settings: SETTINGS,
    build: |settings| Box::new(Map { settings }),
};

/// Maximum likelihood.
#[derive(Debug)]
pub struct MaximumLikelihood {
    settings: Settings,
}

/// Maximum a posteriori.
#[derive(Debug)]
pub struct Map {
    settings: Settings,
}

/// Fits one point; the settings are those of [`SETTINGS`] and maybe others.
pub(super) fn fit(
    problem: &Problem,
    settings: &Settings,
    with_prior: bool,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Fit> {
    let trainer = PointTrainer::new(problem, with_prior, settings.count("batch_size"), key);
    run(trainer, problem, settings, with_prior, key, observer)
}

/// Part of the steps in which noise that the network gives is the same for all rows.
const MEAN_FIRST: f64 = 0.5;

/// The weights of the last layer by which the noise depends on its inputs; none where the network does not give it.
fn noise_weights(problem: &Problem) -> Vec<usize> {
    let (noise, outputs) = (problem.likelihood().noise_outputs(), problem.likelihood().outputs());
    let leaves = problem.network().leaves().unwrap_or_default();
    match leaves.last().filter(|l| l.units == outputs && l.area == 1) {
        Some(leaf) => (0..leaf.inputs).flat_map(|i| noise.clone().map(move |o| leaf.index(i, o))).collect(),
        None => Vec::new(),
    }
}

/// The same from a trainer's state on.
pub(super) fn run(
    mut trainer: PointTrainer<'_>,
    problem: &Problem,
    settings: &Settings,
    with_prior: bool,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Fit> {
    // A start was trained before.
    if problem.start().is_none() {
        let steps = epochs(problem, settings) * problem.data().rows.div_ceil(settings.count("batch_size").max(1));
        trainer = trainer.holding(noise_weights(problem), (MEAN_FIRST * steps as f64) as u64);
    }
    let beta = if with_prior { 1.0 } else { 0.0 };
    let tempering = Tempering { beta, warmup: 0.0 };
    let summary = train(&mut trainer, problem, settings, &tempering, key, observer)?;
    Ok(Fit { posterior: Box::new(PointPosterior::new(trainer.point().to_vec())), summary })
}

impl Map {
    /// With those of another method's settings that it knows: to start that method from.
    pub(super) fn with_settings_of(other: &Settings) -> Map {
        Map { settings: other.restricted_to(SETTINGS) }
    }
}

impl Method for MaximumLikelihood {
    fn name(&self) -> &'static str {
        ML.name
    }
    fn settings(&self) -> &Settings {
        &self.settings
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        fit(problem, &self.settings, false, key, observer)
    }
}

impl Method for Map {
    fn name(&self) -> &'static str {
        MAP.name
    }
    fn settings(&self) -> &Settings {
        &self.settings
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        fit(problem, &self.settings, true, key, observer)
    }
}
