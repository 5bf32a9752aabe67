//! A likelihood of your own, by name. `cargo run --release -p posterior --example own_likelihood`
//!
//! Double-exponential noise of a fixed scale s: log p(y|f) = −|y − f|/s − ln 2s, so that outliers pull no harder than any other row. `examples/extension` has one
//! with a scale that is learnt, and the conformance suite as its test.

use posterior::Real;
use posterior::data::Column;
use posterior::likelihood::{LikelihoodEntry, LikelihoodGradient, LikelihoodOps, register_likelihood};
use posterior::prelude::*;
use posterior::rng::Stream;
use posterior::settings::Settings;
use std::sync::Arc;

const S: f64 = 0.2;

#[derive(Debug)]
struct DoubleExponential(Settings);

impl<R: Real> LikelihoodOps<R> for DoubleExponential {
    #[rustfmt::skip]
    fn log_prob(&self, f: &[R], y: &[R], _: &[R], weights: Option<&[R]>, scale: f64, gradient: Option<LikelihoodGradient<'_, R>>) -> f64 {
        let weight = |n: usize| scale * weights.map_or(1.0, |w| w[n].f64());
        if let Some(gradient) = gradient {
            (0..f.len()).for_each(|n| gradient.d_f[n] = R::of(weight(n) * (y[n] - f[n]).f64().signum() / S));
        }
        (0..f.len()).map(|n| weight(n) * self.log_prob_row(&[f[n].f64()], &[y[n].f64()], &[])).sum()
    }
}

#[rustfmt::skip]
impl Likelihood for DoubleExponential {
    fn name(&self) -> &'static str { "double-exponential" }
    fn settings(&self) -> &Settings { &self.0 }
    fn outcome(&self) -> Outcome { Outcome::Real }
    fn targets(&self) -> usize { 1 }
    fn outputs(&self) -> usize { 1 }
    fn log_prob_row(&self, f: &[f64], y: &[f64], _: &[f64]) -> f64 { -(y[0] - f[0]).abs() / S - (2.0 * S).ln() }
    fn hessian_row(&self, _: &[f64], _: &[f64], _: &[f64], out: &mut [f64]) { out[0] = 1.0 / (S * S) }
    fn moments(&self, f: &[f64], _: &[f64], mean: &mut [f64], variance: &mut [f64]) { (mean[0], variance[0]) = (f[0], 2.0 * S * S) }
    fn cdf(&self, _: usize, y: f64, f: &[f64], _: &[f64]) -> f64 { let z = (y - f[0]) / S; if z < 0.0 { 0.5 * z.exp() } else { 1.0 - 0.5 * (-z).exp() } }
    fn probabilities(&self, _: &[f64], _: &mut [f64]) {}
    fn sample(&self, f: &[f64], _: &[f64], stream: &mut Stream, y: &mut [f64]) { y[0] = f[0] - S * stream.uniform().ln() * (stream.uniform() - 0.5).signum() }
}

/// Registers the likelihood and fits a line with outliers.
pub fn main() -> posterior::Result<()> {
    let build = |settings: &Settings, _| Ok(Arc::new(DoubleExponential(settings.clone())) as Arc<dyn Likelihood>);
    let (name, summary) = ("double-exponential", "real outcomes with outliers");
    register_likelihood(LikelihoodEntry { name, summary, settings: &[], outcome: Outcome::Real, build })?;
    let config = "[network]\nlayers = []\n[method]\nname = \"hmc\"\ndraws = 100\nwarmup = 100\n[likelihood]\nname = \"double-exponential\"\n";
    let x: Vec<f64> = (0..60).map(|i| f64::from(i) / 10.0 - 3.0).collect();
    let y = x.iter().enumerate().map(|(i, x)| if i % 10 == 7 { x + 40.0 } else { *x }).collect();
    let table = Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), Column::Number(y))])?;
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let model = Model::fit(&Recipe::from_toml(config)?, &table, &options, 1, &mut Silent)?;
    let predictive = model.predict(&model.encoder.encode(&table, false)?.data.x, &model.how(100))?;
    println!("at x = 0, 40 is added to every tenth outcome: {:.1}", predictive.real().mean[30]);
    assert!(predictive.real().mean[30] < 2.0, "the mean of the outcomes is 4");
    Ok(())
}
