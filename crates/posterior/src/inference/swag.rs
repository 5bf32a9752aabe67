//! SWAG: a Gaussian from the path of stochastic gradients around a MAP fit; several of them are MultiSWAG.
//!
//! After the MAP fit, steps at a constant rate wander around it; w_t is collected after every epoch. With w̄ and σ² the mean and the variance
//! of the T snapshots and D the last K deviations w_t − w̄_t from the mean so far,
//!   q = N(w̄, ½ diag σ² + D Dᵀ/(2(K − 1))).
//! The steps are Adam's: one rate then suits networks of all scales. What that rate is decides how far the path strays. For one weight with
//! curvature A, and gradients of variance v, a step η/√v leaves the variance η√v/2A, so η = 2/√v gives the posterior's 1/A; for
//! many, KL[path ‖ posterior] is least at η = 2/mean √v (Mandt et al., theorem 1, with Adam's preconditioner). That is the
//! default, with v measured at the MAP, but never more than `learning_rate`, where Adam was stable. The rows of a step are drawn with replacement, at most a tenth of all:
//! batches that share out the rows of an epoch have noise that cancels by its end, where snapshots are taken.
//!
//! References: Maddox et al. (2019), NeurIPS; Wilson & Izmailov (2020), NeurIPS (MultiSWAG); Mandt, Hoffman & Blei (2017), JMLR. Cost: a MAP
//! fit, `swag_epochs` more, and (K + 4)P numbers.

use super::feed::gather;
use super::map;
use super::members::fit_members;
use super::observer::Observer;
use super::point::PointTrainer;
use super::train::{
    EpochRecord, FitSummary, StepPlan, Stepper, Tempering, TrainingOptions, has_training, train, training_fields,
};
use super::{Fit, Method, MethodEntry};
use crate::data::Batch;
use crate::error::Result;
use crate::nn::Mode;
use crate::optim::Decay;
use crate::posterior::{LowRankPosterior, MixturePosterior};
use crate::problem::{Problem, Rows};
use crate::rng::{Key, Purpose, Stream};
use crate::settings::{Checked, NamedOptions, Options, Settings};
use crate::snapshot::{State, Stateful};

crate::options! {
    /// SWAG: a Gaussian from the path of stochastic gradients around a MAP fit.
    pub struct Swag: "swag" {
        /// Gaussians, each around a MAP fit of its own; more than 1 is MultiSWAG
        members: usize = 1 => Int(1, 1000),
        /// passes over the data after the MAP fit, with a snapshot after each
        swag_epochs: usize = 40 => Int(2, 1_000_000),
        /// learning rate of these passes; 0 means the one whose path is nearest to the posterior, at most learning_rate
        swag_rate: f64 = 0.0 => Float(0.0, 10.0),
        /// K: deviations kept for the low-rank part
        rank: usize = 20 => Int(2, 1000),
        ..training_fields!,
    }
}
has_training!(Swag);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Swag::NAME,
    summary: "a Gaussian from the path of stochastic gradients around a MAP fit; with members, MultiSWAG",
    gives: "a diagonal plus low-rank Gaussian, or a mixture of them",
    settings: Swag::SETTINGS,
    build: |settings| Box::new(Checked::<Swag>::from(settings)),
};

/// Of all rows, at most one in so many is in a step of the path.
const LEAST_STEPS: usize = 10;
/// Gradients by which their variance is measured.
const MEASURED: usize = 32;
/// The smallest σ: a weight that never moved is as good as fixed, and q keeps a density.
const FLOOR: f64 = 1e-10;

impl Method for Checked<Swag> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        let rank = self.rank;
        let one = super::needs::by_gradient(problem, self.batch_size, 12 + 2 * rank);
        super::needs::by_members(problem, self.members, one, 2 + rank)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let (member, count) = (Member { options: self.clone() }, self.members);
        if count == 1 {
            return member.fit(problem, key, observer);
        }
        let (fits, summary) = fit_members(&member, count, &problem.without_start(), key, observer)?;
        let members = fits.into_iter().map(|f| f.posterior).collect();
        Ok(Fit { posterior: Box::new(MixturePosterior::new(members, None)), summary })
    }
}

