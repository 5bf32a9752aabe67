//! A Bayesian last layer against brute force on the features, against full-covariance inference, and against MAP below it.

use posterior::data::{Dataset, Values};
use posterior::distribution::{MultiDistribution, MultivariateNormal, kl};
use posterior::inference::{Fit, Silent, find};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, Dense, Graph, NetworkSpec, Op, Shape};
use posterior::posterior::{FullCovariancePosterior, Posterior, restore};
use posterior::prior::Prior;
use posterior::problem::{Problem, full_layout};
use posterior::rng::{Key, fill_normals};
use posterior::settings::Value;
use std::sync::Arc;

const ROWS: usize = 40;
const HIDDEN: usize = 5;
const TARGETS: usize = 2;
const K: usize = HIDDEN + 1;

fn normals(seed: u64, n: usize) -> Vec<f64> {
    let mut x = vec![0.0; n];
    fill_normals(Key::new(seed), &mut x);
    x
}

fn problem(
    recipe: &Recipe,
    x: &[f64],
    y: Vec<f64>,
    outcome: Outcome,
    width: usize,
    weights: Option<&[f64]>,
) -> Problem {
    let shape = Shape::Flat(2);
    let targets = y.len() / (x.len() / 2);
    let mut data = Dataset::new(Values::F64(x.to_vec().into()), shape, y, targets);
    data.weights = weights.map(|w| w.to_vec().into());
    recipe.resolve_for(shape, outcome, width).unwrap().problem(data).unwrap()
}

fn fit(method: &str, problem: &Problem, settings: &[(&str, i64)]) -> Fit {
    let given: Vec<_> = settings.iter().map(|(k, v)| ((*k).to_owned(), Value::Int(*v))).collect();
    find(method).unwrap().configure(&given).unwrap().fit(problem, Key::new(3), &mut Silent).unwrap()
}

/// The posterior with its own type, by way of what would be saved.
fn full(fit: &Fit) -> FullCovariancePosterior {
    let (q, tensors) = (&fit.posterior, fit.posterior.tensors());
    let find = |name: &str| tensors.iter().find(|t| t.name == name).map(|t| t.data.clone());
    assert!(restore(q.kind(), q.dim(), None, &find).is_ok());
    let start = find("start").unwrap()[1] as usize;
    FullCovariancePosterior::new(find("mean").unwrap(), start, find("lower").unwrap(), q.log_evidence())
}

fn two_targets(weights: Option<&[f64]>) -> (Problem, Vec<f64>, Vec<f64>) {
    let x = normals(1, ROWS * 2);
    let noise = normals(2, ROWS * TARGETS);
    let y: Vec<f64> = (0..ROWS * TARGETS)
        .map(|k| (x[k / TARGETS * 2 + k % TARGETS] * 2.0).sin() + 0.3 * (k % TARGETS + 1) as f64 * noise[k])
        .collect();
    let recipe = Recipe {
        network: NetworkSpec::parse(&HIDDEN.to_string(), Activation::Tanh).unwrap(),
        // A prior of its own for the last layer, which must not be lost.
        layer_priors: vec![posterior::model::LayerPrior { layer: 1, weight_std: Some(3.0), bias_std: Some(0.5) }],
        ..Recipe::default()
    };
    (problem(&recipe, &x, y.clone(), Outcome::Real, TARGETS, weights), x, y)
}

/// Φ with a column of ones from the hidden weights that the posterior fixes, by the definition.
fn features(w: &[f32], x: &[f64]) -> Vec<f64> {
    let w: Vec<f64> = w.iter().map(|v| f64::from(*v)).collect();
    let mut out = Vec::new();
    for row in x.chunks(2) {
        out.extend((0..HIDDEN).map(|h| (row[0] * w[h] + row[1] * w[HIDDEN + h] + w[2 * HIDDEN + h]).tanh()));
        out.push(1.0);
    }
    out
}

