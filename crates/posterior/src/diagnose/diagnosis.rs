//! A fitted model judged: its chains, or its weights against the posterior, and its predictions.

use super::approximation::PredictiveCheck;
use super::chains::ChainReport;
use super::verdict::{Finding, Trust, Verdict};
use crate::convergence::{Weights, importance_weights};
use crate::data::{Encoded, TargetKind};
use crate::error::{Error, Result};
use crate::fitted::LeaveOneOut;
use crate::fitted::{Mixing, NetworkFit};
use crate::math::special::normal_quantile;
use crate::model::Model;
use crate::rng::{Key, Purpose};

/// Draws for the predictive distribution that is held against outcomes.
const PREDICTIVE_DRAWS: usize = 200;
/// How far the mean of a standardised target may be from 0, and its variance from 1, in the rows a model was fitted to.
const STANDARDISED: f64 = 1e-6;

/// Everything that was found.
#[derive(Debug)]
pub struct Diagnosis {
    /// Of a posterior made of chains.
    pub chains: Option<ChainReport>,
    /// Of a posterior with a density, or with weights of its own.
    pub weights: Option<Weights>,
    /// Outcomes against predictions, where they are known and needed.
    pub check: Option<PredictiveCheck>,
    /// Of a model with a closed form for it.
    pub leave_one_out: Option<LeftOut>,
    /// What it comes to.
    pub verdict: Verdict,
}

/// Rows of a fit predicted from the others, in the user's units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeftOut {
    /// Mean log density.
    pub log_likelihood: f64,
    /// Root mean squared error.
    pub rmse: f64,
    /// Fraction of rows inside their 90 % interval.
    pub coverage: f64,
    /// Rows.
    pub rows: usize,
}

impl LeftOut {
    fn new(out: &LeaveOneOut, unit: f64) -> LeftOut {
        let n = out.residual.len() as f64;
        let bound = normal_quantile(0.95);
        let inside = out.residual.iter().zip(&out.std).filter(|(r, s)| r.abs() <= bound * **s).count();
        LeftOut {
            log_likelihood: out.log_density().iter().sum::<f64>() / n - unit.ln(),
            rmse: unit * (out.residual.iter().map(|r| r * r).sum::<f64>() / n).sqrt(),
            coverage: inside as f64 / n,
            rows: out.residual.len(),
        }
    }
}

impl Diagnosis {
    /// Of a model. Chains are judged at the rows of their fit, which the model remembers, or at others that are given; everything else
    /// needs the rows it was fitted to.
    pub fn new(model: &Model, rows: Option<&Encoded>, draws: usize, key: Key) -> Result<Diagnosis> {
        let Some(fit) = model.fitted.as_network() else { return Diagnosis::of_predictions(model, rows) };
        let posterior = &*fit.posterior;
        if let Some(chains) = posterior.chains() {
            let here = rows.map(|rows| Mixing::new(fit, chains, &rows.data));
            let mixing = here.as_ref().or(model.mixing.as_ref()).ok_or_else(|| {
                let what = "the model does not say how well its predictions have mixed at the rows it was fitted to";
                Error::setting(what, "give their file: posterior diagnose MODEL DATA")
            })?;
            let report = ChainReport::new(fit, chains, mixing);
            let verdict = Verdict::of(&report.findings(), report.praise());
            return Ok(Diagnosis { chains: Some(report), weights: None, check: None, leave_one_out: None, verdict });
        }
        if let Some(weights) = posterior.log_weights() {
            let weights = Weights::new(weights);
            let verdict =
                Verdict::of(&weighted(&weights), format!("{} ({} draws)", praise(&weights), weights.raw().len()));
            return Ok(Diagnosis { chains: None, weights: Some(weights), check: None, leave_one_out: None, verdict });
        }
        if posterior.is_point() {
            let reason = "a single set of weights says nothing of what else they could be".to_owned();
            let advice = "a method with a posterior, such as mean-field".to_owned();
            let verdict = Verdict::of(&[Finding { leaves: Trust::Nothing, reason, advice }], String::new());
            return Ok(Diagnosis { chains: None, weights: None, check: None, leave_one_out: None, verdict });
        }
        let rows = fitted_rows(model, rows, posterior.kind())?;
        Diagnosis::of_approximation(model, fit, rows, draws, key)
    }

    /// Of a model without weights: its predictions are all there is to judge.
    fn of_predictions(model: &Model, rows: Option<&Encoded>) -> Result<Diagnosis> {
        if let Some(out) = model.fitted.leave_one_out() {
            let left_out = LeftOut::new(out, model.encoder.target_scale().1);
            let check = PredictiveCheck::of_coverage(left_out.coverage, left_out.rows);
            let findings: Vec<Finding> = too_sure(&check).into_iter().collect();
            let verdict = Verdict::of(&findings, format!("each predicted from the others, {}", check.clause()));
            return Ok(Diagnosis {
                chains: None,
                weights: None,
                check: Some(check),
                leave_one_out: Some(left_out),
                verdict,
            });
        }
        let check = predictive_check(model, fitted_rows(model, rows, model.fitted.kind())?)?;
        let findings: Vec<Finding> = too_sure(&check).into_iter().collect();
        let verdict = Verdict::of(&findings, check.clause());
        Ok(Diagnosis { chains: None, weights: None, check: Some(check), leave_one_out: None, verdict })
    }

