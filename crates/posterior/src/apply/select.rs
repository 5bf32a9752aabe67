//! Which of several models? p(Mᵢ | D) ∝ p(D | Mᵢ) p(Mᵢ).
//!
//! log p(D | M) is what the method of each recipe gives: exact for `linear`, Laplace's approximation, or a lower bound (ELBO), in which case a model
//! whose posterior is harder to approximate is at a disadvantage: bounds order models, but there is no p(M | D) from them. It needs no rows held out, and all of them count in it. Beside it, as a
//! check, the mean log-likelihood of some rows under a fit to the others; both fits see columns scaled by all rows.
//!
//! Reference: MacKay (1992), Neural Computation 4, 415. Cost: two fits per model, as many models at a time as there are threads.

use crate::data::{EncodeOptions, Encoded, Encoder, Table, TargetKind, split};
use crate::error::{Error, Result};
use crate::inference::{FitSummary, Flow, Observer, Progress, side_by_side};
use crate::model::{Model, Recipe, Resolved};
use crate::rng::Key;
use std::sync::Arc;

/// How models are judged.
#[derive(Debug, Clone)]
pub struct SelectOptions {
    /// p(M) up to a factor, one for each; none means all the same.
    pub prior_weights: Vec<f64>,
    /// Part of the rows that is held out for the check; 0 means no check.
    pub held_out: f64,
    /// Draws of the predictive for it.
    pub draws: usize,
    /// What the random streams of all fits, and the choice of rows, are keyed by.
    pub seed: u64,
}

impl Default for SelectOptions {
    fn default() -> Self {
        SelectOptions { prior_weights: Vec::new(), held_out: 0.2, draws: 100, seed: 0 }
    }
}

/// What a method's number for log p(D | M) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Evidence {
    /// log p(D | M) itself.
    Exact,
    /// An approximation that may err to either side: Laplace's, or by importance sampling.
    Estimate,
    /// A lower bound (ELBO). How far below log p(D | M) it is differs from model to model, so that differences are no log Bayes factors.
    Bound,
}

impl Evidence {
    /// Of a fit by the method of this name. What is not known to be better is a bound.
    fn of(method: &str, summary: &FitSummary) -> Evidence {
        match method {
            "linear" => Evidence::Exact,
            "laplace" | "importance" => Evidence::Estimate,
            "last-layer" if summary.penalty_name != "KL" => Evidence::Estimate,
            _ => Evidence::Bound,
        }
    }
}

/// A model and what was found.
#[derive(Debug, Clone)]
pub struct Judged {
    /// Every setting spelled out.
    pub recipe: Recipe,
    /// P: how many parameters, the likelihood's included.
    pub parameters: usize,
    /// log p(D | M), or its bound; targets as the network sees them.
    pub log_evidence: f64,
    /// Which of these it is.
    pub evidence: Evidence,
    /// log p(D | M) + log p(M), or its bound: what models are ordered by.
    pub log_joint: f64,
    /// p(M | D); none where the evidence of a model is only bounded, since bounds give no probabilities.
    pub probability: Option<f64>,
    /// Mean log predictive density of the rows held out, in the user's units.
    pub held_out_log_likelihood: Option<f64>,
}

/// Judges models of one table.
pub fn select(
    recipes: &[Recipe],
    table: &Table,
    encode: &EncodeOptions,
    options: &SelectOptions,
    observer: &mut dyn Observer,
) -> Result<Vec<Judged>> {
    let log_priors = log_priors(&options.prior_weights, recipes.len())?;
    let fitted = Encoder::fit(table, encode)?;
    fitted.warnings.iter().for_each(|w| observer.warn(w));
    let encoder = fitted.encoder;
    let rows = encoder.encode(table, true)?;
    // A slip in the last recipe is said before the first is fitted.
    let resolved: Vec<Resolved> = recipes.iter().map(|r| r.resolve(&encoder)).collect::<Result<_>>()?;
    let check = Check::new(&encoder, &rows, options)?;
    let key = Key::new(options.seed);
    let found = side_by_side(resolved.len(), observer, |k, observer| {
        let (resolved, mut observer) = (&resolved[k], ProgressAlone(observer));
        let method = resolved.method()?;
        let fit = method.fit(&resolved.clone().problem(rows.data.clone())?, key, &mut observer)?;
        let log_evidence = fit.posterior.log_evidence().ok_or_else(|| {
            Error::setting(
                format!("the method '{}' with these settings gives no evidence of a model", method.name()),
                "use linear, laplace or mean-field, or another whose fit reports log_evidence",
            )
        })?;
        let evidence = Evidence::of(method.name(), &fit.summary);
        let held_out = match &check {
            None => None,
            Some(check) => {
                let problem = resolved.clone().problem(rows.data.select(&check.train))?;
                let fit = method.fit(&problem, key, &mut observer)?;
                let model = Model {
                    mixing: None,
                    recipe: resolved.recipe.clone(),
                    encoder: encoder.clone(),
                    seed: options.seed,
                    rows: check.train.len(),
                    summary: fit.summary,
                    calibration: None,
                    fitted: Arc::new(resolved.fitted(fit.posterior.into())),
                };
                Some(check.log_likelihood(&model, options.draws)?)
            }
        };
        Ok((log_evidence, evidence, held_out))
    })?;
    let log_joints: Vec<f64> = found.iter().zip(&log_priors).map(|((e, ..), p)| e + p).collect();
    let bounded = found.iter().any(|(_, evidence, _)| *evidence == Evidence::Bound);
    let probabilities = probabilities(&log_joints);
    let judged = resolved.iter().zip(found).zip(log_joints.iter().zip(&probabilities));
    Ok(judged
        .map(|((resolved, (log_evidence, evidence, held_out_log_likelihood)), (log_joint, probability))| Judged {
            recipe: resolved.recipe.clone(),
            parameters: resolved.prior.len(),
            log_evidence,
            evidence,
            log_joint: *log_joint,
            probability: (!bounded).then_some(*probability),
            held_out_log_likelihood,
        })
        .collect())
}