#[test]
fn with_normal_noise_it_is_linear_regression_on_the_features() {
    let some: Vec<f64> = (0..ROWS).map(|i| [0.5, 1.0, 2.5][i % 3]).collect();
    for weights in [None, Some(&some[..])] {
        let (problem, x, y) = two_targets(weights);
        let fitted = fit("last-layer", &problem, &[("epochs", 300)]);
        let q = full(&fitted);
        let start = 3 * HIDDEN;
        assert_eq!((q.range(), q.dim()), (start..start + K * TARGETS, start + K * TARGETS + TARGETS));
        let (phi, covariance, n) = (features(q.mean(), &x), q.covariance(), K * TARGETS);
        let mut log_evidence = 0.0;
        for t in 0..TARGETS {
            let variance = (2.0 * f64::from(q.mean()[start + n + t])).exp();
            let prior_variance = |i: usize| if i < HIDDEN { 9.0 / HIDDEN as f64 } else { 0.25 };
            let weight = |r: usize| weights.map_or(1.0, |w| w[r]);
            let at = |i: usize| i * TARGETS + t;
            for i in 0..K {
                let precision = |j: usize| {
                    let sum: f64 = (0..ROWS).map(|r| weight(r) * phi[r * K + i] * phi[r * K + j]).sum();
                    sum / variance + if i == j { 1.0 / prior_variance(i) } else { 0.0 }
                };
                // A μ = ΦᵀΩy/σ²
                let moment: f64 =
                    (0..ROWS).map(|r| weight(r) * phi[r * K + i] * y[r * TARGETS + t]).sum::<f64>() / variance;
                let product: f64 = (0..K).map(|j| precision(j) * f64::from(q.mean()[start + at(j)])).sum();
                let scale: f64 = (0..K).map(|j| (precision(j) * f64::from(q.mean()[start + at(j)])).abs()).sum();
                // μ is rounded to f32: a part in 1e7 of each term.
                assert!((product - moment).abs() < 3e-7 * scale, "target {t} feature {i}: {product} for {moment}");
                // A Σ = I, and nothing between targets.
                for j in 0..K {
                    let column = |k: usize| covariance[at(k) * n + at(j)];
                    let product: f64 = (0..K).map(|k| precision(k) * column(k)).sum();
                    let scale: f64 = (0..K).map(|k| (precision(k) * column(k)).abs()).sum();
                    let expected = if i == j { 1.0 } else { 0.0 };
                    // L is rounded to f32; its rows are as long as √Σᵢᵢ, so a small Σᵢⱼ has the rounding of large ones.
                    assert!((product - expected).abs() < 1e-4 * scale.max(1.0), "target {t}: {i} {j} {product}");
                    assert_eq!(covariance[at(i) * n + j * TARGETS + (1 - t)], 0.0);
                }
            }
            // log N(y | 0, σ²I + ΦSΦᵀ)
            let mut outcomes = vec![0.0; ROWS * ROWS];
            for r in 0..ROWS {
                for s in 0..ROWS {
                    let sum: f64 = (0..K).map(|i| phi[r * K + i] * prior_variance(i) * phi[s * K + i]).sum();
                    outcomes[r * ROWS + s] = sum + if r == s { variance } else { 0.0 };
                }
            }
            let y: Vec<f64> = y.iter().skip(t).step_by(TARGETS).copied().collect();
            log_evidence += MultivariateNormal::new(vec![0.0; ROWS], &outcomes).unwrap().log_density(&y);
        }
        if weights.is_none() {
            // Both in f64 from the same rounded hidden weights and noise scales.
            let got = q.log_evidence().unwrap();
            assert!((got - log_evidence).abs() < 1e-8 * log_evidence.abs(), "{got} for {log_evidence}");
        }
        // Everything below the last layer, and the noise, is what MAP gives.
        let map = fit("map", &problem, &[("epochs", 300)]);
        let w = map.posterior.draw(Key::new(0)).w;
        assert!(w[..start] == q.mean()[..start] && w[start + n..] == q.mean()[start + n..]);
    }
}

/// Classes from a noisy threshold.
fn two_classes(network: &str, prior: &str) -> Problem {
    let (x, noise) = (normals(1, 60 * 2), normals(2, 60));
    let y = x.chunks(2).zip(&noise).map(|(r, e)| f64::from(r[0] - r[1] + e > 0.0)).collect();
    let network = NetworkSpec::parse(network, Activation::Tanh).unwrap();
    let recipe = Recipe { network, prior: Choice::named(prior), ..Recipe::default() };
    problem(&recipe, &x, y, Outcome::Class, 2, None)
}

