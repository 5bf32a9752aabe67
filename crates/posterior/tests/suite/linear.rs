//! The method `linear`: posterior, predictive and evidence against the normal of the outcomes written out, and what it refuses.

use posterior::data::{Dataset, Values};
use posterior::distribution::{MultiDistribution, MultivariateNormal};
use posterior::exact::LinearRegression;
use posterior::inference::{Silent, find};
use posterior::likelihood::Outcome;
use posterior::math::MatRef;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, LayerSpec, NetworkSpec, Shape};
use posterior::posterior::Posterior;
use posterior::predict::{LinearisedPredictor, Link, NetworkPredictor, Predictor, TargetScale};
use posterior::problem::Problem;
use posterior::rng::{Key, Stream};
use posterior::settings::Value;
use std::sync::Arc;

const ROWS: usize = 25;
const NOISE: f64 = 0.4;

fn text(v: &str) -> Value {
    Value::Text(v.into())
}

fn fixed_noise() -> Choice {
    Choice::named("gaussian").with("noise", text("fixed")).with("noise_std", Value::Float(NOISE))
}

/// Two inputs, a quadratic and noise.
fn data() -> (Vec<f64>, Vec<f64>) {
    let mut stream = Stream::new(Key::new(3));
    let x: Vec<f64> = (0..2 * ROWS).map(|_| stream.normal()).collect();
    let y = x.chunks(2).map(|x| 0.5 - x[0] + 0.6 * x[0] * x[1] + NOISE * stream.normal()).collect();
    (x, y)
}

fn problem(recipe: &Recipe) -> posterior::Result<Problem> {
    let (x, y) = data();
    let resolved = recipe.resolve_for(Shape::Flat(2), Outcome::Real, 1)?;
    resolved.problem(Dataset::new(Values::F64(x.into()), Shape::Flat(2), y, 1))
}

fn fit(recipe: &Recipe) -> (Problem, Arc<dyn Posterior>, f64) {
    let problem = problem(recipe).unwrap();
    let method = recipe.resolve_for(Shape::Flat(2), Outcome::Real, 1).unwrap().method().unwrap();
    let fit = method.fit(&problem, Key::new(1), &mut Silent).unwrap();
    let end = *fit.summary.trace.last().unwrap();
    assert!((-end.nll - end.penalty - end.objective).abs() < 1e-9 && end.penalty > 0.0);
    let evidence = fit.posterior.log_evidence().unwrap();
    assert_eq!(end.objective, evidence);
    (problem, fit.posterior.into(), evidence)
}

/// 1, h₁, h₂ of both inputs and their product, in the order of the layer, the bias last.
fn features(x: &[f64]) -> Vec<Vec<f64>> {
    let h2 = |x: f64| (x * x - 1.0) / 2f64.sqrt();
    x.chunks(2).map(|x| vec![x[0], x[1], h2(x[0]), x[0] * x[1], h2(x[1]), 1.0]).collect()
}

/// With noise and prior held: log p(D) = log N(y | 0, σ²I + ΦSΦᵀ), and the predictive by conditioning, which the draws approach.
#[test]
fn posterior_predictive_and_evidence_are_exact() {
    let linear = Choice::named("linear").with("degree", Value::Int(2)).with("learn_prior", Value::Bool(false));
    let prior = Choice::named("normal").with("weight_std", Value::Float(1.5)).with("bias_std", Value::Float(0.7));
    let recipe = Recipe { likelihood: fixed_noise(), prior, method: linear, ..Recipe::default() };
    let (problem, posterior, evidence) = fit(&recipe);
    let (x, y) = data();
    let rows = features(&x);
    // weight_std²/fan-in, five features; the bias by itself.
    let variances = [1.5 * 1.5 / 5.0, 1.5 * 1.5 / 5.0, 1.5 * 1.5 / 5.0, 1.5 * 1.5 / 5.0, 1.5 * 1.5 / 5.0, 0.7 * 0.7];
    let covariance = |a: &[f64], b: &[f64]| (0..6).map(|i| a[i] * b[i] * variances[i]).sum::<f64>();
    let k: Vec<f64> = (0..ROWS * ROWS)
        .map(|p| {
            let (i, j) = (p / ROWS, p % ROWS);
            covariance(&rows[i], &rows[j]) + if i == j { NOISE * NOISE } else { 0.0 }
        })
        .collect();
    let outcomes = MultivariateNormal::new(vec![0.0; ROWS], &k).unwrap();
    // Rounding of σ = exp(ln 0.4) and of a condition number near 1e3.
    assert!((evidence - outcomes.log_density(&y)).abs() < 1e-9, "{evidence}");

    let flat: Vec<f64> = rows.concat();
    let precision: Vec<f64> = variances.iter().map(|v| 1.0 / v).collect();
    let reference =
        LinearRegression::fit(MatRef::new(&flat, ROWS, 6), &y, None, NOISE * NOISE, &[0.0; 6], &precision).unwrap();
    let (network, likelihood, scale) = (problem.network(), problem.likelihood(), TargetScale::default());
    let blocks = posterior.as_blocks().unwrap();
    let (network_, likelihood_) = (network.clone(), likelihood.clone());
    let closed = LinearisedPredictor::new(network_, likelihood_, blocks, 100, Link::Average, scale.clone()).unwrap();
    let closed = closed.predict(&problem.data().x).real();
    let draws = 4000;
    let (network, likelihood) = (network.clone(), likelihood.clone());
    let predictor = NetworkPredictor { network, likelihood, posterior, draws, key: Key::new(5), scale };
    let drawn = predictor.predict(&problem.data().x).real();
    for (n, row) in rows.iter().enumerate() {
        let (mean, variance) = reference.predict(row);
        let epistemic = variance - NOISE * NOISE;
        // Rounding, and of the variance what is lost when that of the noise is taken from it.
        assert!((closed.mean[n] - mean).abs() < 1e-12 && (closed.epistemic[n] - epistemic).abs() < 1e-13, "row {n}");
        // Five standard errors of 4000 draws.
        assert!((drawn.mean[n] - mean).abs() < 5.0 * (epistemic / draws as f64).sqrt(), "row {n}");
        assert!((drawn.epistemic[n] / epistemic - 1.0).abs() < 5.0 * (2.0 / draws as f64).sqrt(), "row {n}");
        assert!((closed.aleatoric[n] - NOISE * NOISE).abs() < 1e-9);
    }
}