/// ln p(M), from weights that need not add up to 1.
fn log_priors(weights: &[f64], models: usize) -> Result<Vec<f64>> {
    if weights.is_empty() {
        return Ok(vec![-(models as f64).ln(); models]);
    }
    let wrong = |what: String| Err(Error::setting(what, "give one number that is not negative for each model"));
    if weights.len() != models {
        return wrong(format!("there are {models} models and {} prior weights", weights.len()));
    }
    if let Some(w) = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
        return wrong(format!("a prior weight cannot be {w}"));
    }
    let sum: f64 = weights.iter().sum();
    if sum == 0.0 {
        return wrong("all prior weights are 0".to_owned());
    }
    Ok(weights.iter().map(|w| (w / sum).ln()).collect())
}

/// Shares in proportion to the exponentials.
fn probabilities(logs: &[f64]) -> Vec<f64> {
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shares: Vec<f64> = logs.iter().map(|l| (l - highest).exp()).collect();
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|s| s / sum).collect()
}

/// The rows held out.
struct Check {
    train: Vec<usize>,
    rows: Encoded,
    y: Vec<f64>,
}

impl Check {
    fn new(encoder: &Encoder, rows: &Encoded, options: &SelectOptions) -> Result<Option<Check>> {
        if options.held_out == 0.0 {
            return Ok(None);
        }
        let classes = matches!(encoder.target_kind(), TargetKind::Class { .. }).then_some(&*rows.data.y);
        let split = split(rows.data.rows, options.held_out, classes, Key::new(options.seed))?;
        let held = rows.data.select(&split.validation);
        let y = encoder.decode_target(&held.y);
        Ok(Some(Check { train: split.train, rows: Encoded { data: held, ..rows.clone() }, y }))
    }

    fn log_likelihood(&self, model: &Model, draws: usize) -> Result<f64> {
        let logs = model.predict(&self.rows.data.x, &model.how(draws))?.log_likelihood(&self.y);
        Ok(logs.iter().sum::<f64>() / logs.len() as f64)
    }
}

/// What each of many fits has to say would be too much.
struct ProgressAlone<'o>(&'o mut dyn Observer);

impl Observer for ProgressAlone<'_> {
    fn progress(&mut self, progress: &Progress) -> Flow {
        self.0.progress(progress)
    }
    fn warn(&mut self, _: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_shares_of_evidence_times_prior() {
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12); // rounding
        assert!(close(&probabilities(&[0.0, 3f64.ln()]), &[0.25, 0.75]));
        // Far from where exp is finite; a model that was ruled out stays so.
        assert!(close(&probabilities(&[-1e5, -1e5 + 1f64.ln(), f64::NEG_INFINITY]), &[0.5, 0.5, 0.0]));
        let priors: Vec<f64> = log_priors(&[1.0, 2.0, 0.0], 3).unwrap().iter().map(|l| l.exp()).collect();
        assert!(close(&priors, &[1.0 / 3.0, 2.0 / 3.0, 0.0]));
        assert!(close(&log_priors(&[], 4).unwrap(), &[0.25f64.ln(); 4]));
    }

    #[test]
    fn wrong_weights_get_one_sentence() {
        let message = |w: &[f64]| log_priors(w, 2).unwrap_err().to_string();
        assert!(message(&[1.0]).starts_with("there are 2 models and 1 prior weights; "));
        assert!(message(&[1.0, -1.0]).starts_with("a prior weight cannot be -1; "));
        assert!(message(&[1.0, f64::NAN]).contains("NaN"));
        assert!(message(&[0.0, 0.0]).starts_with("all prior weights are 0"));
    }
}
