//! Moments through dense layers against closed forms, quadrature and draws; the objective's gradient; the fit's optimum.

use posterior::data::{Dataset, Values};
use posterior::inference::{Silent, find};
use posterior::likelihood::{LIKELIHOODS, Outcome};
use posterior::math::{MatRef, Threads};
use posterior::model::{Choice, Recipe};
use posterior::nn::{
    ACTIVATIONS, Activation, AnyNetwork, Gaussians, Gradient, Mode, MomentsNetwork, NetworkSpec, Pass, Sequential,
    Shape, second_moments,
};
use posterior::posterior::{MeanFieldPosterior, PointPosterior, Posterior};
use posterior::predict::{MomentsPredictor, NetworkPredictor, Predictor, TargetScale};
use posterior::problem::{MomentsDensity, Problem, Rows};
use posterior::rng::{Key, Stream, fill_normals};
use posterior::settings::Value;
use posterior_testing::{check_gradient, expect_gradient, z_mean, z_variance};
use std::sync::Arc;

fn build(network: &str, activation: Activation, inputs: usize, outputs: usize) -> Sequential {
    NetworkSpec::parse(network, activation).unwrap().build(Shape::Flat(inputs), outputs).unwrap()
}

/// Means and variances of a network's parameters: weights of spread 1/√fan-in, standard deviations `std` times that.
fn beliefs(network: &Sequential, std: f64) -> (Vec<f64>, Vec<f64>) {
    let size = network.layout().len();
    let (mut mean, noise) = (normals(31, size), normals(32, size));
    let mut variance = vec![0.0; size];
    for block in network.layout().blocks() {
        let scale = 1.0 / (block.fan_in as f64).sqrt();
        for i in block.range.clone() {
            mean[i] *= scale;
            variance[i] = (std * scale * (0.3 * noise[i]).exp()).powi(2);
        }
    }
    (mean, variance)
}

fn forward(network: &Sequential, mean: &[f64], variance: &[f64], x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let moments = MomentsNetwork::new(network, "").unwrap();
    let (rows, mut second) = (x.len() / moments.inputs(), vec![0.0; mean.len()]);
    second_moments(mean, variance, &mut second);
    let mut space = moments.space(rows, false);
    let x = MatRef::new(x, rows, moments.inputs());
    let f = moments.forward(Gaussians { mean, variance, second: &second }, x, Threads::One, &mut space);
    (f.mean.to_vec(), f.variance.to_vec())
}

fn normals(key: u64, count: usize) -> Vec<f64> {
    let mut x = vec![0.0; count];
    fill_normals(Key::new(key), &mut x);
    x
}

#[test]
fn one_dense_layer_is_exact() {
    let network = build("linear", Activation::Tanh, 5, 3);
    let (mean, variance) = beliefs(&network, 0.5);
    let x = normals(1, 7 * 5);
    let (m, v) = forward(&network, &mean, &variance, &x);
    for (n, x) in x.chunks(5).enumerate() {
        for k in 0..3 {
            let at = |i: usize| i * 3 + k;
            let exact_mean = (0..5).map(|i| x[i] * mean[at(i)]).sum::<f64>() + mean[15 + k];
            let exact_variance = (0..5).map(|i| x[i] * x[i] * variance[at(i)]).sum::<f64>() + variance[15 + k];
            // Rounding of six terms.
            assert!((m[n * 3 + k] - exact_mean).abs() < 1e-14);
            assert!((v[n * 3 + k] / exact_variance - 1.0).abs() < 1e-14);
        }
    }
}

/// Mean and variance of φ(z), z ~ N(μ, s²), out of a network of one unit whose bias is z.
fn of_activation(activation: Activation, mu: f64, s: f64) -> (f64, f64) {
    let network = build("1", activation, 1, 1);
    // Weight and bias of the unit, weight and bias of the output.
    let (m, v) = forward(&network, &[0.0, mu, 1.0, 0.0], &[0.0, s * s, 0.0, 0.0], &[0.0]);
    (m[0], v[0])
}

