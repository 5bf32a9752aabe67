//! How noisy each estimator of the ELBO's gradient is: at the same q, on the same rows, at the same cost.
//!
//! The cost of a draw is counted in products of rows × weights: a value is one, a gradient three (forward, and two products
//! back), with noise by row six. Within a budget of [`PRODUCTS`] products every estimator averages over as many draws as it can
//! afford: 12 for the score function, 4 for direct sampling, 2 for flipout and local reparameterisation. Reported is the variance of
//! that average, a mean over the gradient's components in m and σ of the network's parameters; the likelihood's own are drawn
//! once for all rows by every estimator. Cost: `repeats` times the budget, five times.

use super::bbvi::BlackBoxTrainer;
use super::mean_field::{Estimator, MeanFieldTrainer};
use super::observer::{Flow, Observer, Progress};
use super::train::StepPlan;
use crate::error::{ErrorKind, Result};
use crate::family::ScoreFunction;
use crate::nn::RowNoise;
use crate::problem::{Problem, Rows};
use crate::rng::Key;
use std::time::Instant;

/// What one estimate may cost.
pub const PRODUCTS: usize = 12;

/// How one estimator does.
#[derive(Debug, Clone, PartialEq)]
pub struct GradientVariance {
    /// Its name.
    pub estimator: &'static str,
    /// Draws it averages over.
    pub draws: usize,
    /// Mean over components of the variance over repeats.
    pub variance: f64,
    /// Of the clock, per estimate.
    pub seconds: f64,
}

/// The estimators, noisiest first by theory: what a draw costs, and how it is made.
const ESTIMATES: [(&str, usize, Kind); 5] = [
    ("score-function", 1, Kind::Score { control_variate: false }),
    ("score-function-control-variate", 1, Kind::Score { control_variate: true }),
    ("direct", 3, Kind::Path(Estimator::Direct)),
    ("flipout", 6, Kind::Path(Estimator::ByRow(RowNoise::Flipout))),
    ("local", 6, Kind::Path(Estimator::ByRow(RowNoise::Local))),
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Score { control_variate: bool },
    Path(Estimator),
}

/// Measures all estimators at q = N(mean, std²) on the given rows.
pub fn gradient_variances(
    problem: &Problem,
    mean: &[f32],
    std: &[f32],
    rows: &[u32],
    repeats: usize,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Vec<GradientVariance>> {
    problem.whole("a comparison of estimators")?;
    let (dim, size) = (mean.len(), problem.network().layout().len());
    let mut found = Vec::new();
    for (e, (estimator, cost, kind)) in ESTIMATES.into_iter().enumerate() {
        let draws = PRODUCTS / cost;
        let mut sampler = Sampler::new(problem, mean, std, draws, rows.len(), key, kind);
        let mut moments = Moments { count: 0.0, mean: vec![0.0; 2 * size], squares: vec![0.0; 2 * size] };
        let (mut d_mean, mut d_std) = (vec![0.0f32; dim], vec![0.0f32; dim]);
        let started = Instant::now();
        for t in 0..repeats {
            sampler.estimate(Rows::Batch(rows), t as u64, &mut d_mean, &mut d_std);
            moments.add(d_mean[..size].iter().chain(&d_std[..size]));
            let (step, steps) = ((e * repeats + t + 1) as u64, (ESTIMATES.len() * repeats) as u64);
            let progress = Progress { step, steps, epoch: 0, epochs: 0, objective: f64::NAN };
            if observer.progress(&progress) == Flow::Stop {
                return Err(ErrorKind::Interrupted.into());
            }
        }
        let seconds = started.elapsed().as_secs_f64() / repeats as f64;
        found.push(GradientVariance { estimator, draws, variance: moments.mean_variance(), seconds });
    }
    Ok(found)
}

enum Sampler<'p> {
    Score(Box<BlackBoxTrainer<'p>>),
    Path(Box<MeanFieldTrainer<'p>>),
}

impl<'p> Sampler<'p> {
    fn new(problem: &'p Problem, mean: &[f32], std: &[f32], draws: usize, rows: usize, key: Key, kind: Kind) -> Self {
        match kind {
            Kind::Score { control_variate } => {
                let estimator = ScoreFunction { control_variate };
                Sampler::Score(Box::new(BlackBoxTrainer::new(problem, mean, std, estimator, draws, rows, key)))
            }
            Kind::Path(estimator) => {
                let trainer = MeanFieldTrainer::new(problem, mean, std, draws, rows, key);
                Sampler::Path(Box::new(trainer.with_estimator(estimator)))
            }
        }
    }

    fn estimate(&mut self, rows: Rows<'_>, step: u64, d_mean: &mut [f32], d_std: &mut [f32]) {
        let plan = StepPlan { step, rate: 0.0, beta: 1.0 };
        match self {
            Sampler::Score(trainer) => {
                trainer.estimate(rows, plan);
                let (m, s) = trainer.gradient();
                d_mean.copy_from_slice(m);
                d_std.copy_from_slice(s);
            }
            Sampler::Path(trainer) => trainer.elbo_gradient(rows, plan, d_mean, d_std),
        }
    }
}

/// Welford's running mean and sum of squared deviations.
struct Moments {
    count: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    fn add<'a>(&mut self, values: impl Iterator<Item = &'a f32>) {
        self.count += 1.0;
        for ((v, mean), squares) in values.zip(&mut self.mean).zip(&mut self.squares) {
            let d = f64::from(*v) - *mean;
            *mean += d / self.count;
            *squares += d * (f64::from(*v) - *mean);
        }
    }

    fn mean_variance(&self) -> f64 {
        let sum: f64 = self.squares.iter().sum();
        sum / (self.count - 1.0).max(1.0) / self.squares.len().max(1) as f64
    }
}
