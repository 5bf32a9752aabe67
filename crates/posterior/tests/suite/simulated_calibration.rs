//! Simulation-based calibration of samplers on a tiny network regression: parameters from the prior, data from the likelihood; the rank of the
//! true value among the posterior's draws is uniform if and only if the sampler draws from the posterior.
//!
//! Reference: Talts et al. (2018); the log-likelihood as a test quantity: Modrák et al. (2023), Bayesian Analysis. Quantities that
//! do not change when units change places: f at a new input, ln σ, log p(D | w).

use posterior::data::{Dataset, Values};
use posterior::inference::{Silent, find};
use posterior::likelihood::Outcome;
use posterior::math::MatRef;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, Mode, Network, NetworkSpec, Pass, Shape};
use posterior::problem::{Problem, Rows};
use posterior::rng::{Key, Stream};
use posterior::settings::Value;
use posterior_testing::{chi_square, chi_square_critical};

const REPLICATIONS: usize = 300;
const DRAWS: usize = 19;
/// Ranks 0..=19 in bins of four.
const BINS: usize = 5;
const X: [f64; 6] = [-1.6, -0.9, -0.3, 0.4, 1.0, 1.7];
const NEW: f64 = 0.7;

fn recipe() -> Recipe {
    Recipe {
        network: NetworkSpec::parse("2", Activation::Tanh).unwrap(),
        prior: Choice::named("normal"),
        ..Recipe::default()
    }
}

fn problem(y: Vec<f64>) -> Problem {
    let data = Dataset::new(Values::F64(X.to_vec().into()), Shape::Flat(1), y, 1);
    recipe().resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap().problem(data).unwrap()
}

/// f_w at some inputs.
fn outputs(problem: &Problem, w: &[f64], x: &[f64]) -> Vec<f64> {
    let network: &dyn Network<f64> = &**problem.network();
    let size = problem.network().layout().len();
    let mut workspace = network.workspace(x.len());
    let pass = Pass { mode: Mode::Plain, layer: 0, first_row: 0, threads: posterior::math::Threads::One };
    network.forward(w[..size].into(), MatRef::new(x, x.len(), 1), &pass, &mut workspace).data.to_vec()
}

fn quantities(problem: &Problem, w: &[f64]) -> [f64; 3] {
    let log_likelihood = problem.density::<f64>(X.len()).log_likelihood(w, Rows::All, Mode::Plain, None);
    [outputs(problem, w, &[NEW])[0], w[w.len() - 1], log_likelihood]
}

fn calibrate(method: &str, settings: &[(&str, f64)], key: Key) -> [f64; 3] {
    let mut given: Vec<(String, Value)> = vec![
        ("chains".into(), Value::Int(1)),
        ("draws".into(), Value::Int(DRAWS as i64)),
        ("start".into(), Value::Text(if method == "hmc" { "tempered" } else { "prior" }.into())),
    ];
    given.extend(settings.iter().map(|(k, v)| ((*k).to_owned(), Value::Float(*v))));
    let method = find(method).unwrap().configure(&given).unwrap();
    let mut ranks = [[0u64; BINS]; 3];
    for r in 0..REPLICATIONS as u64 {
        let key = key.derive(r);
        let blank = problem(vec![0.0; X.len()]);
        let mut truth = vec![0.0f32; blank.dim()];
        blank.prior().sample(key.derive(0), &mut truth);
        let truth: Vec<f64> = truth.into_iter().map(f64::from).collect();
        let (f, noise) = (outputs(&blank, &truth, &X), &truth[truth.len() - 1..]);
        let (mut y, mut stream) = (vec![0.0; X.len()], Stream::new(key.derive(1)));
        for (y, f) in y.iter_mut().zip(&f) {
            blank.likelihood().sample(&[*f], noise, &mut stream, std::slice::from_mut(y));
        }
        let problem = problem(y);
        let fit = method.fit(&problem, key.derive(2), &mut Silent).unwrap();
        let chains = fit.posterior.chains().unwrap();
        let of_truth = quantities(&problem, &truth);
        let mut below = [0; 3];
        for s in 0..DRAWS {
            let w: Vec<f64> = chains.draw(s).iter().map(|v| f64::from(*v)).collect();
            let of_draw = quantities(&problem, &w);
            (0..3).for_each(|q| below[q] += usize::from(of_draw[q] < of_truth[q]));
        }
        (0..3).for_each(|q| ranks[q][below[q] * BINS / (DRAWS + 1)] += 1);
    }
    println!("{}: {ranks:?}", method.name());
    let expected = [REPLICATIONS as f64 / BINS as f64; BINS];
    ranks.map(|counts| chi_square(&counts, &expected))
}

/// The tests' critical value is exceeded by chance once in a million; draws are far enough apart that their ranks are as good as independent.
fn expect_calibrated(method: &str, settings: &[(&str, f64)]) {
    let statistics = calibrate(method, settings, Key::new(11));
    for (name, chi) in ["f", "ln σ", "log-likelihood"].iter().zip(statistics) {
        assert!(chi < chi_square_critical(BINS - 1), "{method}: the ranks of {name} are not uniform, χ² = {chi:.1}");
    }
}

#[test]
fn hmc_is_calibrated() {
    expect_calibrated("hmc", &[("warmup", 100.0), ("thin", 8.0)]);
}

#[test]
fn nuts_is_calibrated() {
    expect_calibrated("nuts", &[("warmup", 100.0), ("thin", 8.0)]);
}

/// The test has power: draws of the posterior of half the data are seen.
#[test]
fn a_wrong_posterior_is_seen() {
    // Too short a chain from the prior has not reached the posterior.
    let statistics = calibrate("metropolis", &[("warmup", 0.0), ("thin", 1.0)], Key::new(12));
    assert!(statistics[2] > 2.0 * chi_square_critical(BINS - 1), "{statistics:?}");
}