/// The same by Simpson's rule on each side of 0, where relu has its kink.
fn by_quadrature(f: impl Fn(f64) -> f64, mu: f64, s: f64) -> (f64, f64) {
    let integral = |g: &dyn Fn(f64) -> f64| {
        let (low, high, kink) = (mu - 12.0 * s, mu + 12.0 * s, 0.0f64.clamp(mu - 12.0 * s, mu + 12.0 * s));
        let density = |z: f64| (-0.5 * ((z - mu) / s).powi(2)).exp() / (s * std::f64::consts::TAU.sqrt());
        let part = |a: f64, b: f64| {
            let (n, h) = (4000, (b - a) / 4000.0);
            let weight = |i: usize| if i == 0 || i == n { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
            (0..=n).map(|i| weight(i) * g(a + h * i as f64) * density(a + h * i as f64)).sum::<f64>() * h / 3.0
        };
        part(low, kink) + part(kink, high)
    };
    let mean = integral(&|z| f(z));
    (mean, integral(&|z| (f(z) - mean).powi(2)))
}

fn places(s: f64) -> impl Iterator<Item = f64> {
    (-12..=12).map(move |i| 0.25 * f64::from(i) * s.max(1.0))
}

#[test]
fn relu_and_identity_have_closed_forms() {
    for s in [1e-3, 0.1, 1.0, 10.0] {
        for mu in places(s) {
            let (m, v) = of_activation(Activation::Relu, mu, s);
            let (mean, variance) = by_quadrature(|z| z.max(0.0), mu, s);
            // Simpson's rule with 4000 intervals: (24/4000)⁴·a fourth derivative, some 1e-11 of s; v is taken as v + 1e-16.
            assert!((m - mean).abs() < 1e-10 * s, "{mu} {s}: mean {m} for {mean}");
            assert!((v - variance).abs() < 1e-10 * s * s + 1e-16, "{mu} {s}: variance {v} for {variance}");
            let (m, v) = of_activation(Activation::Identity, mu, s);
            assert!((m - mu).abs() < 1e-14 * mu.abs().max(1.0) && (v / (s * s) - 1.0).abs() < 1e-14); // rounding
        }
    }
}

#[test]
fn smooth_activations_are_as_accurate_as_the_documentation_says() {
    // Errors of mean and variance at s = 0.5, 1, 2, from the table in `moments_kernels`.
    type Row = (&'static str, fn(f64) -> f64, [(f64, f64); 3]);
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    let gelu = |z: f64| 0.5 * z * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (z + 0.044715 * z * z * z)).tanh());
    let table: [Row; 4] = [
        ("tanh", f64::tanh, [(8e-7, 8e-6), (6e-4, 4e-3), (2e-2, 6e-2)]),
        ("gelu", gelu, [(7e-10, 3e-8), (9e-6, 3e-4), (6e-3, 4e-2)]),
        ("silu", |z| z / (1.0 + (-z).exp()), [(9e-11, 2e-9), (2e-6, 2e-5), (1e-3, 8e-3)]),
        ("sigmoid", sigmoid, [(3e-11, 2e-10), (4e-7, 2e-6), (3e-4, 8e-4)]),
    ];
    for (name, f, bounds) in table {
        let activation = Activation::find(name).unwrap();
        for (s, (on_mean, on_variance)) in [0.5, 1.0, 2.0].into_iter().zip(bounds) {
            let mut worst = (0.0f64, 0.0f64);
            for mu in places(s) {
                let ((m, v), (mean, variance)) = (of_activation(activation, mu, s), by_quadrature(f, mu, s));
                worst = (worst.0.max((m - mean).abs()), worst.1.max((v - variance).abs()));
            }
            println!("{name} s = {s}: {:.1e} {:.1e}", worst.0, worst.1);
            assert!(worst.0 < on_mean && worst.1 < on_variance, "{name} s = {s}: {worst:?}");
            // And the table does not make it worse than it is.
            assert!(worst.0 > 0.3 * on_mean && worst.1 > 0.3 * on_variance, "{name} s = {s}: {worst:?}");
        }
    }
}

#[test]
fn no_variance_means_a_plain_pass_in_single_precision_too() {
    for (_, activation) in ACTIVATIONS {
        let network = build("7,5", *activation, 4, 2);
        let (mean, _) = beliefs(&network, 0.5);
        let (mean, x): (Vec<f32>, Vec<f32>) =
            (mean.iter().map(|m| *m as f32).collect(), normals(2, 9 * 4).iter().map(|v| *v as f32).collect());
        let x = MatRef::new(&x, 9, 4);
        let mut ws = posterior::nn::Network::<f32>::workspace(&network, 9);
        let pass = Pass { mode: Mode::Plain, layer: 0, first_row: 0, threads: Threads::One };
        let plain = posterior::nn::Network::<f32>::forward(&network, mean[..].into(), x, &pass, &mut ws).data.to_vec();
        let moments = MomentsNetwork::new(&network, "").unwrap();
        let mut space = moments.space(9, true);
        for variance in [vec![0.0f32; mean.len()], vec![1e-18; mean.len()]] {
            let mut second = vec![0.0; mean.len()];
            second_moments(&mean, &variance, &mut second);
            let w = Gaussians { mean: &mean, variance: &variance, second: &second };
            let f = moments.forward(w, x, Threads::One, &mut space);
            // f32 sums of a dozen terms; TINY gives activations a standard deviation of 1e-8.
            f.mean.iter().zip(&plain).for_each(|(m, p)| assert!((m - p).abs() < 3e-6, "{activation:?}: {m} for {p}"));
            assert!(f.variance.iter().all(|v| (0.0..1e-11).contains(v)), "{activation:?}: {:?}", f.variance);
            f.d_mean.fill(1.0);
            f.d_variance.fill(1.0);
            let (mut centre, mut spread) = (vec![0.0; mean.len()], vec![0.0; mean.len()]);
            let grad = Gradient { centre: &mut centre, spread: &mut spread };
            moments.backward(w, x, Threads::One, &mut space, grad, false);
            assert!(centre.iter().chain(&spread).all(|d| d.is_finite()), "{activation:?}");
        }
    }
}