    fn of_approximation(model: &Model, fit: &NetworkFit, rows: &Encoded, draws: usize, key: Key) -> Result<Diagnosis> {
        let problem = model.recipe.resolve(&model.encoder)?.problem(rows.data.clone())?;
        let weights = importance_weights(&problem, &*fit.posterior, draws, key.purpose(Purpose::Estimate));
        let weights = weights.map(|w| Weights::new(&w));
        let check = predictive_check(model, rows)?;
        let mut findings: Vec<Finding> = too_sure(&check).into_iter().collect();
        let held = format!("but {}", check.clause());
        match &weights {
            None => findings.push(Finding {
                leaves: Trust::Predictions,
                reason: format!(
                    "a posterior of kind '{}' has no density to be judged by, {held}",
                    fit.posterior.kind()
                ),
                advice: "an evaluation on rows that were not fitted to".to_owned(),
            }),
            Some(weights) if !weights.is_reliable() => findings.push(Finding {
                leaves: Trust::Predictions,
                reason: format!(
                    "the approximation is far from the posterior of the weights ({}), {held}",
                    measure(weights)
                ),
                advice: "an evaluation on rows that were not fitted to, a richer approximation, or a sampler"
                    .to_owned(),
            }),
            Some(_) => {}
        }
        let near = weights.as_ref().map_or(String::new(), |w| {
            format!("the approximation is near the posterior of the weights ({}) and {}", measure(w), check.clause())
        });
        let verdict = Verdict::of(&findings, near);
        Ok(Diagnosis { chains: None, weights, check: Some(check), leave_one_out: None, verdict })
    }
}

/// The rows that are needed to judge this kind of model.
fn fitted_rows<'r>(model: &Model, rows: Option<&'r Encoded>, kind: &str) -> Result<&'r Encoded> {
    let rows = rows.ok_or_else(|| {
        let what = format!("a posterior of kind '{kind}' is judged on the rows it was fitted to");
        Error::setting(what, "give their file: posterior diagnose MODEL DATA")
    })?;
    check_rows(model, rows)?;
    Ok(rows)
}

/// Outcomes against predictions.
fn predictive_check(model: &Model, rows: &Encoded) -> Result<PredictiveCheck> {
    let predictive = model.predict(&rows.data.x, &model.how(PREDICTIVE_DRAWS))?;
    let y = model.encoder.decode_target(&rows.data.y);
    Ok(PredictiveCheck::new(&predictive, &y, model.likelihood().outcome()))
}

fn too_sure(check: &PredictiveCheck) -> Option<Finding> {
    (!check.holds()).then(|| Finding {
        leaves: Trust::Nothing,
        reason: format!("predictions are too sure of themselves: {}", check.clause()),
        advice: "another likelihood or network, learned noise, or fewer extreme rows".to_owned(),
    })
}

/// k, as said in the middle of a sentence.
fn measure(weights: &Weights) -> String {
    match weights.k() {
        k if k.is_finite() => format!("Pareto-k {k:.2}"),
        _ => weights.verdict(),
    }
}

fn praise(weights: &Weights) -> String {
    format!("{}, worth {:.0} draws from the posterior", weights.verdict(), weights.ess())
}

/// What the weights of an importance sample cost: there is nothing else to rely on.
fn weighted(weights: &Weights) -> Vec<Finding> {
    if weights.is_reliable() {
        return Vec::new();
    }
    vec![Finding {
        leaves: Trust::Nothing,
        reason: weights.verdict(),
        advice: "a proposal nearer to the posterior (proposal=full-covariance), more draws, or a sampler".to_owned(),
    }]
}

/// The log joint is about the rows a model was fitted to: others have another posterior.
fn check_rows(model: &Model, rows: &Encoded) -> Result<()> {
    const FIX: &str = "give the rows it was fitted to";
    if rows.data.rows != model.rows {
        let what = format!("there are {} rows, but the model was fitted to {}", rows.data.rows, model.rows);
        return Err(Error::data(what, FIX));
    }
    if let TargetKind::Real(_) = model.encoder.target_kind() {
        let (n, targets) = (rows.data.rows as f64, rows.data.targets.max(1));
        for t in 0..targets {
            let y = || rows.data.y.iter().skip(t).step_by(targets);
            let mean = y().sum::<f64>() / n;
            let square = y().map(|v| v * v).sum::<f64>() / n;
            if mean.abs() > STANDARDISED || (square - 1.0).abs() > STANDARDISED {
                return Err(Error::data("these are not the rows the model was fitted to: their targets differ", FIX));
            }
        }
    }
    Ok(())
}
