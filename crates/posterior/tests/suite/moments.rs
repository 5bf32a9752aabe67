//! Moments through dense layers against closed forms, quadrature and draws; and the objective's gradient.

use posterior::data::{Dataset, Values};
use posterior::likelihood::{LIKELIHOODS, Outcome};
use posterior::math::{MatRef, Threads};
use posterior::model::{Choice, Recipe};
use posterior::nn::{
    ACTIVATIONS, Activation, AnyNetwork, Dense, Embedding, Gaussians, Gradient, Graph, Mode, MomentsNetwork,
    NetworkSpec, Op, Pass, Shape, second_moments,
};
use posterior::problem::{MomentsDensity, Problem, Rows};
use posterior::rng::{Key, Stream, fill_normals};
use posterior_testing::{check_gradient, expect_gradient, z_mean, z_variance};

fn build(network: &str, activation: Activation, inputs: usize, outputs: usize) -> Graph {
    NetworkSpec::parse(network, activation).unwrap().build(Shape::Flat(inputs), outputs).unwrap()
}

/// Means and variances of a network's parameters: weights of spread 1/√fan-in, standard deviations `std` times that.
fn beliefs(network: &Graph, std: f64) -> (Vec<f64>, Vec<f64>) {
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

fn forward(network: &Graph, mean: &[f64], variance: &[f64], x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let moments = MomentsNetwork::new(network, "").unwrap();
    let (rows, mut second) = (x.len() / moments.inputs(), vec![0.0; mean.len()]);
    second_moments(mean, variance, &mut second);
    let mut space = moments.space(rows, false);
    let x = MatRef::new(x, rows, moments.inputs());
    let f = moments.forward(Gaussians { mean, variance, second: &second }, x, Threads::One, &mut space);
    (f.mean.to_vec(), f.variance.to_vec())
}

pub fn normals(key: u64, count: usize) -> Vec<f64> {
    let mut x = vec![0.0; count];
    fill_normals(Key::new(key), &mut x);
    x
}

/// An embedding is a dense layer without bias on one-hot rows: the same moments, and the same gradients.
#[test]
fn an_embedding_is_its_one_hot_layer() {
    let (categories, size, rows, outputs) = (4, 3, 9, 2);
    let tail = || {
        [
            Op::affine(Dense::new(Shape::Flat(size), 5, Activation::Tanh)),
            Op::affine(Dense::new(Shape::Flat(5), outputs, Activation::Identity)),
        ]
    };
    let chain = |first: Op| Graph::chain([first].into_iter().chain(tail()).collect()).unwrap();
    let indexed = chain(Op::affine(Embedding::new(Shape::Flat(1), categories, size).unwrap()));
    let hot = chain(Op::affine(Dense::new(Shape::Flat(categories), size, Activation::Identity)));
    let (mean, variance) = beliefs(&indexed, 0.4);
    let cut = categories * size;
    let with_bias = |v: &[f64]| [&v[..cut], &vec![0.0; size], &v[cut..]].concat();
    let index: Vec<f64> = (0..rows).map(|n| (n * 3 % categories) as f64).collect();
    let one_hot: Vec<f64> =
        index.iter().flat_map(|c| (0..categories).map(move |j| if j as f64 == *c { 1.0 } else { 0.0 })).collect();
    let run = |network: &Graph, mean: &[f64], variance: &[f64], x: &[f64]| {
        let moments = MomentsNetwork::new(network, "").unwrap();
        let mut second = vec![0.0; mean.len()];
        second_moments(mean, variance, &mut second);
        let (mut space, w) = (moments.space(rows, true), Gaussians { mean, variance, second: &second });
        let x = MatRef::new(x, rows, moments.inputs());
        let f = moments.forward(w, x, Threads::One, &mut space);
        let out = [f.mean, f.variance].concat();
        f.d_mean.copy_from_slice(&normals(3, rows * outputs));
        f.d_variance.copy_from_slice(&normals(4, rows * outputs));
        let (mut centre, mut spread) = (vec![f64::NAN; mean.len()], vec![f64::NAN; mean.len()]);
        let grad = Gradient { centre: &mut centre, spread: &mut spread };
        moments.backward(w, x, Threads::One, &mut space, grad, false);
        (out, centre, spread)
    };
    let a = run(&indexed, &mean, &variance, &index);
    let b = run(&hot, &with_bias(&mean), &with_bias(&variance), &one_hot);
    // Sums of some ten terms in another order.
    let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-13 * (1.0 + b.abs()));
    let without_bias = |v: &[f64]| [&v[..cut], &v[cut + size..]].concat();
    assert!(close(&a.0, &b.0) && close(&a.1, &without_bias(&b.1)) && close(&a.2, &without_bias(&b.2)));
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
fn drawn(network: &Graph, mean: &[f64], variance: &[f64], x: &[f64], count: usize) -> Vec<f64> {
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

pub fn problem(network: &str, activation: Activation, likelihood: &str, rows: usize) -> Problem {
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
pub fn objective(problem: &Problem, rows: Rows<'_>, point: &[f64]) -> (f64, Vec<f64>) {
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