#[test]
fn of_a_linear_classifier_it_is_full_covariance_inference() {
    for prior in ["normal", "laplace"] {
        let problem = two_classes("linear", prior);
        let settings = [("epochs", 10_000), ("samples", 4)];
        let dense = |fit: &Fit| {
            let q = full(fit);
            assert_eq!(q.range(), 0..3);
            let mean = q.mean().iter().map(|v| f64::from(*v)).collect();
            MultivariateNormal::new(mean, &q.covariance()).unwrap()
        };
        let last = fit("last-layer", &problem, &settings);
        let whole = fit("full-covariance", &problem, &settings);
        // Two fits of one thing by different random numbers; each wanders by a KL of less than 0.01 (tests/families.rs).
        let divergence = kl::multivariate(&dense(&last), &dense(&whole)).unwrap();
        assert!(divergence < 0.02, "{prior}: {divergence}");
        // Each bound is one estimate of four draws, with a standard deviation of about √(3/2)/2 = 0.6.
        let (a, b) = (last.posterior.log_evidence().unwrap(), whole.posterior.log_evidence().unwrap());
        assert!((a - b).abs() < 4.0, "{prior}: {a} and {b}");
        assert!(last.summary.steps == 20_000 && last.summary.penalty_name == "KL");
    }
}

#[test]
fn the_layers_below_stay_where_map_left_them() {
    let problem = two_classes("7,4", "normal");
    let q = full(&fit("last-layer", &problem, &[("epochs", 50), ("vi_epochs", 20)]));
    let w = fit("map", &problem, &[("epochs", 50)]).posterior.draw(Key::new(0)).w;
    let start = 2 * 7 + 7 + 7 * 4 + 4;
    assert_eq!((q.range(), q.dim()), (start..start + 5, start + 5));
    assert!(q.mean()[..start] == w[..start] && q.mean()[start..] != w[start..]);
    let (a, b) = (q.draw(Key::new(1)).w, q.draw(Key::new(2)).w);
    assert!(a[..start] == w[..start] && b[..start] == w[..start] && a[start..] != b[start..]);
    assert_eq!(q.log_density(&a), None);
}

#[test]
fn noise_is_inferred_with_the_last_layer_where_it_is_not_exact() {
    let (_, x, y) = two_targets(None);
    let y: Vec<f64> = y.iter().step_by(TARGETS).copied().collect();
    for (likelihood, prior) in [("student-t", "normal"), ("gaussian", "laplace"), ("heteroscedastic", "normal")] {
        let recipe = Recipe {
            network: NetworkSpec::parse("5", Activation::Tanh).unwrap(),
            likelihood: Choice::named(likelihood),
            prior: Choice::named(prior),
            ..Recipe::default()
        };
        let problem = problem(&recipe, &x, y.clone(), Outcome::Real, 1, None);
        let q = full(&fit("last-layer", &problem, &[("epochs", 100)]));
        assert_eq!(q.range(), 15..problem.dim(), "{likelihood} {prior}");
        assert!(q.log_evidence().unwrap().is_finite());
    }
}

#[test]
fn a_network_that_does_not_end_in_a_dense_layer_is_refused() {
    let shape = Shape::Flat(2);
    let network = Arc::new(Graph::chain(vec![Op::affine(Dense::new(shape, 1, Activation::Tanh))]).unwrap());
    let resolved = Recipe::default().resolve_for(shape, Outcome::Real, 1).unwrap();
    let layout = full_layout(&*network, &*resolved.likelihood);
    let prior = Prior::new("normal", resolved.prior.settings(), &layout, resolved.likelihood.noise_prior()).unwrap();
    let data = Dataset::new(Values::F64(vec![0.0; 4].into()), shape, vec![0.0; 2], 1);
    let problem = Problem::new(network, resolved.likelihood, prior, data).unwrap();
    let method = find("last-layer").unwrap().configure(&[]).unwrap();
    let message = method.fit(&problem, Key::new(1), &mut Silent).unwrap_err().to_string();
    assert!(message.contains("dense layer without activation, and this ends in dense 1 tanh"), "{message}");
}
