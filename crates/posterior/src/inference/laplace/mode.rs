//! To the mode: MAP by Adam, in turns with the evidence where that is asked for, then L-BFGS on all rows.

use super::super::map;
use super::super::observer::Observer;
use super::super::train::{FitSummary, epochs};
use super::Laplace;
use super::approximation::{LaplaceApproximation, LaplaceOptions};
use super::mixture::no_point;
use crate::error::Result;
use crate::nn::Mode;
use crate::optim::climb;
use crate::posterior::PointPosterior;
use crate::problem::curvature::Subset;
use crate::problem::{Problem, Rows};
use crate::rng::Key;
use std::sync::Arc;

/// Multiply-adds that polishing may take: some ten seconds.
const POLISHING: f64 = 2e11;

/// The gradient of the log joint over all rows.
pub(super) fn gradient(problem: &Problem, w: &[f64]) -> Vec<f64> {
    let mut gradient = vec![0.0; w.len()];
    problem.density::<f64>(problem.data().rows).log_joint(w, Rows::All, Mode::Plain, Some(&mut gradient));
    gradient
}

/// The mode, the problem with the prior that it is a mode of, and how it was found. A problem that has a start is taken there, without training.
pub(super) fn find(
    problem: &Problem,
    laplace: &Laplace,
    subset: &Subset,
    options: LaplaceOptions,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<(Vec<f64>, Problem, FitSummary)> {
    if let Some(start) = problem.start() {
        let none = FitSummary {
            steps: 0,
            seconds: 0.0,
            stopped_early: false,
            penalty_name: String::new(),
            epochs: 0,
            trace: Vec::new(),
        };
        let w = start.centre().ok_or_else(|| no_point(start))?;
        return Ok((wide(&w), problem.clone(), none));
    }
    let rounds = laplace.online.max(1);
    let share = match rounds {
        1 => *laplace,
        _ => Laplace { epochs: epochs(problem, &laplace.into()).div_ceil(rounds), ..*laplace },
    };
    let mut now = problem.clone();
    let (mut w, mut summary) = train(&now, &share, key, observer)?;
    for number in 1..rounds as u64 {
        let both = LaplaceOptions { learn_prior: true, learn_noise: true, ..options };
        let at = LaplaceApproximation::new(&now, w, subset, both)?;
        let factors = at.prior_factors();
        now = rescaled(&now, subset, |l| factors[l.min(factors.len() - 1)].powf(-0.5), at.mean())?;
        // Every round has random numbers of its own.
        let (next, more) = train(&now, &share, key.derive(number), observer)?;
        w = next;
        summary = FitSummary { steps: summary.steps + more.steps, epochs: summary.epochs + more.epochs, ..more };
    }
    Ok((w, now, summary))
}

fn wide(w: &[f32]) -> Vec<f64> {
    w.iter().map(|v| f64::from(*v)).collect()
}

/// MAP, then L-BFGS; a problem that has a start begins there.
pub(super) fn train(
    problem: &Problem,
    laplace: &Laplace,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<(Vec<f64>, FitSummary)> {
    let fit = map::fit(problem, &laplace.into(), true, key, observer)?;
    let mut w = wide(&fit.posterior.draw(key).w);
    polish(problem, &mut w, laplace.polish);
    Ok((w, fit.summary))
}

/// The problem with the prior's standard deviations of every affine block multiplied by a factor, to begin at a point.
pub(super) fn rescaled(
    problem: &Problem,
    subset: &Subset,
    factor: impl Fn(usize) -> f64,
    start: Vec<f64>,
) -> Result<Problem> {
    let prior = problem.prior().with_normal_std(|range, std| {
        let affine = subset.affines.iter().position(|l| (l.start..l.start + l.len()).contains(&range.start));
        affine.map_or(std, |l| std * factor(l))
    });
    let point = PointPosterior::new(start.iter().map(|v| *v as f32).collect());
    problem.with_prior(prior)?.with_start(Arc::new(point))
}

/// L-BFGS on all rows; not through dropout layers, whose training has another objective.
fn polish(problem: &Problem, w: &mut [f64], steps: usize) {
    if problem.network().is_random() {
        return;
    }
    let per_step = 3.0 * problem.data().rows as f64 * problem.dim() as f64;
    let steps = steps.min((POLISHING / per_step) as usize);
    if steps > 0 {
        let mut density = problem.density::<f64>(problem.data().rows);
        climb(w, steps, |w, g| density.log_joint(w, Rows::All, Mode::Plain, Some(g)));
    }
}
