//! Closed forms stay closed: what `linear` predicts equals the formulas, from a fit and from its file, however small the noise.

use posterior::artifact;
use posterior::data::{Column, EncodeOptions, Table};
use posterior::exact::LinearRegression;
use posterior::inference::Silent;
use posterior::math::MatRef;
use posterior::math::special::{normal_cdf, normal_quantile};
use posterior::model::{Choice, Model, Recipe};
use posterior::rng::{Key, Stream};
use posterior::settings::Value;
use std::f64::consts::PI;
use std::path::Path;

const ROWS: usize = 30;

fn table(noise: f64) -> Table {
    let mut stream = Stream::new(Key::new(9));
    let a: Vec<f64> = (0..ROWS).map(|_| 3.0 + 2.0 * stream.normal()).collect();
    let b: Vec<f64> = (0..ROWS).map(|_| stream.normal()).collect();
    let y = a.iter().zip(&b).map(|(a, b)| 100.0 + 4.0 * a - 7.0 * b + noise * stream.normal()).collect();
    let columns = [("a", a), ("b", b), ("y", y)].map(|(name, v)| (name.to_owned(), Column::Number(v)));
    Table::from_columns(columns.into()).unwrap()
}

/// Mean, variance, quantiles, log-likelihood and CRPS of a normal predictive, at noise from much larger to much smaller than what is not known of the
/// weights: to 1e-10 of the predictive standard deviation, which rounding of a posterior in double precision keeps to at these conditions (up to 1e5 from
/// 1/σ, times 1e-16).
#[test]
fn linear_equals_the_formulas_at_every_noise_level() {
    for noise in [3.0, 0.3, 0.02, 1e-3, 1e-5] {
        let given = Choice::named("gaussian").with("noise", Value::Text("fixed".into()));
        let recipe = Recipe {
            likelihood: given.with("noise_std", Value::Float(noise)),
            method: Choice::named("linear").with("learn_prior", Value::Bool(false)),
            ..Recipe::default()
        };
        let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
        let fitted = Model::fit(&recipe, &table(noise), &options, 0, &mut Silent).unwrap();
        let file = artifact::from_bytes(&artifact::to_bytes(&fitted).unwrap(), Path::new("m")).unwrap();
        let rows = fitted.encoder.encode(&table(noise), true).unwrap().data;
        // weight_std²/fan-in and bias_std², as the prior's defaults are.
        let features: Vec<f64> = rows.x.to::<f64>().chunks(2).flat_map(|x| [x[0], x[1], 1.0]).collect();
        let exact = LinearRegression::fit(
            MatRef::new(&features, ROWS, 3),
            &rows.y,
            None,
            noise * noise,
            &[0.0; 3],
            &[2.0, 2.0, 1.0],
        )
        .unwrap();
        // Far outside too, where what is not known is large beside the noise.
        let asked: Vec<f64> = rows.x.to::<f64>().iter().copied().chain([40.0, -3.0, 0.0, 500.0]).collect();
        let x = posterior::data::Values::F64(asked.clone().into());
        let (centre, unit) = fitted.encoder.target_scale();
        let levels = [0.001, 0.05, 0.5, 0.9, 0.9999];
        for model in [&fitted, &file] {
            let p = model.predict(&x, &model.how(100)).unwrap();
            let (real, quantiles) = (p.real(), p.quantiles(&levels));
            let y: Vec<f64> = (0..p.rows()).map(|n| real.mean[n] + (n as f64 - 12.0) * 0.2 * real.std(n).0).collect();
            let (logs, crps) = (p.log_likelihood(&y), p.crps(&y));
            for (n, x) in asked.chunks(2).enumerate() {
                let (m, v) = exact.predict(&[x[0], x[1], 1.0]);
                let (mean, std) = (centre + unit * m, unit * v.sqrt());
                let near = |a: f64, b: f64, what: &str| {
                    assert!(
                        (a - b).abs() <= 1e-10 * (std + 1e-4 * mean.abs()),
                        "{what}, noise {noise}, row {n}: {a} {b}"
                    );
                };
                near(real.mean[n], mean, "mean");
                near(real.std(n).0, std, "std");
                near(real.std(n).2, unit * noise, "aleatoric");
                for (q, level) in quantiles[n * levels.len()..].iter().zip(levels) {
                    near(*q, mean + normal_quantile(level) * std, "quantile");
                }
                let z = (y[n] - mean) / std;
                let log = -0.5 * z * z - std.ln() - 0.5 * (2.0 * PI).ln();
                assert!((logs[n] - log).abs() < 1e-9, "log-likelihood, noise {noise}, row {n}: {} {log}", logs[n]);
                let phi = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
                let score = std * (z * (2.0 * normal_cdf(z) - 1.0) + 2.0 * phi - 1.0 / PI.sqrt());
                near(crps[n], score, "CRPS");
            }
        }
    }
}
