//! Laplace's approximation against laplace-torch 0.3 on the same weights and data. The numbers in `fixtures/laplace_torch.json` were computed once, in
//! double precision, by `bench/peers/laplace_fixtures.py`.

use posterior::data::{Dataset, Values};
use posterior::inference::{LaplaceApproximation, LaplaceOptions};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::predict::{LinearisedPredictor, Link, TargetScale};
use posterior::problem::Problem;
use posterior::problem::curvature::{Structure, Subset};
use posterior::settings::Value;
use serde_json::Value as Json;

/// As in the script.
const PRECISION: f64 = 0.7;
const SIGMA: f64 = 0.3;

fn regression(rows: usize, shift: f64) -> (Vec<f64>, Vec<f64>) {
    let x: Vec<f64> = (0..rows).map(|i| -2.0 + 4.0 * (i as f64 + shift) / rows as f64).collect();
    let y = x.iter().enumerate().map(|(i, x)| (2.0 * x).sin() + 0.3 * (37.0 * i as f64).sin()).collect();
    (x, y)
}

fn classification(rows: usize, shift: f64) -> (Vec<f64>, Vec<f64>) {
    let x: Vec<f64> =
        (0..rows * 4).map(|k| (((k % 4) as f64 + 1.3) * ((k / 4) as f64 + shift) + (k % 4) as f64).sin()).collect();
    let class = |r: &[f64]| {
        if r[0] + r[1] > 0.4 {
            0.0
        } else if r[2] - r[3] > 0.0 {
            1.0
        } else {
            2.0
        }
    };
    let y = x.chunks(4).map(class).collect();
    (x, y)
}

fn numbers(v: &Json) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn problem(kind: &str, x: Vec<f64>, y: Vec<f64>) -> Problem {
    let std = Value::Float(PRECISION.powf(-0.5));
    let prior = Choice::named("normal").with("weight_std", std.clone()).with("bias_std", std);
    let prior = prior.with("scaling", Value::Text("none".into()));
    let (network, likelihood, outcome, width, shape) = match kind {
        "regression" => {
            let noise = Choice::named("gaussian").with("noise", Value::Text("fixed".into()));
            let noise = noise.with("noise_std", Value::Float(SIGMA));
            (NetworkSpec::parse("50", Activation::Tanh), noise, Outcome::Real, 1, Shape::Flat(1))
        }
        _ => {
            let network = NetworkSpec::parse("8", Activation::Relu);
            (network, Choice::named("categorical"), Outcome::Class, 3, Shape::Flat(4))
        }
    };
    let recipe = Recipe { network: network.unwrap(), likelihood, prior, ..Recipe::default() };
    let resolved = recipe.resolve_for(shape, outcome, width).unwrap();
    resolved.problem(Dataset::new(Values::F64(x.into()), shape, y, 1)).unwrap()
}

/// PyTorch's out × in weights in the order of w.
fn weights(fixture: &Json, problem: &Problem) -> Vec<f64> {
    let mut w = Vec::new();
    for (tensor, block) in fixture["weights"].as_array().unwrap().iter().zip(problem.layout().blocks()) {
        let values = numbers(tensor);
        match block.shape[..] {
            [inputs, units] => w.extend((0..inputs * units).map(|k| values[k % units * inputs + k / units])),
            _ => w.extend(values),
        }
    }
    w
}

fn all_within(what: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!((g - e).abs() <= tolerance * scale, "{what}, number {i}: {g} for {e}");
    }
}

#[test]
fn evidence_variances_and_probabilities_agree() {
    let text = include_str!("fixtures/laplace_torch.json");
    let fixtures: Json = serde_json::from_str(text).unwrap();
    for kind in ["regression", "classification"] {
        let fixture = &fixtures[kind];
        let data = if kind == "regression" { regression } else { classification };
        let (x, y) = data(if kind == "regression" { 40 } else { 60 }, 0.0);
        let problem = problem(kind, x, y);
        let w = weights(fixture, &problem);
        let at = Values::F64(data(5, 0.37).0.into());
        for (name, expected) in fixture["structures"].as_object().unwrap() {
            let (last, structure) = name.strip_prefix("last-").map_or((false, name.as_str()), |s| (true, s));
            let network = problem.network();
            let subset = if last { Subset::last_layer(&**network) } else { Subset::all(&**network) }.unwrap();
            let options = LaplaceOptions {
                structure: match structure {
                    "full" => Structure::Full,
                    "kron" => Structure::Kron,
                    _ => Structure::Diagonal,
                },
                per_layer: false,
                separate_bias: true,
                learn_prior: false,
                learn_noise: false,
            };
            let mut laplace = LaplaceApproximation::new(&problem, w.clone(), &subset, options).unwrap();
            let (evidence, reference) = (laplace.log_evidence(), expected["log_evidence"].as_f64().unwrap());
            // Both in f64 from the same numbers; the fixture has nine digits.
            assert!((evidence - reference).abs() < 1e-7 * reference.abs(), "{kind} {name}: {evidence} for {reference}");
            let q = laplace.posterior().unwrap();
            let (likelihood, scale) = (problem.likelihood().clone(), TargetScale::default());
            let predictor = LinearisedPredictor::new(network.clone(), likelihood, &q, 10, Link::Probit, scale).unwrap();
            let (mean, variance) = predictor.moments(&at);
            // What a model file keeps is f32: weights, eigenvectors and standard deviations, about 1e-7 each.
            all_within(&format!("{kind} mean"), &mean, &numbers(&fixture["mean"]), 1e-6);
            all_within(&format!("{kind} {name} variance"), &variance, &numbers(&expected["variance"]), 1e-5);
            if kind == "classification" {
                all_within(&format!("{name} probit"), &predictor.probit(&at), &numbers(&expected["probit"]), 1e-5);
            }
        }
    }
}