/// Outputs of `count` draws of the weights at one row.
fn drawn(network: &Sequential, mean: &[f64], variance: &[f64], x: &[f64], count: usize) -> Vec<f64> {
    let mut ws = posterior::nn::Network::<f64>::workspace(network, 1);
    let pass = Pass { mode: Mode::Plain, layer: 0, first_row: 0, threads: Threads::One };
    let x = MatRef::new(x, 1, x.len());
    let mut w = vec![0.0; mean.len()];
    let mut draw = |s: usize| {
        fill_normals(Key::new(77).step(s as u64), &mut w);
        w.iter_mut().zip(mean.iter().zip(variance)).for_each(|(w, (m, v))| *w = m + v.sqrt() * *w);
        posterior::nn::Network::<f64>::forward(network, w[..].into(), x, &pass, &mut ws).data[0]
    };
    (0..count).map(&mut draw).collect()
}

#[test]
fn one_hidden_layer_has_the_moments_of_draws() {
    // Hidden units have weights of their own: given the input they are independent, and moments are exact for relu. For tanh the
    // pre-activations have s of about 0.5, where the quadrature is off by 1e-5, below what so many draws see.
    for activation in [Activation::Relu, Activation::Tanh, Activation::Gelu] {
        let network = build("20", activation, 3, 1);
        let (mean, variance) = beliefs(&network, 0.4);
        for x in normals(3, 9).chunks(3) {
            let (m, v) = forward(&network, &mean, &variance, x);
            let f = drawn(&network, &mean, &variance, x, 40_000);
            // Standard errors: variance to 0.7 %, mean to 0.5 % of the standard deviation.
            assert!(z_mean(&f, m[0]).abs() < 5.0, "{activation:?}: z of the mean {}", z_mean(&f, m[0]));
            assert!(z_variance(&f, v[0]).abs() < 5.0, "{activation:?}: z of the variance {}", z_variance(&f, v[0]));
        }
    }
}

#[test]
fn deeper_layers_are_biased_by_independence_as_much_as_stated() {
    // Units of the second hidden layer share the noise of the first one's: treating them as independent leaves their covariances out
    // of the variance, with either sign. Measured: at most 0.11 of it for relu, 0.08 for tanh, and 0.01 standard deviations of
    // the mean; the bounds add five standard errors of so many draws to the mean (0.035) and two to the variance (0.02).
    for (activation, std, on_mean, on_variance) in [
        (Activation::Relu, 0.1, 0.045, 0.13),
        (Activation::Relu, 0.4, 0.045, 0.13),
        (Activation::Tanh, 0.1, 0.045, 0.1),
        (Activation::Tanh, 0.4, 0.045, 0.1),
    ] {
        let network = build("20,20", activation, 3, 1);
        let (mean, variance) = beliefs(&network, std);
        for x in normals(3, 9).chunks(3) {
            let (m, v) = forward(&network, &mean, &variance, x);
            let f = drawn(&network, &mean, &variance, x, 20_000);
            let count = f.len() as f64;
            let centre = f.iter().sum::<f64>() / count;
            let spread = f.iter().map(|f| (f - centre).powi(2)).sum::<f64>() / (count - 1.0);
            let (off_mean, off_variance) = ((m[0] - centre) / spread.sqrt(), v[0] / spread - 1.0);
            println!("{activation:?} {std}: mean off by {off_mean:.3} std, variance by {off_variance:.3}");
            assert!(off_mean.abs() < on_mean && off_variance.abs() < on_variance, "{activation:?} {std}");
        }
    }
}

