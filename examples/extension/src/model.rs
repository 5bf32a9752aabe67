//! Nearest neighbours: a fitted model that is no network.
//!
//! f(x) ~ N(mean of the k nearest outcomes, their variance/k), with normal noise whose variance is that of leave-one-out residuals. Cover & Hart (1967). Cost:
//! rows of the fit × inputs for each prediction. It draws no functions, so commands that need these (attacks) say that they do not apply.

use posterior::data::{Dataset, Values};
use posterior::fitted::{Estimator, Fitted, Function, How, ModelEntry, ModelFit, NetworkFit, Route, Saved, WideTensor};
use posterior::inference::{FitSummary, Observer};
use posterior::likelihood::Likelihood;
use posterior::nn::Shape;
use posterior::predict::{NoiseNode, Predictive};
use posterior::prior::Prior;
use posterior::rng::Key;
use posterior::settings::{Allowed, Default as Preset, Setting};
use posterior::{Error, Result};
use std::sync::Arc;

const NEIGHBOURS: Setting =
    Setting { name: "neighbours", help: "how many", default: Preset::Int(5), allowed: Allowed::Int(2, 10_000) };

/// `[method] name = "neighbours"`
pub const ENTRY: ModelEntry = ModelEntry {
    name: "neighbours",
    summary: "the mean of the nearest rows of the fit",
    gives: "a normal for every prediction",
    settings: &[NEIGHBOURS],
    real_likelihood: "gaussian",
    build: |settings, _| Ok(Box::new(NeighboursEstimator { k: settings.count("neighbours")? })),
    restore: |r| {
        let y = (r.tensors)("y").unwrap_or_default();
        let x = r.tensor("x", y.len() * r.input.len())?;
        let log_noise = r.tensor("log_noise", 1)?[0];
        let (k, input, likelihood) = (r.settings.count("neighbours")?, r.input, r.likelihood.clone());
        if y.is_empty() || y.len() <= k {
            return Err(Error::setting("the file has too few rows", "the file is damaged: fit the model again"));
        }
        Ok(Arc::new(Neighbours { x, y, k, log_noise, input, likelihood }))
    },
};

#[derive(Debug)]
struct NeighboursEstimator {
    k: usize,
}

impl Estimator for NeighboursEstimator {
    fn fit(&self, data: Dataset, likelihood: Arc<dyn Likelihood>, _: Key, _: &mut dyn Observer) -> Result<ModelFit> {
        if !likelihood.is_normal() || likelihood.outputs() != 1 || likelihood.blocks().len() != 1 {
            let what = format!("neighbours are for one target with normal noise, and this is '{}'", likelihood.name());
            return Err(Error::setting(what, "use the likelihood 'gaussian'"));
        }
        if data.rows <= self.k {
            return Err(Error::data(format!("{} rows have no {} neighbours", data.rows, self.k), "give more rows"));
        }
        let (x, y, input) = (data.x.to::<f64>().to_vec(), data.y.to_vec(), data.shape);
        let mut fitted = Neighbours { x, y, k: self.k, log_noise: 0.0, input, likelihood };
        let squares = (0..data.rows).map(|i| {
            let row = &fitted.x[i * input.len()..(i + 1) * input.len()];
            (fitted.y[i] - fitted.at(row, Some(i)).0).powi(2)
        });
        fitted.log_noise = 0.5 * (squares.sum::<f64>() / data.rows as f64).max(1e-12).ln();
        Ok(ModelFit { fitted: Arc::new(fitted), summary: FitSummary::default() })
    }
}

#[derive(Debug)]
struct Neighbours {
    x: Vec<f64>,
    y: Vec<f64>,
    k: usize,
    log_noise: f64,
    input: Shape,
    likelihood: Arc<dyn Likelihood>,
}

impl Neighbours {
    /// Mean and variance of f at x, without one of the rows.
    fn at(&self, x: &[f64], without: Option<usize>) -> (f64, f64) {
        let distance = |row: &[f64]| row.iter().zip(x).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let rows = self.x.chunks_exact(self.input.len()).map(distance).enumerate();
        let mut rows: Vec<(usize, f64)> = rows.filter(|(i, _)| Some(*i) != without).collect();
        rows.sort_by(|a, b| a.1.total_cmp(&b.1));
        let k = self.k as f64;
        let near = || rows[..self.k].iter().map(|(i, _)| self.y[*i]);
        let mean = near().sum::<f64>() / k;
        (mean, near().map(|y| (y - mean).powi(2)).sum::<f64>() / (k - 1.0) / k)
    }
}

impl Fitted for Neighbours {
    fn kind(&self) -> &str {
        ENTRY.name
    }
    fn input(&self) -> Shape {
        self.input
    }
    fn likelihood(&self) -> &Arc<dyn Likelihood> {
        &self.likelihood
    }
    fn predict(&self, x: &Values, how: &How) -> Result<Predictive> {
        if how.route != Route::Own {
            return Err(Error::setting("neighbours predict by one route", "leave the route out"));
        }
        let at = x.to::<f64>();
        let (mean, variance) = at.chunks_exact(self.input.len()).map(|x| self.at(x, None)).unzip();
        let noise = vec![NoiseNode { weight: 1.0, values: vec![self.log_noise] }];
        Ok(Predictive::gaussian(self.likelihood.clone(), mean, variance, noise, how.draws, how.scale.clone()))
    }
    fn functions(&self, _draws: usize, _key: Key, _wide: bool) -> Option<Box<dyn Function + '_>> {
        None
    }
    fn log_evidence(&self) -> Option<f64> {
        None
    }
    fn to_prior(&self) -> Option<Prior> {
        None
    }
    fn describe(&self) -> String {
        format!("{} neighbours of {} rows", self.k, self.y.len())
    }
    fn parameters(&self) -> usize {
        self.x.len() + self.y.len() + 1
    }
    fn save(&self) -> Result<Saved> {
        let tensor =
            |name: &str, shape: Vec<usize>, data: &[f64]| WideTensor { name: name.into(), shape, data: data.to_vec() };
        let wide = vec![
            tensor("x", vec![self.y.len(), self.input.len()], &self.x),
            tensor("y", vec![self.y.len()], &self.y),
            tensor("log_noise", vec![1], &[self.log_noise]),
        ];
        Ok(Saved { wide, ..Saved::default() })
    }
    fn as_network(&self) -> Option<&NetworkFit> {
        None
    }
}
