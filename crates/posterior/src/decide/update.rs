//! Learns on: the posterior under old rows is the prior of new ones, p(w | D₁, D₂) ∝ p(D₂ | w) p(w | D₁).
//!
//! Exact for `linear`, at the noise and prior scale of its first fit: one file after the other, in any order, is all at once, and
//! log p(D₁, D₂) = log p(D₁) + log p(D₂ | D₁). Posteriors of independent Gaussians (mean-field, ivon) become the prior of another fit that begins where they are (Nguyen et al. 2018).
//! Surprise: T = Σ log p(yₙ | xₙ, D₁) against its distribution under outcomes drawn from the model, all rows of a replicate under one function.
//! Reference: Gelman, Meng & Stern (1996). Cost: [`REPLICATES`] evaluations of the predictive density.

use crate::data::{Dataset, Table};
use crate::error::{Error, Result};
use crate::fitted::{NetworkFit, Route};
use crate::inference::{Observer, update_linear};
use crate::likelihood::Outcome;
use crate::model::{Model, Plan};
use crate::predict::Outputs;
use crate::rng::{Key, Purpose, Stream};
use rayon::prelude::*;
use std::sync::Arc;

/// Replicates that T is compared with.
const REPLICATES: usize = 199;
/// Rows that it is judged by, at most.
const ROWS: usize = 2000;
/// Below this p-value, rows do not look like those before.
const UNLIKELY: f64 = 0.01;

/// Whether rows look like those a model was fitted to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Surprise {
    /// Mean of log p(yₙ | xₙ, D₁), in the user's units.
    pub log_likelihood: f64,
    /// The same of outcomes drawn from the model, on average.
    pub expected: f64,
    /// Probability that outcomes drawn from the model are as improbable under it or more.
    pub p_value: f64,
    /// Rows it was judged by.
    pub rows: usize,
}

impl Surprise {
    /// Whether the model would hardly ever produce such rows.
    pub fn is_surprising(&self) -> bool {
        self.p_value < UNLIKELY
    }
}

/// A model after new rows.
#[derive(Debug, Clone)]
pub struct Updated {
    /// It.
    pub model: Model,
    /// Rows that were new.
    pub rows: usize,
    /// log p(D₂ | D₁) of encoded targets, where it is known.
    pub log_predictive: Option<f64>,
    /// Whether the new rows look like the old ones; none without rows.
    pub surprise: Option<Surprise>,
}

/// How surprising rows with known outcomes are.
pub fn surprise(model: &Model, data: &Dataset, draws: usize, key: Key) -> Result<Surprise> {
    let rows: Vec<usize> = (0..data.rows.min(ROWS)).map(|i| i * data.rows / data.rows.min(ROWS)).collect();
    let data = data.select(&rows);
    let likelihood = model.likelihood();
    let mut how = model.how(draws).by(Route::Draws);
    how.key = key;
    let predictive = model.fitted.predict(&data.x, &how)?;
    let Outputs::Draws(drawn) = predictive.outputs() else {
        return Err(Error::setting("a model without draws cannot be surprised", "fit one with draws"));
    };
    let (outputs, targets, sites) = (likelihood.outputs(), likelihood.targets().max(1), predictive.rows());
    let scaled = likelihood.outcome() == Outcome::Real;
    let total = |y: &[f64]| predictive.log_likelihood(y).iter().sum::<f64>();
    let replicate = |r: usize| {
        let mut stream = Stream::new(key.purpose(Purpose::Outcome).step(r as u64));
        let s = stream.below(drawn.draws as u64) as usize;
        let own = drawn.noise.len() / drawn.draws;
        let noise = &drawn.noise[s * own..(s + 1) * own];
        let f: Vec<f64> =
            drawn.f[s * sites * outputs..(s + 1) * sites * outputs].iter().map(|v| f64::from(*v)).collect();
        let mut y = vec![0.0; sites * targets];
        for (f, y) in f.chunks_exact(outputs).zip(y.chunks_exact_mut(targets)) {
            likelihood.sample(f, noise, &mut stream, y);
        }
        if scaled {
            for (i, y) in y.iter_mut().enumerate() {
                let (mean, std) = predictive.target_scale(i % targets);
                *y = mean + std * *y;
            }
        }
        total(&y)
    };
    let observed = total(&model.encoder.decode_target(&data.y));
    let all: Vec<f64> = (0..REPLICATES).into_par_iter().map(replicate).collect();
    let lower = all.iter().filter(|t| **t <= observed).count();
    let n = data.rows as f64;
    Ok(Surprise {
        log_likelihood: observed / n,
        expected: all.iter().sum::<f64>() / (n * REPLICATES as f64),
        p_value: (lower + 1) as f64 / (REPLICATES + 1) as f64,
        rows: data.rows,
    })
}

/// The model after the rows of a table, encoded as those of its first fit were.
pub fn update(model: &Model, table: &Table, seed: u64, observer: &mut dyn Observer) -> Result<Updated> {
    let encoded = model.encoder.encode(table, true)?;
    encoded.warnings.iter().for_each(|w| observer.warn(w));
    let data = encoded.data;
    if data.rows == 0 {
        return Ok(Updated { model: model.clone(), rows: 0, log_predictive: None, surprise: None });
    }
    let network = model.network("the posterior over them is to be the next prior")?;
    let key = Key::new(seed);
    let surprise = surprise(model, &data, 200, key)?;
    let rows = data.rows;
    let Plan::Network(resolved) = model.recipe.plan(&model.encoder)? else {
        return Err(cannot(model));
    };
    let problem = resolved.clone().problem(data)?;
    let exact = match network.posterior.as_blocks() {
        Some(before) => update_linear(&problem, before)?,
        None => None,
    };
    let (fitted, summary, log_predictive) = match exact {
        Some((posterior, predictive)) => {
            let fit =
                NetworkFit::new(network.network.clone(), network.likelihood.clone(), Arc::new(posterior), network.link);
            (Arc::new(fit) as Arc<_>, model.summary.clone(), Some(predictive))
        }
        None => {
            let prior = model.fitted.to_prior().ok_or_else(|| cannot(model))?;
            let problem = problem.with_prior(prior)?.with_start(network.posterior.clone())?;
            let fit = resolved.fit_problem(&problem, key, observer)?;
            (fit.fitted, fit.summary, None)
        }
    };
    let model = Model { fitted, summary, rows: model.rows + rows, calibration: None, mixing: None, ..model.clone() };
    Ok(Updated { model, rows, log_predictive, surprise: Some(surprise) })
}

fn cannot(model: &Model) -> Error {
    let method = model.recipe.method.name.as_deref().unwrap_or("this method");
    let what = format!("the posterior of '{method}' cannot be the next prior");
    Error::setting(what, "fit with linear, mean-field or ivon, or fit again to all rows")
}