/// Two targets share features and prior scale and have a noise each: the evidence is the sum, and draws and closed form agree.
#[test]
fn two_targets_are_two_regressions() {
    let (x, y) = data();
    let both: Vec<f64> = y.iter().enumerate().flat_map(|(n, y)| [*y, 0.5 * y - x[2 * n]]).collect();
    let method = Choice::named("linear").with("learn_prior", Value::Bool(false));
    let recipe = Recipe { likelihood: fixed_noise(), method, ..Recipe::default() };
    let fit = |targets: usize, y: Vec<f64>| {
        let resolved = recipe.resolve_for(Shape::Flat(2), Outcome::Real, targets).unwrap();
        let method = resolved.method().unwrap();
        let data = Dataset::new(Values::F64(x.clone().into()), Shape::Flat(2), y, targets);
        let problem = resolved.problem(data).unwrap();
        let fit = method.fit(&problem, Key::new(1), &mut Silent).unwrap();
        let (network, likelihood) = (problem.network().clone(), problem.likelihood().clone());
        let blocks = fit.posterior.as_blocks().unwrap();
        let predictor =
            LinearisedPredictor::new(network, likelihood, blocks, 100, Link::Average, TargetScale::default()).unwrap();
        (predictor.moments(&problem.data().x), fit.posterior.log_evidence().unwrap())
    };
    let ((mean, covariance), evidence) = fit(2, both.clone());
    let alone: Vec<_> = (0..2).map(|t| fit(1, both.iter().skip(t).step_by(2).copied().collect())).collect();
    assert!((evidence - alone[0].1 - alone[1].1).abs() < 1e-9);
    for n in 0..ROWS {
        for t in 0..2 {
            let ((m, v), _) = &alone[t];
            assert!((mean[2 * n + t] - m[n]).abs() < 1e-6 && (covariance[4 * n + 3 * t] / v[n] - 1.0).abs() < 1e-5);
        }
        assert!(covariance[4 * n + 1].abs() < 1e-9, "targets are independent");
    }
}

/// The evidence with scales learned is the highest there is: no other scale of prior and noise has more.
#[test]
fn scales_are_those_of_the_highest_evidence() {
    let learned = Recipe { method: Choice::named("linear").with("degree", Value::Int(2)), ..Recipe::default() };
    let (problem, posterior, best) = fit(&learned);
    let noise = f64::from(posterior.draw(Key::new(0)).w[6]).exp();
    // 25 rows, six features: σ² is known to about √(2/19) = 32 %; as a std, half of that, and two of those.
    assert!((noise / NOISE - 1.0).abs() < 0.35, "{noise}");
    assert_eq!(problem.dim(), 7);
    let held = |weight_std: f64, noise: f64| {
        let likelihood = Choice::named("gaussian").with("noise", text("fixed")).with("noise_std", Value::Float(noise));
        let prior = Choice::named("normal").with("weight_std", Value::Float(weight_std));
        let method = learned.method.clone().with("learn_prior", Value::Bool(false));
        fit(&Recipe { likelihood, prior, method, ..Recipe::default() }).2
    };
    for factor in [0.5, 0.8, 1.0, 1.3, 2.0] {
        for weight_std in [0.3, 0.6, 1.0, 1.5, 2.0, 4.0] {
            assert!(held(weight_std, noise * factor) <= best + 1e-6, "{factor} {weight_std}"); // ln σ is kept in f32
        }
    }
    // And it is reached: by some weight_std at that noise.
    let reached = (0..200).map(|i| held(0.2 * 1.02f64.powi(i), noise)).fold(f64::NEG_INFINITY, f64::max);
    assert!((reached - best).abs() < 1e-3, "{reached} {best}"); // 2 % steps around a smooth maximum
}

