//! Fits and predictions by moments: the optimum on a linear model, draws in great number, and what they are not for.

use crate::moments::{normals, objective, problem};
use posterior::data::{Dataset, Values};
use posterior::inference::{Silent, find};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::{MeanFieldPosterior, PointPosterior, Posterior};
use posterior::predict::{MomentsPredictor, NetworkPredictor, Outputs, Predictor, TargetScale};
use posterior::problem::{Problem, Rows};
use posterior::rng::{Key, Stream};
use posterior::settings::Value;
use std::sync::Arc;

const NOISE: f64 = 0.5;
const PRIOR: f64 = 2.0;

/// y = x·w + noise with correlated inputs, noise known, prior N(0, PRIOR²) on every parameter.
fn linear(rows: usize) -> (Problem, Vec<f64>, Vec<f64>) {
    let mut stream = Stream::new(Key::new(1));
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let shared = stream.normal();
        let row: Vec<f64> = (0..3).map(|_| 0.6 * shared + 0.8 * stream.normal()).collect();
        y.push(0.3 - 0.5 * row[0] + 0.5 * row[2] + NOISE * stream.normal());
        x.extend(row);
    }
    let fixed = Choice::named("gaussian").with("noise", Value::Text("fixed".into()));
    let prior = Choice::named("normal").with("scaling", Value::Text("none".into()));
    let recipe = Recipe {
        network: NetworkSpec::parse("linear", Activation::Tanh).unwrap(),
        likelihood: fixed.with("noise_std", Value::Float(NOISE)),
        prior: prior.with("weight_std", Value::Float(PRIOR)).with("bias_std", Value::Float(PRIOR)),
        ..Recipe::default()
    };
    let resolved = recipe.resolve_for(Shape::Flat(3), Outcome::Real, 1).unwrap();
    let data = Dataset::new(Values::F64(x.clone().into()), Shape::Flat(3), y.clone(), 1);
    (resolved.problem(data).unwrap(), x, y)
}

#[test]
fn for_gaussian_noise_the_expectation_is_exact() {
    let (problem, x, y) = linear(50);
    let (mean, log_variance) = ([0.4, -0.2, 0.9, 0.1], [-1.0f64, -2.0, -3.0, -0.5]);
    let (value, _) = objective(&problem, Rows::All, &[mean, log_variance].concat());
    let mut exact = 0.0;
    for (x, y) in x.chunks(3).zip(&y) {
        let m = (0..3).map(|i| x[i] * mean[i]).sum::<f64>() + mean[3];
        let v = (0..3).map(|i| x[i] * x[i] * log_variance[i].exp()).sum::<f64>() + log_variance[3].exp();
        exact -= 0.5 * ((y - m).powi(2) + v) / (NOISE * NOISE) + NOISE.ln() + 0.5 * std::f64::consts::TAU.ln();
    }
    // Rounding of 50 rows; TINY adds 1e-16 to a variance.
    assert!((value / exact - 1.0).abs() < 1e-13, "{value} for {exact}");
}

#[test]
fn on_a_linear_model_the_fit_is_the_mean_field_optimum() {
    let (problem, x, y) = linear(200);
    // Λ = XᵀX/σ² + βI/s² and Λm = Xᵀy/σ², with the bias as a column of ones; variances β/Λᵢᵢ.
    let feature = |n: usize, i: usize| if i < 3 { x[n * 3 + i] } else { 1.0 };
    for beta in [1.0, 0.3] {
        let given = |k: &str, v: Value| (k.to_owned(), v);
        let method = find("moments").unwrap().configure(&[
            given("epochs", Value::Int(4000)),
            given("batch_size", Value::Int(200)),
            given("beta", Value::Float(beta)),
            given("learning_rate", Value::Float(0.02)),
        ]);
        let fit = method.unwrap().fit(&problem, Key::new(3), &mut Silent).unwrap();
        let (m, s) = fit.posterior.diagonal().unwrap();
        for i in 0..4 {
            let row = |j: usize| (0..200).map(|n| feature(n, i) * feature(n, j)).sum::<f64>() / (NOISE * NOISE);
            let ridge = beta / (PRIOR * PRIOR);
            let target = beta / (row(i) + ridge);
            let pull = (0..4).map(|j| row(j) * f64::from(m[j])).sum::<f64>() + ridge * f64::from(m[i]);
            let data = (0..200).map(|n| feature(n, i) * y[n]).sum::<f64>() / (NOISE * NOISE);
            let variance = f64::from(s[i]).powi(2);
            println!("beta {beta}, {i}: {:e} {:e}", variance / target - 1.0, (pull - data) * target.sqrt());
            // No gradient noise: what is left is f32 in sums of 200 rows, some 200·6e-8, and the last of Adam's steps. Sampling needs
            // 0.1 and 0.25 for the same.
            assert!((variance / target - 1.0).abs() < 2e-5, "beta {beta}, {i}: {variance} for {target}");
            assert!(((pull - data) * target.sqrt()).abs() < 2e-5, "beta {beta}, {i}: {pull} for {data}");
        }
    }
}

