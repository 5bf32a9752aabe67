//! A mixture of Laplace's approximations: q(w) = 1/S Σₖ N(w_k, Σ_k), a Gaussian at each of S modes.
//!
//! Every member has initial values of its own, or a member of the start, and a prior precision and noise of its own. Their weights are equal: evidences
//! of networks differ by many nats, and weights by evidence would leave one member. What is reported is log 1/S Σₖ p(D | k), the evidence
//! of "one of these modes, each as likely beforehand", with every mode a model of its own as in MacKay (1992); it lies between the mean of the
//! members' log evidences and the largest, and is theirs where all are the same.
//!
//! References: Eschenhagen, Daxberger, Hennig & Kristiadi (2021), "Mixtures of Laplace Approximations for Improved Post-Hoc Uncertainty in Deep
//! Learning"; MacKay (1992), Neural Computation 4. Cost: S fits side by side.

use super::super::members::fit_each;
use super::super::observer::Observer;
use super::super::{Fit, Method};
use crate::error::{Error, Result};
use crate::math::special::log_sum_exp;
use crate::posterior::{MixturePosterior, PointPosterior, Posterior};
use crate::problem::Problem;
use crate::rng::Key;
use std::sync::Arc;

/// `count` members, each by `method`.
pub(super) fn fit(
    method: &dyn Method,
    count: usize,
    problem: &Problem,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<Fit> {
    let (fits, summary) = fit_each(method, &problems(problem, count)?, key, observer)?;
    let members: Vec<Box<dyn Posterior>> = fits.into_iter().map(|f| f.posterior).collect();
    let evidences: Option<Vec<f64>> = members.iter().map(|m| m.log_evidence()).collect();
    let evidence = evidences.map(|e| log_sum_exp(&e) - (e.len() as f64).ln());
    Ok(Fit { posterior: Box::new(MixturePosterior::new(members, evidence)), summary })
}

/// What each member is fitted to: the same, or, where the start is a mixture, each from one of its members.
fn problems(problem: &Problem, count: usize) -> Result<Vec<Problem>> {
    let Some(start) = problem.start() else { return Ok(vec![problem.clone(); count]) };
    match start.members() {
        [] => Err(Error::setting(
            format!("{count} members that begin at one start would all be the same"),
            "leave members out, or start from an ensemble of as many",
        )),
        members if members.len() != count => Err(Error::setting(
            format!("the start has {} members, and members is {count}", members.len()),
            format!("use ⟨set members={}⟩", members.len()),
        )),
        members => members
            .iter()
            .map(|m| {
                let centre = m.centre().ok_or_else(|| no_point(&**m))?;
                problem.clone().with_start(Arc::new(PointPosterior::new(centre)))
            })
            .collect(),
    }
}

/// What is said of a start without a point.
pub(super) fn no_point(start: &dyn Posterior) -> Error {
    let what = format!("a posterior of kind '{}' has no point to start from", start.kind());
    let fix = match start.members().len() {
        0 | 1 => "start from a model fitted by map, ml, mean-field or laplace, or an imported one".to_owned(),
        members => format!("use ⟨set members={members}⟩ for a Gaussian at each of its members"),
    };
    Error::setting(what, fix)
}