#[test]
fn features_are_what_the_settings_say() {
    let spec = |method: Choice, network: NetworkSpec| {
        let recipe = Recipe { network, method, ..Recipe::default() };
        recipe.resolve_for(Shape::Flat(2), Outcome::Real, 1).map(|r| r.recipe.network.layers)
    };
    let linear = || Choice::named("linear");
    let usual = NetworkSpec::default;
    assert_eq!(spec(linear(), usual()).unwrap(), []);
    assert_eq!(spec(linear().with("features", text("raw")), usual()).unwrap(), []);
    let polynomial = LayerSpec::Polynomial { degree: 4 };
    assert_eq!(spec(linear().with("degree", Value::Int(4)), usual()).unwrap(), std::slice::from_ref(&polynomial));
    let fourier = LayerSpec::Fourier { frequencies: 3, period: 8.0 };
    let asked = linear().with("features", text("fourier")).with("frequencies", Value::Int(3));
    assert_eq!(spec(asked.clone(), usual()).unwrap(), std::slice::from_ref(&fourier));
    // A resolved recipe, as a model file has it, resolves to itself; a network that is the user's stays.
    assert_eq!(spec(asked.clone(), NetworkSpec { layers: vec![fourier.clone()] }).unwrap(), [fourier]);
    assert_eq!(
        spec(linear(), NetworkSpec { layers: vec![polynomial.clone()] }).unwrap(),
        std::slice::from_ref(&polynomial)
    );
    let error = spec(asked, NetworkSpec { layers: vec![polynomial] }).unwrap_err().to_string();
    assert!(error.contains("both say what the model is linear in"), "{error}");
    for features in ["polynomial", "fourier", "random"] {
        let (_, _, evidence) = fit(&Recipe {
            method: linear().with("features", text(features)).with("count", Value::Int(30)),
            ..Recipe::default()
        });
        assert!(evidence.is_finite());
    }
}

/// The same features are a network like any other for the other methods.
#[test]
fn other_methods_fit_the_same_model() {
    let network = NetworkSpec { layers: vec![LayerSpec::Polynomial { degree: 2 }] };
    let settings = Choice::named("linear").with("learn_prior", Value::Bool(false));
    let (_, _, evidence) =
        fit(&Recipe { network: network.clone(), likelihood: fixed_noise(), method: settings, ..Recipe::default() });
    let method = Choice::named("full-covariance").with("epochs", Value::Int(4000)).with("samples", Value::Int(4));
    let recipe = Recipe { network, likelihood: fixed_noise(), method, ..Recipe::default() };
    let problem = problem(&recipe).unwrap();
    let method = recipe.resolve_for(Shape::Flat(2), Outcome::Real, 1).unwrap().method().unwrap();
    let fit = method.fit(&problem, Key::new(1), &mut Silent).unwrap();
    let bound = fit.posterior.log_evidence().unwrap();
    // Full-covariance inference is exact here, but for the noise of the last epoch's estimate with four draws.
    assert!((bound - evidence).abs() < 2.0, "{bound} for {evidence}");
}

#[test]
fn what_is_not_exact_is_refused() {
    let message = |recipe: Recipe| {
        let problem = problem(&recipe).unwrap();
        find("linear").unwrap().configure(&[]).unwrap().fit(&problem, Key::new(1), &mut Silent).unwrap_err().to_string()
    };
    let linear = || Recipe { method: Choice::named("linear"), ..Recipe::default() };
    let text = message(Recipe { likelihood: Choice::named("student-t"), ..linear() });
    assert!(text.starts_with("linear is exact for normal noise alone, and the likelihood is 'student-t'"), "{text}");
    let text = message(Recipe { prior: Choice::named("laplace"), ..linear() });
    assert!(text.starts_with("linear is exact for a normal prior alone, and this one is 'laplace'"), "{text}");
    let hidden = NetworkSpec::parse("7", Activation::Tanh).unwrap();
    let text = message(Recipe { network: hidden, ..linear() });
    assert!(text.starts_with("linear has no hidden layers to learn"), "{text}");
}

#[test]
fn one_two_and_four_threads_agree() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let method = Choice::named("linear").with("features", text("random")).with("count", Value::Int(60));
        let (_, posterior, evidence) = pool.install(|| fit(&Recipe { method, ..Recipe::default() }));
        (posterior.tensors(), evidence)
    };
    let one = run(1);
    assert!(one == run(2) && one == run(4));
}
