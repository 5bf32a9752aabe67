//! Arrays in, predictions out: numbers that are in memory already, without a table. `cargo run --release -p posterior --example arrays`
//!
//! Arrays are taken as they are, so that inputs and outcomes are standardised by whoever has them; an `Arc` is shared with the data set and not copied.

use posterior::inference::Silent;
use posterior::likelihood::Outcome;
use posterior::predict::TargetScale;
use posterior::prelude::*;
use std::sync::Arc;

/// Fits to arrays and predicts at others.
pub fn main() -> posterior::Result<()> {
    // y = sin(2x) + noise; nothing is known right of x = 1.
    let x: Arc<[f32]> = (0..200).map(|i| i as f32 / 100.0 - 1.0).collect();
    let y: Vec<f64> =
        x.iter().enumerate().map(|(i, x)| f64::from(2.0 * x).sin() + 0.05 * (i as f64 * 7.0).sin()).collect();
    let data = Dataset::from_arrays(x.clone(), Shape::Flat(1), y)?;

    let recipe = Recipe {
        network: NetworkSpec::parse("20", Activation::Tanh)?,
        method: Choice::named("ensemble").with("epochs", Value::Int(300)),
        ..Recipe::default()
    };
    let resolved = recipe.resolve_for(data.shape, Outcome::Real, 1)?;
    let (network, likelihood, method) = (resolved.network.clone(), resolved.likelihood.clone(), resolved.method()?);
    let problem = resolved.problem(data)?;
    let key = Key::new(1);
    let posterior = method.fit(&problem, key, &mut Silent)?.posterior.into();

    let (draws, scale) = (20, TargetScale::default());
    let predictor = NetworkPredictor { network, likelihood, posterior, draws, key, scale };
    let asked = [-0.5f32, 0.5, 3.0];
    let predictive = predictor.predict(&asked[..].into());
    let (real, interval) = (predictive.real(), predictive.quantiles(&[0.05, 0.95]));
    for (i, x) in asked.iter().enumerate() {
        let (_, epistemic, aleatoric) = real.std(i);
        let (low, high) = (interval[2 * i], interval[2 * i + 1]);
        println!(
            "x {x:>4}: {:.2}, 90 % in [{low:.2}, {high:.2}]; epistemic {epistemic:.2}, aleatoric {aleatoric:.2}",
            real.mean[i]
        );
    }
    assert!(real.std(2).1 > real.std(1).1, "less is known where there are no data");
    Ok(())
}
