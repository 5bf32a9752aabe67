//! Networks that give the noise learn the mean first: skewed targets are fitted, not explained as noise.

use posterior::data::{Dataset, Values};
use posterior::inference::{Silent, find};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::Posterior;
use posterior::predict::{NetworkPredictor, Predictor, TargetScale};
use posterior::problem::Problem;
use posterior::rng::{Key, Stream};
use posterior::settings::Value;
use std::sync::Arc;

/// y = e^{7x} (0.3 + z) and a little noise, standardised: most of the variance is in a few rows.
fn skewed() -> Problem {
    let mut stream = Stream::new(Key::new(1));
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for _ in 0..120 {
        let (a, b) = (stream.uniform(), stream.uniform());
        x.extend([(a - 0.5) * 12f64.sqrt(), (b - 0.5) * 12f64.sqrt()]);
        y.push((7.0 * a).exp() * (0.3 + b) + 2.0 * stream.normal());
    }
    let mean = y.iter().sum::<f64>() / 120.0;
    let std = (y.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 120.0).sqrt();
    let y = y.iter().map(|v| (v - mean) / std).collect();
    let recipe = Recipe {
        network: NetworkSpec::parse("20", Activation::Tanh).unwrap(),
        likelihood: Choice::named("heteroscedastic"),
        ..Recipe::default()
    };
    let resolved = recipe.resolve_for(Shape::Flat(2), Outcome::Real, 1).unwrap();
    resolved.problem(Dataset::new(Values::F64(x.into()), Shape::Flat(2), y, 1)).unwrap()
}

/// Root mean squared error and mean log-likelihood of a fit on its own rows.
fn fitted(method: &str) -> (f64, f64) {
    let problem = skewed();
    let method = find(method).unwrap().configure(&[("epochs".to_owned(), Value::Int(3000))]).unwrap();
    let posterior: Arc<dyn Posterior> = method.fit(&problem, Key::new(2), &mut Silent).unwrap().posterior.into();
    let predictor = NetworkPredictor {
        network: problem.network().clone(),
        likelihood: problem.likelihood().clone(),
        posterior,
        draws: 10,
        key: Key::new(3),
        scale: TargetScale::default(),
    };
    let (predictive, y) = (predictor.predict(&problem.data().x), &problem.data().y);
    let squares = predictive.real().mean.iter().zip(y.iter()).map(|(m, y)| (m - y).powi(2)).sum::<f64>();
    let likelihoods = predictive.log_likelihood(y).iter().sum::<f64>();
    ((squares / y.len() as f64).sqrt(), likelihoods / y.len() as f64)
}

#[test]
fn skewed_targets_are_fitted() {
    for method in ["map", "ensemble"] {
        let (error, likelihood) = fitted(method);
        // The noise is 0.011; learned together with the mean it took over and left 0.58.
        assert!(error < 0.05, "{method}: {error}");
        assert!(likelihood > 2.5, "{method}: {likelihood}");
    }
}