fn problem(network: &str, activation: Activation, likelihood: &str, rows: usize) -> Problem {
    let entry = posterior::likelihood::find(likelihood).unwrap();
    let mut stream = Stream::new(Key::new(5));
    let classes = if likelihood == "categorical" { 3 } else { 2 };
    let recipe = Recipe {
        network: NetworkSpec::parse(network, activation).unwrap(),
        likelihood: Choice::named(likelihood),
        ..Recipe::default()
    };
    let y: Vec<f64> = (0..rows)
        .map(|_| match entry.outcome {
            Outcome::Real => stream.normal(),
            _ => stream.below(classes) as f64,
        })
        .collect();
    let width = if entry.outcome == Outcome::Class { classes as usize } else { 1 };
    let resolved = recipe.resolve_for(Shape::Flat(2), entry.outcome, width).unwrap();
    let mut data = Dataset::new(Values::F64(normals(6, rows * 2).into()), Shape::Flat(2), y, 1);
    data.weights = Some((0..rows).map(|i| 0.5 + (i % 3) as f64).collect());
    resolved.problem(data).unwrap()
}

/// The objective and its gradient in means and log-variances.
fn objective(problem: &Problem, rows: Rows<'_>, point: &[f64]) -> (f64, Vec<f64>) {
    let dim = problem.dim();
    let mut density = MomentsDensity::<f64>::new(problem, problem.data().rows).unwrap();
    let variance: Vec<f64> = point[dim..].iter().map(|l| l.exp()).collect();
    let mut gradient = vec![0.0; 2 * dim];
    let (centre, spread) = gradient.split_at_mut(dim);
    let value = density.expected_log_likelihood(&point[..dim], &variance, rows, Gradient { centre, spread });
    gradient[dim..].iter_mut().zip(&variance).for_each(|(g, v)| *g *= v);
    (value, gradient)
}

#[test]
fn the_gradient_of_the_objective_agrees_with_finite_differences() {
    let batch = [3u32, 0, 7, 7, 1];
    let mut cases = vec![("3,4", Activation::Relu, "gaussian"), ("linear", Activation::Relu, "student-t")];
    cases.extend(ACTIVATIONS.iter().map(|(_, a)| ("4,3", *a, "categorical")));
    cases.extend(LIKELIHOODS.iter().map(|l| ("4,3", Activation::Tanh, l.name)));
    for (network, activation, likelihood) in cases {
        let problem = problem(network, activation, likelihood, 9);
        let dim = problem.dim();
        let mut point = normals(7, 2 * dim);
        point[..dim].iter_mut().for_each(|m| *m *= 0.6);
        point[dim..].iter_mut().for_each(|l| *l = -2.5 + 0.3 * *l);
        for rows in [Rows::All, Rows::Batch(&batch)] {
            // Richardson's error at h = 1e-3·|ln v| for functions whose fourth derivatives are some hundreds.
            let f = |p: &[f64]| objective(&problem, rows, p);
            if let Err(e) = check_gradient(f, &point, 1e-7) {
                panic!("{network} {activation:?} {likelihood}: {e}");
            }
        }
    }
}

#[test]
fn teams_add_up_to_the_same_gradient() {
    // 300 rows are three chunks, dealt to three teams: the sum of what batches of 100 give, each scaled by 3.
    let problem = problem("6", Activation::Relu, "gaussian", 300);
    let dim = problem.dim();
    let point: Vec<f64> =
        normals(7, 2 * dim).iter().enumerate().map(|(i, z)| if i < dim { *z } else { -3.0 }).collect();
    let (value, gradient) = objective(&problem, Rows::All, &point);
    let (mut sum, mut total) = (0.0, vec![0.0; 2 * dim]);
    for part in 0..3u32 {
        let rows: Vec<u32> = (100 * part..100 * (part + 1)).collect();
        let (v, g) = objective(&problem, Rows::Batch(&rows), &point);
        sum += v / 3.0;
        total.iter_mut().zip(&g).for_each(|(t, g)| *t += g / 3.0);
    }
    // Rounding.
    assert!((value / sum - 1.0).abs() < 1e-12);
    gradient.iter().zip(&total).for_each(|(a, b)| assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} for {b}"));
}

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
        let (m, s) = fit.posterior.as_prior().unwrap();
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
        pool.install(|| moments.predict(&x).outputs(7).to_vec())
    };
    let one = run(1);
    assert!(one == run(2) && one == run(4));
    // Rows do not know of each other.
    let few = Values::F64(normals(11, 2 * 1000)[2 * 600..2 * 610].into());
    assert_eq!(moments.predict(&few).outputs(7), &one[600..610]);
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

#[test]
fn a_kink_of_relu_does_no_harm_to_gradients() {
    // Far on either side of 0 in units of s, and at 0 itself.
    let problem = problem("2", Activation::Relu, "gaussian", 9);
    let dim = problem.dim();
    for bias in [-3.0, 0.0, 3.0] {
        let mut point = normals(7, 2 * dim);
        point[..4].iter_mut().for_each(|m| *m *= 0.1);
        point[4..6].fill(bias);
        point[dim..].fill(-4.0);
        expect_gradient(|p| objective(&problem, Rows::All, p), &point, 1e-6);
    }
}