/// One Gaussian.
#[derive(Debug)]
struct Member {
    options: Checked<Swag>,
}

impl Method for Member {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.options.settings()
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let s = &*self.options;
        let map = map::fit(problem, &s.into(), true, key, observer)?;
        let w = map.posterior.draw(key).w;
        // A key that no purpose has, for a path of its own.
        let key = key.derive(u64::MAX);
        let rows = problem.data().rows;
        let batch = s.batch_size.min(rows.div_ceil(LEAST_STEPS));
        let rate = match s.swag_rate {
            0.0 => natural_rate(problem, &w, batch, key)?.min(s.learning_rate),
            rate => rate,
        };
        let path = TrainingOptions {
            epochs: s.swag_epochs,
            batch_size: batch,
            learning_rate: rate,
            schedule: Decay::Constant,
            ..TrainingOptions::default()
        };
        // A rate that was measured may be out of range.
        let path = Checked::new(&path, ENTRY.name)?;
        let mut trainer = SwagTrainer::new(problem, &w, s.rank, batch, key);
        let tempering = Tempering { beta: 1.0, warmup: 0.0 };
        let walked = train(&mut trainer, problem, &path, &tempering, key, observer)?;
        Ok(Fit { posterior: Box::new(trainer.path().posterior()), summary: after(map.summary, walked) })
    }
}

/// One fit and another that went on from there, as one.
fn after(first: FitSummary, second: FitSummary) -> FitSummary {
    let later = second.trace.iter().map(|r| EpochRecord { epoch: first.epochs + r.epoch, ..*r });
    FitSummary {
        steps: first.steps + second.steps,
        seconds: first.seconds + second.seconds,
        epochs: first.epochs + second.epochs,
        trace: first.trace.iter().copied().chain(later).collect(),
        ..first
    }
}

/// η = 2/mean √v over the weights whose gradient varies, v the variance of a batch's estimate of the gradient at w.
fn natural_rate(problem: &Problem, w: &[f32], batch: usize, key: Key) -> Result<f64> {
    let (mut density, mut read) = (problem.density::<f32>(batch), Batch::default());
    let (mut gradient, mut rows) = (vec![0.0; w.len()], vec![0; batch]);
    let (mut mean, mut square) = (vec![0.0; w.len()], vec![0.0; w.len()]);
    for t in 0..MEASURED {
        let key = key.purpose(Purpose::Estimate).step(t as u64);
        draw_rows(&mut rows, problem.data().rows, key);
        let rows = gather(problem, &rows, &mut read)?;
        density.log_likelihood(w, rows, Mode::Train(key), Some(&mut gradient));
        for ((m, s), g) in mean.iter_mut().zip(&mut square).zip(&gradient) {
            let d = f64::from(*g) - *m;
            *m += d / (t + 1) as f64;
            *s += d * (f64::from(*g) - *m);
        }
    }
    let stds = square.iter().map(|s| (s / (MEASURED - 1) as f64).sqrt()).filter(|v| *v > 0.0);
    let (sum, count) = stds.fold((0.0, 0.0), |(sum, n), v| (sum + v, n + 1.0));
    Ok(if sum > 0.0 { 2.0 * count / sum } else { f64::INFINITY })
}

/// Rows of a step, each any of all.
fn draw_rows(rows: &mut [u32], of: usize, key: Key) {
    let mut stream = Stream::new(key);
    rows.iter_mut().for_each(|r| *r = stream.below(of as u64) as u32);
}

/// Walks at the trainer's rate and collects a snapshot after every epoch.
pub struct SwagTrainer<'p> {
    point: PointTrainer<'p>,
    path: PathMoments,
    rows: Vec<u32>,
    of: usize,
    per_epoch: u64,
    batches: Key,
}

impl<'p> SwagTrainer<'p> {
    /// From w on, in steps of `batch` rows; `rank` is K.
    pub fn new(problem: &'p Problem, w: &[f32], rank: usize, batch: usize, key: Key) -> Self {
        let of = problem.data().rows;
        SwagTrainer {
            point: PointTrainer::new(problem, true, batch, key).starting_at(w),
            path: PathMoments::new(w.len(), rank),
            rows: vec![0; batch],
            of,
            per_epoch: of.div_ceil(batch) as u64,
            batches: key.purpose(Purpose::Batches),
        }
    }

