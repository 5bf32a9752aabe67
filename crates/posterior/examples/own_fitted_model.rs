//! A fitted model that is no network, by name and through the model file. `cargo run --release -p posterior --example own_fitted_model`
//!
//! One number for all rows: f ~ N(mean of the outcomes, their variance/n), with the noise that they have. `examples/extension` has nearest neighbours.

use posterior::data::Column;
use posterior::inference::FitSummary;
use posterior::predict::NoiseNode;
use posterior::prelude::*;
use posterior::{fitted::*, model::register_model};
use std::{path::Path, sync::Arc};

#[derive(Debug)]
struct Average(f64, f64, f64, Shape, Arc<dyn Likelihood>);

#[rustfmt::skip]
impl Fitted for Average {
    fn kind(&self) -> &str { "average" }
    fn input(&self) -> Shape { self.3 }
    fn likelihood(&self) -> &Arc<dyn Likelihood> { &self.4 }
    fn predict(&self, x: &Values, how: &How) -> Result<Predictive> {
        let (n, noise) = (x.len() / self.3.len(), vec![NoiseNode { weight: 1.0, values: vec![self.2] }]);
        Ok(Predictive::gaussian(self.4.clone(), vec![self.0; n], vec![self.1; n], noise, how.draws, how.scale.clone()))
    }
    fn functions(&self, _: usize, _: Key, _: bool) -> Option<Box<dyn Function + '_>> { None }
    fn log_evidence(&self) -> Option<f64> { None }
    fn to_prior(&self) -> Option<Prior> { None }
    fn describe(&self) -> String { "one number for all rows".into() }
    fn parameters(&self) -> usize { 3 }
    fn save(&self) -> Result<Saved> { let data = vec![self.0, self.1, self.2]; Ok(Saved { wide: vec![WideTensor { name: "all".into(), shape: vec![3], data }], ..Saved::default() }) }
    fn as_network(&self) -> Option<&NetworkFit> { None }
}

#[derive(Debug)]
struct Averaging;

#[rustfmt::skip]
impl Estimator for Averaging {
    fn fit(&self, data: Dataset, likelihood: Arc<dyn Likelihood>, _: Key, _: &mut dyn Observer) -> Result<ModelFit> {
        let (n, mean) = (data.rows as f64, data.y.iter().sum::<f64>() / data.rows as f64);
        let variance = data.y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n;
        Ok(ModelFit { fitted: Arc::new(Average(mean, variance / n, 0.5 * variance.ln(), data.shape, likelihood)), summary: FitSummary::default() })
    }
}

/// Registers the model, fits it by name, and loads it again.
#[rustfmt::skip]
pub fn main() -> Result<()> {
    let restore = |r: &Restoring<'_>| {
        let all = r.tensor("all", 3)?;
        Ok(Arc::new(Average(all[0], all[1], all[2], r.input, r.likelihood.clone())) as Arc<dyn Fitted>)
    };
    register_model(ModelEntry { name: "average", summary: "one number for all rows", gives: "a normal", settings: &[], real_likelihood: "gaussian", build: |_, _| Ok(Box::new(Averaging)), restore })?;
    let table = Table::from_columns(["x", "y"].map(|c| (c.into(), Column::Number(vec![1.0, 2.0, 3.0, 3.0, 6.0]))).into())?;
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let model = Model::fit(&Recipe::from_toml("[method]\nname = \"average\"\n")?, &table, &options, 1, &mut Silent)?;
    let back = artifact::from_bytes(&artifact::to_bytes(&model)?, Path::new("model"))?;
    let real = back.predict(&back.encoder.encode(&table, false)?.data.x, &back.how(1))?.real();
    assert!((real.mean[0] - 3.0).abs() < 1e-6, "{} ± {}", real.mean[0], real.std(0).0);
    Ok(())
}
