//! A posterior as the next prior, through the ordinary door.

use posterior::data::{Dataset, Values};
use posterior::fitted::Fitted;
use posterior::inference::{Silent, find};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{NetworkSpec, Shape};
use posterior::posterior::MeanFieldPosterior;
use posterior::prior::Prior;
use posterior::problem::Problem;
use posterior::rng::{Key, Stream};
use posterior::settings::Value;
use std::sync::Arc;

/// Inputs in pairs ±x: weight and bias are then independent in the posterior, so that its diagonal is all of it.
fn rows(n: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut stream = Stream::new(Key::new(seed));
    let x: Vec<f64> = (0..n).flat_map(|_| [1.0, -1.0].map(|s| s * (0.5 + stream.uniform()))).collect();
    let x: Vec<f64> = x.chunks(2).flat_map(|p| [p[0], -p[0]]).collect();
    let y = x.iter().map(|x| 0.3 + 1.2 * x + 0.4 * stream.normal()).collect();
    (x, y)
}

fn recipe() -> Recipe {
    let noise = Choice::named("gaussian").with("noise", Value::Text("fixed".into()));
    Recipe {
        network: NetworkSpec { layers: Vec::new() },
        likelihood: noise.with("noise_std", Value::Float(0.4)),
        method: Choice::named("linear").with("learn_prior", Value::Bool(false)),
        ..Recipe::default()
    }
}

fn problem(x: &[f64], y: &[f64]) -> Problem {
    let resolved = recipe().resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap();
    resolved.problem(Dataset::new(Values::F64(x.to_vec().into()), Shape::Flat(1), y.to_vec(), 1)).unwrap()
}

/// Mean and variance of weight and bias under `linear`, exactly.
fn exact(problem: &Problem) -> (Vec<f64>, Vec<f64>) {
    let fit = find("linear").unwrap().configure(&[("learn_prior".to_owned(), Value::Bool(false))]).unwrap();
    let fit = fit.fit(problem, Key::new(1), &mut Silent).unwrap();
    let exact = fit.posterior.as_blocks().unwrap().exact().unwrap().clone();
    let root = &exact.root;
    let covariance = |i: usize, j: usize| (0..2).map(|k| root[i * 2 + k] * root[j * 2 + k]).sum::<f64>();
    assert!(covariance(0, 1).abs() < 1e-12, "the design makes them independent");
    (exact.mean.clone(), vec![covariance(0, 0), covariance(1, 1)])
}

/// fit(A), then B with that posterior as the prior, is fit(A ∪ B): posterior means and variances, to single precision in which the prior is kept.
#[test]
fn one_after_the_other_is_both_at_once() {
    let ((xa, ya), (xb, yb)) = (rows(6, 1), rows(9, 2));
    let (mean, variance) = exact(&problem(&xa, &ya));
    let narrow = |v: &[f64]| v.iter().map(|v| *v as f32).collect::<Vec<f32>>();
    let std: Vec<f64> = variance.iter().map(|v| v.sqrt()).collect();
    let after_a = Arc::new(MeanFieldPosterior::new(narrow(&mean), narrow(&std), None));
    let resolved = recipe().resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap();
    let prior = resolved.fitted(after_a).to_prior().unwrap();
    let (one, two) = (problem(&xb, &yb).with_prior(prior).unwrap(), problem(&[xa, xb].concat(), &[ya, yb].concat()));
    let ((m1, v1), (m2, v2)) = (exact(&one), exact(&two));
    for i in 0..2 {
        assert!((m1[i] - m2[i]).abs() < 1e-6 && (v1[i] / v2[i] - 1.0).abs() < 1e-6, "{m1:?} {m2:?} {v1:?} {v2:?}");
    }
}

/// Mean-field under a prior with a centre for each parameter: with no data to speak of q is the prior.
#[test]
fn mean_field_goes_to_a_centred_prior() {
    let problem = problem(&[0.0], &[0.7]);
    let layout = problem.layout().clone();
    let prior = Prior::centred(&layout, &[3.0, 0.7], &[0.5, 0.05]).unwrap();
    let problem = problem.with_prior(prior).unwrap();
    let settings = [("epochs", Value::Int(3000)), ("learning_rate", Value::Float(0.02))];
    let settings: Vec<(String, Value)> = settings.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    let fit =
        find("mean-field").unwrap().configure(&settings).unwrap().fit(&problem, Key::new(3), &mut Silent).unwrap();
    let (mean, std) = fit.posterior.diagonal().unwrap();
    // x = 0 says nothing of the weight; of the bias one row with noise 0.4 says little beside a standard deviation of 0.05.
    let posterior = (0.05f32.powi(-2) + 0.4f32.powi(-2)).powf(-0.5);
    // A few per cent: Adam's noise at this step size.
    assert!((mean[0] - 3.0).abs() < 0.05 && (std[0] / 0.5 - 1.0).abs() < 0.1, "{mean:?} {std:?}");
    assert!((mean[1] - 0.7).abs() < 0.01 && (std[1] / posterior - 1.0).abs() < 0.1, "{mean:?} {std:?}");
}

#[test]
fn priors_that_cannot_be_get_one_sentence() {
    let layout = problem(&[0.0], &[0.0]).layout().clone();
    let message = |mean: &[f32], std: &[f32]| Prior::centred(&layout, mean, std).unwrap_err().to_string();
    assert!(message(&[0.0], &[1.0]).contains("do not fit 2 parameters"));
    assert!(message(&[0.0, f32::NAN], &[1.0, 1.0]).contains("parameter 1 cannot have the prior mean NaN"));
    assert!(message(&[0.0, 0.0], &[1.0, 0.0]).contains("standard deviation 0"));
}