    /// One step, and the snapshot if it is an epoch's last; returns the estimate of log p(D | w) before it. Allocates nothing.
    pub fn step(&mut self, plan: StepPlan) -> f64 {
        draw_rows(&mut self.rows, self.of, self.batches.step(plan.step));
        let rows = std::mem::take(&mut self.rows);
        let value = self.step_on(Rows::Batch(&rows), plan);
        self.rows = rows;
        value
    }

    fn step_on(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        let value = self.point.step(rows, plan);
        if (plan.step + 1).is_multiple_of(self.per_epoch) {
            self.path.collect(self.point.point());
        }
        value
    }

    /// What was collected.
    pub fn path(&self) -> &PathMoments {
        &self.path
    }
}

impl Stateful for SwagTrainer<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.part("point", &mut self.point)?;
        state.part("path", &mut self.path)
    }
}

impl Stepper for SwagTrainer<'_> {
    fn kind(&self) -> &'static str {
        "swag"
    }
    /// The rows are its own: see the head of this file.
    fn step(&mut self, rows: Rows<'_>, plan: StepPlan) -> f64 {
        match rows {
            Rows::Read(_) => self.step_on(rows, plan),
            _ => SwagTrainer::step(self, plan),
        }
    }
    fn own_rows(&mut self, step: u64) -> Option<Vec<u32>> {
        draw_rows(&mut self.rows, self.of, self.batches.step(step));
        Some(self.rows.clone())
    }
    fn penalty(&mut self) -> f64 {
        self.point.penalty()
    }
    fn penalty_name(&self) -> &'static str {
        self.point.penalty_name()
    }
    fn keep(&mut self) {
        self.point.keep();
    }
    fn restore(&mut self) {
        self.point.restore();
    }
    fn is_finite(&self) -> bool {
        self.point.is_finite()
    }
}

/// Mean, variance and last deviations of the snapshots of a path.
#[derive(Debug, Clone)]
pub struct PathMoments {
    count: usize,
    mean: Vec<f64>,
    /// Σ (w − w̄)², by Welford's update.
    squares: Vec<f64>,
    /// K columns; the oldest is written over.
    deviations: Vec<f32>,
    rank: usize,
}

impl Stateful for PathMoments {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.count("count", &mut self.count)?;
        state.array("mean", &mut self.mean)?;
        state.array("squares", &mut self.squares)?;
        state.array("deviations", &mut self.deviations)
    }
}

impl PathMoments {
    /// Of nothing yet, with room for K = `rank` deviations of `dim` parameters.
    pub fn new(dim: usize, rank: usize) -> PathMoments {
        PathMoments { count: 0, mean: vec![0.0; dim], squares: vec![0.0; dim], deviations: vec![0.0; dim * rank], rank }
    }

    /// Adds a snapshot. Allocates nothing.
    pub fn collect(&mut self, w: &[f32]) {
        let dim = self.mean.len();
        let column = self.count % self.rank;
        self.count += 1;
        let share = 1.0 / self.count as f64;
        let deviations = &mut self.deviations[column * dim..(column + 1) * dim];
        for i in 0..dim {
            let w = f64::from(w[i]);
            let before = w - self.mean[i];
            self.mean[i] += share * before;
            let deviation = w - self.mean[i];
            self.squares[i] += before * deviation;
            deviations[i] = deviation as f32;
        }
    }

    /// q of at least two snapshots.
    pub fn posterior(&self) -> LowRankPosterior {
        let columns = self.count.min(self.rank);
        let share = 1.0 / self.count as f64;
        let std = self.squares.iter().map(|s| (0.5 * s * share).sqrt().max(FLOOR) as f32).collect();
        let scale = (1.0 / (2.0 * (columns.max(2) - 1) as f64).sqrt()) as f32;
        let factor = self.deviations[..columns * self.mean.len()].iter().map(|d| scale * d).collect();
        LowRankPosterior::new(self.mean.iter().map(|m| *m as f32).collect(), std, factor, None)
    }
}
