//! MC dropout: training with dropout, read as variational inference (Gal & Ghahramani 2016).
//!
//! q(w): a unit's weights are 0 with probability π, else m. KL[q ‖ N(0, s²)] ≈ Σ (1−π)/(2s²)·m² + const, so that the objective is
//! E_q[log p(D | w)] − Σ (1−π)/(2s²)·m². We keep θ = (1−π)m, the mean of q, whose term is θ²/(2s²(1−π)). Two ways to the
//! expectation: `on = activations` draws a mask for every row; `on = weights` one for all rows of a step, on the weights
//! themselves. Both have the same mean; the first is less noisy. Biases and the likelihood's parameters are points with
//! the problem's prior. Cost: that of MAP, and a mask.

use super::observer::Observer;
use super::point::PointTrainer;
use super::train::{Tempering, has_training, train, training_fields};
use super::{Fit, Method, MethodEntry};
use crate::error::{Error, Result};
use crate::optim::{Decay, GaussianPenalty};
use crate::posterior::{DropoutPosterior, dropout_blocks};
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};

crate::word_enum! {
    /// What is masked while `mc-dropout` trains.
    pub enum DropoutOn {
        /// Activations, with a mask for every row.
        Activations = "activations",
        /// Weights, with a mask for all rows of a step.
        Weights = "weights",
    }
}

crate::options! {
    /// Monte Carlo dropout.
    pub struct McDropout: "mc-dropout" {
        ..training_fields!,
        /// π: probability of a hidden unit to be dropped
        rate: f64 = 0.1 => Float(0.0, 0.999),
        /// the same for the network's inputs
        input_rate: f64 = 0.0 => Float(0.0, 0.999),
        /// masks in training: on activations, one for every row, or on weights, one for all rows of a step
        on: DropoutOn = DropoutOn::Activations,
    }
}
has_training!(McDropout);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: McDropout::NAME,
    summary: "dropout in training and in prediction, read as a posterior",
    gives: "networks with units dropped at random",
    settings: McDropout::SETTINGS,
    build: |settings| Box::new(Checked::<McDropout>::from(settings)),
};

impl Method for Checked<McDropout> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_gradient(problem, self.batch_size, 8)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &**self;
        if problem.prior().without_normal().is_some() {
            return Err(Error::setting(
                format!("the method 'mc-dropout' cannot have the prior '{}'", problem.prior().name()),
                "choose the prior 'normal': its L2 term is what dropout stands for",
            ));
        }
        let blocks = dropout_blocks(&**problem.network(), s.input_rate, s.rate);
        let mut penalties = problem.penalties();
        for block in &blocks {
            for penalty in penalties.iter_mut().filter(|p| p.range.start == block.start) {
                *penalty =
                    GaussianPenalty { precision: penalty.precision / (1.0 - block.rate as f32), ..penalty.clone() };
            }
        }
        let (dropping, mask) = match s.on {
            DropoutOn::Weights => (problem.clone(), blocks.clone()),
            DropoutOn::Activations => (problem.with_dropout(s.input_rate, s.rate)?, Vec::new()),
        };
        let mut trainer =
            PointTrainer::new(&dropping, true, s.batch_size, key).with_penalties(penalties).with_dropped_units(mask);
        let tempering = Tempering { beta: 1.0, warmup: 0.0 };
        let summary = train(&mut trainer, &dropping, &s.into(), &tempering, key, observer)?;
        Ok(Fit { posterior: Box::new(DropoutPosterior::new(trainer.point().to_vec(), blocks)), summary })
    }
}
