//! One fit of a comparison: a method on a split, what it scores, what it costs, or why it failed.

use super::Plan;
use crate::memory::Gauge;
use posterior::ErrorKind;
use posterior::artifact;
use posterior::diagnose::{Diagnosis, Trust};
use posterior::inference::{Flow, Observer, Progress};
use posterior::model::Model;
use posterior::predict::Predictive;
use posterior::rng::Key;
use posterior::score::{METRICS, Scored};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;

/// Draws by which a reference with a density is held against the posterior.
const JUDGED_DRAWS: usize = 1000;

/// What came of a fit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was fitted and scored.
    Done(Done),
    /// It could not be, for this reason.
    Failed(String),
    /// Memory was not enough, which more of it changes: not kept.
    #[serde(skip)]
    TooLarge(String),
    /// Time was up.
    #[serde(skip)]
    OutOfTime,
}

/// Scores and costs of a fit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Done {
    /// By the names of METRICS.
    pub scores: BTreeMap<String, f64>,
    /// Distances to the reference, by name; empty without one.
    pub fidelity: BTreeMap<String, f64>,
    /// Of the fit.
    pub seconds: f64,
    /// Of the predictions.
    pub predict_seconds: f64,
    /// The most that fit and predictions held.
    pub memory_bytes: u64,
    /// Size of the model file.
    pub model_bytes: u64,
    /// Of a reference: whether its own predictions can be believed.
    #[serde(default)]
    pub judged: Option<Judged>,
}

/// A diagnosis in short.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Judged {
    /// Whether the others may be measured by it.
    pub trusted: bool,
    /// The verdict, as `posterior diagnose` says it.
    pub sentence: String,
}

/// Chains are judged at the test rows, where the others are measured by them; their predictions are what counts. Anything else is judged at the rows
/// it was fitted to, and is a reference only where it is near the posterior itself.
fn judge(plan: &Plan, model: &Model, split: usize) -> posterior::Result<Judged> {
    let (chains, split) = (model.chains().is_some(), &plan.splits[split]);
    let rows = model.encoder.encode(&plan.table.select(if chains { &split.validation } else { &split.train }), true)?;
    let verdict = Diagnosis::new(model, Some(&rows), JUDGED_DRAWS, Key::new(plan.seed))?.verdict;
    Ok(match verdict.trust {
        Trust::Predictions if !chains => Judged {
            trusted: false,
            sentence: "It is not near the posterior of the weights itself. Try a sampler, such as hmc or nuts.".into(),
        },
        _ => Judged { trusted: verdict.is_yes(), sentence: verdict.sentence() },
    })
}

/// Stops a fit at its deadline.
struct Deadline(Option<Instant>);

impl Observer for Deadline {
    fn progress(&mut self, _: &Progress) -> Flow {
        if self.0.is_some_and(|t| Instant::now() >= t) { Flow::Stop } else { Flow::Continue }
    }
    fn warn(&mut self, _: &str) {}
}

/// A method's model of a split, and how long it took.
fn fit(plan: &Plan, method: usize, split: usize, deadline: Option<Instant>) -> posterior::Result<(Model, f64)> {
    let train = plan.table.select(&plan.splits[split].train);
    let start = Instant::now();
    let mut model =
        Model::fit(&plan.methods[method].recipe, &train, &plan.options, plan.seed, &mut Deadline(deadline))?;
    // As in every model file, so that its size does not depend on how many digits the clock had.
    model.summary.seconds = 0.0;
    Ok((model, start.elapsed().as_secs_f64()))
}

/// The predictions of a model for a split's test rows, and the observed outcome.
pub fn predict(plan: &Plan, model: &Model, split: usize) -> posterior::Result<(Predictive, Vec<f64>)> {
    let rows = model.encoder.encode(&plan.table.select(&plan.splits[split].validation), true)?;
    let y = model.encoder.decode_target(&rows.data.y);
    Ok((model.predict(&rows.data.x, &model.how(plan.draws))?, y))
}

/// Fits, predicts and scores. Nothing that goes wrong in it stops the comparison.
pub fn run(
    plan: &Plan,
    method: usize,
    split: usize,
    deadline: Option<Instant>,
    reference: Option<&Predictive>,
    gauge: &Gauge,
    fitted: &mut dyn FnMut(&Model, &Predictive),
) -> Outcome {
    let before = gauge.restart();
    let work = || -> posterior::Result<Done> {
        let (model, seconds) = fit(plan, method, split, deadline)?;
        let start = Instant::now();
        let (predictive, y) = predict(plan, &model, split)?;
        let predict_seconds = start.elapsed().as_secs_f64();
        let memory_bytes = (gauge.most() - before).max(0) as u64;
        let scored = Scored::new(&predictive, &y, model.likelihood().outcome());
        let scores = METRICS.iter().filter_map(|m| Some((m.name.to_owned(), m.score(&scored)?)));
        let fidelity = reference.map(|r| predictive.distance(r)).map_or_else(BTreeMap::new, |d| {
            let all = [
                ("agreement", d.agreement),
                ("total_variation", Some(d.total_variation)),
                ("wasserstein", d.wasserstein),
            ];
            all.into_iter().filter_map(|(name, v)| Some((name.to_owned(), v?))).collect()
        });
        fitted(&model, &predictive);
        let model_bytes = artifact::to_bytes(&model)?.len() as u64;
        let judged = (plan.reference == Some(method)).then(|| judge(plan, &model, split)).transpose()?;
        Ok(Done { scores: scores.collect(), fidelity, seconds, predict_seconds, memory_bytes, model_bytes, judged })
    };
    // A method that breaks down loses its place in the table, not the table.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(Ok(done)) if done.scores.values().all(|v| v.is_finite()) => Outcome::Done(done),
        Ok(Ok(done)) => {
            let bad: Vec<&str> = done.scores.iter().filter(|(_, v)| !v.is_finite()).map(|(k, _)| k.as_str()).collect();
            Outcome::Failed(format!("its predictions are not finite numbers ({})", bad.join(", ")))
        }
        Ok(Err(e)) if matches!(e.kind(), ErrorKind::Interrupted) => Outcome::OutOfTime,
        Ok(Err(e)) if matches!(e.kind(), ErrorKind::Memory { .. }) => Outcome::TooLarge(e.to_string()),
        Ok(Err(e)) => Outcome::Failed(e.to_string()),
        Err(_) => Outcome::Failed("it stopped with an internal error; report this as a bug".to_owned()),
    }
}
