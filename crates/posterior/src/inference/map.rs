//! Maximum likelihood, argmax log p(D | w), and MAP, argmax log p(D | w) + log p(w): the same code path, with and
//! without the prior.
//!
//! Where the network gives the noise as well, the mean is learned first: for half of the steps the weights that the noise depends on inputs by are 0, so
//! that it is one number, learned too. Else rows that are hard to fit at first get a large σ, their errors are divided by σ², and they are never
//! fitted (Seitzer et al. 2022, ICLR, who weigh rows instead). After that all parameters are free, and the objective is the same throughout.

use super::observer::Observer;
use super::point::PointTrainer;
use super::train::{Tempering, TrainingOptions, epochs, has_training, train, training_fields};
use super::{Fit, Method, MethodEntry};
use crate::error::Result;
use crate::optim::Decay;
use crate::posterior::PointPosterior;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};

crate::options! {
    /// Maximum likelihood.
    pub struct MaximumLikelihood: "ml" {
        ..training_fields!,
    }
}
has_training!(MaximumLikelihood);

crate::options! {
    /// Maximum a posteriori.
    pub struct Map: "map" {
        ..training_fields!,
    }
}
has_training!(Map);

pub(super) const ML: MethodEntry = MethodEntry {
    name: MaximumLikelihood::NAME,
    summary: "maximum likelihood: one network, no prior",
    gives: "one point",
    settings: MaximumLikelihood::SETTINGS,
    build: |settings| Box::new(Checked::<MaximumLikelihood>::from(settings)),
};

pub(super) const MAP: MethodEntry = MethodEntry {
    name: Map::NAME,
    summary: "maximum a posteriori: one network, the prior as regulariser",
    gives: "one point",
    settings: Map::SETTINGS,
    build: |settings| Box::new(Checked::<Map>::from(settings)),
};

/// Fits one point.
pub(super) fn fit(
    problem: &Problem,
    training: &TrainingOptions,
    with_prior: bool,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Fit> {
    let trainer = PointTrainer::new(problem, with_prior, training.batch_size, key);
    run(trainer, problem, training, with_prior, key, observer)
}

/// Part of the steps in which noise that the network gives is the same for all rows.
const MEAN_FIRST: f64 = 0.5;

/// The weights of the last layer by which the noise depends on its inputs; none where the network does not give it.
fn noise_weights(problem: &Problem) -> Vec<usize> {
    let (noise, outputs) = (problem.likelihood().noise_outputs(), problem.likelihood().outputs());
    match problem.network().output_block().filter(|l| l.units == outputs && l.positions == 1) {
        Some(affine) => (0..affine.inputs).flat_map(|i| noise.clone().map(move |o| affine.index(i, o))).collect(),
        None => Vec::new(),
    }
}

/// The same from a trainer's state on.
pub(super) fn run(
    mut trainer: PointTrainer<'_>,
    problem: &Problem,
    training: &TrainingOptions,
    with_prior: bool,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Fit> {
    // A start was trained before.
    if problem.start().is_none() {
        let steps = epochs(problem, training) * problem.data().rows.div_ceil(training.batch_size.max(1));
        trainer = trainer.holding(noise_weights(problem), (MEAN_FIRST * steps as f64) as u64);
    }
    let beta = if with_prior { 1.0 } else { 0.0 };
    let tempering = Tempering { beta, warmup: 0.0 };
    let summary = train(&mut trainer, problem, training, &tempering, key, observer)?;
    Ok(Fit { posterior: Box::new(PointPosterior::new(trainer.point().to_vec())), summary })
}

impl Method for Checked<MaximumLikelihood> {
    fn name(&self) -> &'static str {
        ML.name
    }
    fn settings(&self) -> &Settings {
        self.settings()
    }
    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_gradient(problem, self.batch_size, 8)
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        fit(problem, &(&**self).into(), false, key, observer)
    }
}

impl Method for Checked<Map> {
    fn name(&self) -> &'static str {
        MAP.name
    }
    fn settings(&self) -> &Settings {
        self.settings()
    }
    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_gradient(problem, self.batch_size, 8)
    }
    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        fit(problem, &(&**self).into(), true, key, observer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dataset, Values};
    use crate::likelihood::Outcome;
    use crate::math::{MatRef, Threads};
    use crate::model::{Choice, Recipe};
    use crate::nn::{Activation, Mode, Network, NetworkSpec, Pass, Shape};

    #[test]
    fn without_these_weights_the_noise_is_the_same_for_all_rows() {
        let x = vec![0.3, -1.0, 2.0, 0.5];
        let problem = |likelihood: &str| {
            let recipe = Recipe {
                network: NetworkSpec::parse("5,4", Activation::Tanh).unwrap(),
                likelihood: Choice::named(likelihood),
                ..Recipe::default()
            };
            let resolved = recipe.resolve_for(Shape::Flat(2), Outcome::Real, 1).unwrap();
            resolved.problem(Dataset::new(Values::F64(x.clone().into()), Shape::Flat(2), vec![0.0; 2], 1)).unwrap()
        };
        assert!(noise_weights(&problem("gaussian")).is_empty());
        let problem = problem("heteroscedastic");
        let held = noise_weights(&problem);
        assert_eq!(held.len(), 4);
        let mut w: Vec<f64> = problem.initial(Key::new(1)).iter().map(|v| f64::from(*v)).collect();
        let outputs = |w: &[f64]| {
            let network: &dyn Network<f64> = &**problem.network();
            let pass = Pass { mode: Mode::Plain, layer: 0, first_row: 0, threads: Threads::One };
            network.forward(w.into(), MatRef::new(&x, 2, 2), &pass, &mut network.workspace(2)).data.to_vec()
        };
        // Two rows of mean and noise.
        let before = outputs(&w);
        assert!(before[1] != before[3]);
        held.iter().for_each(|i| w[*i] = 0.0);
        let after = outputs(&w);
        assert_eq!((after[0], after[2], after[1]), (before[0], before[2], after[3]));
    }

    /// So it stays for half of the steps, and no longer.
    #[test]
    fn they_are_0_for_half_of_the_steps() {
        let x: Vec<f64> = (0..40).map(|i| f64::from(i) * 0.1 - 2.0).collect();
        let y = x.iter().map(|x| x * x * (1.0 + 0.3 * (9.0 * x).sin())).collect();
        let recipe = Recipe { likelihood: Choice::named("heteroscedastic"), ..Recipe::default() };
        let resolved = recipe.resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap();
        let problem = resolved.problem(Dataset::new(Values::F64(x.into()), Shape::Flat(1), y, 1)).unwrap();
        let held = noise_weights(&problem);
        let mut trainer = PointTrainer::new(&problem, true, 40, Key::new(1)).holding(held.clone(), 5);
        for step in 0..10 {
            trainer.step(crate::problem::Rows::All, super::super::train::StepPlan { step, rate: 0.01, beta: 1.0 });
            let moved = held.iter().filter(|i| trainer.point()[**i] != 0.0).count();
            assert_eq!(moved, if step < 5 { 0 } else { held.len() }, "after step {step}");
        }
    }
}