/// A network for regression with a made-up posterior, predicted by moments and by very many draws.
fn predictors(network: &str) -> (MomentsPredictor, NetworkPredictor, Values) {
    let problem = problem(network, Activation::Relu, "gaussian", 10);
    let mut mean = problem.initial(Key::new(8));
    let std: Vec<f32> = mean.iter().enumerate().map(|(i, m)| 0.05 + 0.2 * m.abs() * ((i % 3) as f32)).collect();
    *mean.last_mut().unwrap() = -0.7;
    let scale = TargetScale { targets: vec![(3.0, 2.0)] };
    let (network, likelihood) = (problem.network(), problem.likelihood());
    let posterior = Arc::new(MeanFieldPosterior::new(mean, std, None));
    let moments = MomentsPredictor::new(&**network, likelihood.clone(), &*posterior, 200, scale.clone()).unwrap();
    let (network, likelihood) = (network.clone(), likelihood.clone());
    let by_draws = NetworkPredictor { network, likelihood, posterior, draws: 20_000, key: Key::new(9), scale };
    (moments, by_draws, Values::F64(normals(10, 2 * 40).into()))
}

#[test]
fn predictions_agree_with_those_of_many_draws() {
    // 20 000 draws: the mean to 0.7 % of a standard deviation, a standard deviation to 0.5 %, a 5 % quantile to 1.5 % of one;
    // five times that. Outputs of a linear network are normal, and so quantiles and log-densities must agree as well as that.
    // Those of a hidden layer, sums of 25 products, are not: the further bounds are what was measured, rounded up.
    for (network, on_quantile, on_log_density) in [("linear", 0.075, 0.03), ("25", 0.1, 0.06)] {
        let (moments, by_draws, x) = predictors(network);
        let (fast, slow) = (moments.predict(&x), by_draws.predict(&x));
        let (a, b) = (fast.real(), slow.real());
        let (qa, qb) = (fast.quantiles(&[0.05, 0.95]), slow.quantiles(&[0.05, 0.95]));
        let y: Vec<f64> = a.mean.iter().map(|m| m + 1.0).collect();
        let (la, lb) = (fast.log_likelihood(&y), slow.log_likelihood(&y));
        let mut worst = [0.0f64; 5];
        for n in 0..40 {
            let std = b.std(n).0;
            let quantile = (qa[2 * n] - qb[2 * n]).abs().max((qa[2 * n + 1] - qb[2 * n + 1]).abs());
            let off = [
                (a.mean[n] - b.mean[n]).abs() / std,
                (a.std(n).1 / b.std(n).1 - 1.0).abs(),
                (a.std(n).2 / b.std(n).2 - 1.0).abs(),
                quantile / std,
                (la[n] - lb[n]).abs(),
            ];
            (0..5).for_each(|i| worst[i] = worst[i].max(off[i]));
        }
        println!("{network}: {worst:.4?}");
        for (off, bound) in worst.iter().zip([0.035, 0.025, 0.01, on_quantile, on_log_density]) {
            assert!(*off < bound, "{network}: {worst:?}");
        }
        // The moments themselves are those of the mixture, but for rounding to f32.
        let (m, v) = moments.moments(&x);
        for n in 0..40 {
            assert!((a.mean[n] - 3.0 - 2.0 * f64::from(m[n])).abs() < 1e-5);
            assert!((a.std(n).1 / (2.0 * f64::from(v[n]).sqrt()) - 1.0).abs() < 1e-5);
        }
    }
}

#[test]
fn predictions_have_the_same_bits_on_any_number_of_threads() {
    let (moments, _, _) = predictors("25");
    let x = Values::F64(normals(11, 2 * 1000).into());
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| moments.predict(&x).outputs().clone())
    };
    let one = run(1);
    assert!(one == run(2) && one == run(4));
    // Rows do not know of each other.
    let few = Values::F64(normals(11, 2 * 1000)[2 * 600..2 * 610].into());
    let of = |outputs: &Outputs| match outputs {
        Outputs::Gaussian(g) => (g.mean.clone(), g.covariance.clone()),
        other => panic!("{other:?}"),
    };
    let (mean, covariance) = of(&one);
    assert_eq!(of(moments.predict(&few).outputs()), (mean[600..610].to_vec(), covariance[600..610].to_vec()));
}

#[test]
fn what_moments_are_not_for_is_refused_in_one_sentence() {
    let masked = r#"layers = [{ kind = "dense", units = 4, activation = "tanh" }, { kind = "dropout", rate = 0.2 }]"#;
    let recipe = Recipe { network: toml::from_str(masked).unwrap(), ..Recipe::default() };
    let resolved = recipe.resolve_for(Shape::Flat(2), Outcome::Real, 1).unwrap();
    let data = Dataset::new(Values::F64(normals(6, 20).into()), Shape::Flat(2), normals(7, 10), 1);
    let problem = resolved.problem(data).unwrap();
    let method = find("moments").unwrap().configure(&[]).unwrap();
    let said = method.fit(&problem, Key::new(1), &mut Silent).unwrap_err().to_string();
    let expected =
        "moments pass through dense layers only, and this network has 'dropout 0.2'; use the method 'mean-field'";
    assert_eq!(said, expected);
    let point: Arc<dyn Posterior> = Arc::new(PointPosterior::new(problem.initial(Key::new(1))));
    let refused = |posterior: &dyn Posterior| {
        let (network, likelihood) = (problem.network(), problem.likelihood().clone());
        MomentsPredictor::new(&**network, likelihood, posterior, 10, TargetScale::default()).unwrap_err().to_string()
    };
    assert!(
        refused(&*point).starts_with("moments need a posterior that is a diagonal Gaussian, and this one is of kind")
    );
    let dim = problem.dim();
    let gaussian = MeanFieldPosterior::new(vec![0.0; dim], vec![1.0; dim], None);
    assert!(refused(&gaussian).ends_with("this network has 'dropout 0.2'; predict from draws of the weights instead"));
}
