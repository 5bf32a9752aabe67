//! MC dropout: training with dropout, read as variational inference (Gal & Ghahramani 2016).
//!
//! q(w): a unit's weights are 0 with probability π, else m. KL[q ‖ N(0, s²)] ≈ Σ (1−π)/(2s²)·m² + const, so that the objective is
//! E_q[log p(D | w)] − Σ (1−π)/(2s²)·m². We keep θ = (1−π)m, the mean of q, whose term is θ²/(2s²(1−π)). Two ways to the
//! expectation: `on = activations` draws a mask for every row; `on = weights` one for all rows of a step, on the weights
//! themselves. Both have the same mean; the first is less noisy. Biases and the likelihood's parameters are points with
//! the problem's prior. Cost: that of MAP, and a mask.

use super::observer::Observer;
use super::point::PointTrainer;
use super::train::{BATCH_SIZE, EPOCHS, PATIENCE, Tempering, train};
use super::{Fit, Method, MethodEntry};
use crate::error::{Error, Result};
use crate::optim::{GaussianPenalty, LEARNING_RATE, SCHEDULE, WARMUP};
use crate::posterior::{DropoutPosterior, dropout_blocks};
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::{Allowed, Default, Setting, Settings};

pub(super) const RATE: Setting = Setting {
    name: "rate",
    help: "π: probability of a hidden unit to be dropped",
    default: Default::Float(0.1),
    allowed: Allowed::Float(0.0, 0.999),
};
const INPUT_RATE: Setting = Setting {
    name: "input_rate",
    help: "the same for the network's inputs",
    default: Default::Float(0.0),
    allowed: Allowed::Float(0.0, 0.999),
};
const ON: Setting = Setting {
    name: "on",
    help: "masks in training: on activations, one for every row, or on weights, one for all rows of a step",
    default: Default::Text("activations"),
    allowed: Allowed::OneOf(&["activations", "weights"]),
};

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "mc-dropout",
    summary: "dropout in training and in prediction, read as a posterior",
    gives: "networks with units dropped at random",
    settings: &[EPOCHS, BATCH_SIZE, LEARNING_RATE, SCHEDULE, WARMUP, PATIENCE, RATE, INPUT_RATE, ON],
    build: |settings| Box::new(McDropout { settings }),
};

/// The method with its settings.
#[derive(Debug)]
pub struct McDropout {
    settings: Settings,
}

impl Method for McDropout {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        super::needs::by_gradient(problem, &self.settings, 8)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &self.settings;
        if problem.prior().without_normal().is_some() {
            return Err(Error::setting(
                format!("the method 'mc-dropout' cannot have the prior '{}'", problem.prior().name()),
                "choose the prior 'normal': its L2 term is what dropout stands for",
            ));
        }
        let blocks = dropout_blocks(&**problem.network(), s.float("input_rate"), s.float("rate"));
        let mut penalties = problem.penalties();
        for block in &blocks {
            for penalty in penalties.iter_mut().filter(|p| p.range.start == block.start) {
                *penalty =
                    GaussianPenalty { precision: penalty.precision / (1.0 - block.rate as f32), ..penalty.clone() };
            }
        }
        let (dropping, mask) = match s.text("on") {
            "weights" => (problem.clone(), blocks.clone()),
            _ => (problem.with_dropout(s.float("input_rate"), s.float("rate"))?, Vec::new()),
        };
        let mut trainer = PointTrainer::new(&dropping, true, s.count("batch_size"), key)
            .with_penalties(penalties)
            .with_dropped_units(mask);
        let tempering = Tempering { beta: 1.0, warmup: 0.0 };
        let summary = train(&mut trainer, &dropping, s, &tempering, key, observer)?;
        Ok(Fit { posterior: Box::new(DropoutPosterior::new(trainer.point().to_vec(), blocks)), summary })
    }
}
