//! Finite-difference gradients of the log joint in f64, for every layer × likelihood × prior of the tables.

use posterior::data::{Dataset, Values};
use posterior::likelihood::{LIKELIHOODS, Outcome};
use posterior::model::{Choice, Recipe};
use posterior::nn::{ACTIVATIONS, Gradient, Mode, NetworkSpec, Noisy, RowNoise, Shape, Weights};
use posterior::prior::PRIORS;
use posterior::problem::{Problem, Rows};
use posterior::rng::{Key, Stream, fill_normals};
use posterior_testing::gradient::expect_gradient;

const ROWS: usize = 7;
/// Central differences with extrapolation are good to about 1e-9 of the value's size here; kinks are avoided by chance.
const TOLERANCE: f64 = 1e-6;

/// Networks that between them hold every layer there is.
fn networks() -> Vec<(String, Shape, NetworkSpec)> {
    let flat = Shape::Flat(3);
    let image = Shape::Image { channels: 2, height: 6, width: 5 };
    let mut all: Vec<(String, Shape, NetworkSpec)> = ACTIVATIONS
        .iter()
        .map(|(name, a)| ((*name).to_owned(), flat, NetworkSpec::parse("4,3", *a).unwrap()))
        .collect();
    let texts = [
        ("linear", flat, "layers = []"),
        (
            "conv and pools",
            image,
            r#"layers = [{ kind = "conv", channels = 3, kernel = 3, padding = 1, activation = "tanh" },
                         { kind = "max-pool", size = 2 }, { kind = "conv", channels = 2, kernel = 2, activation = "silu" },
                         { kind = "avg-pool", size = 1 }, { kind = "flatten" }, { kind = "dense", units = 4 },
                         { kind = "activation", activation = "gelu" }]"#,
        ),
        (
            "strides, separate max-pool and average",
            image,
            r#"layers = [{ kind = "conv", channels = 2, kernel = 3, stride = 2, padding = 2, activation = "gelu" },
                         { kind = "max-pool", size = 2 }, { kind = "avg-pool", size = 1 }]"#,
        ),
        (
            "fixed features, of inputs and of units",
            flat,
            r#"layers = [{ kind = "polynomial", degree = 3 }, { kind = "dense", units = 2, activation = "tanh" },
                         { kind = "fourier", frequencies = 2, period = 4.0 }, { kind = "dense", units = 3 },
                         { kind = "polynomial", degree = 2 }, { kind = "dense", units = 2, activation = "tanh" },
                         { kind = "random-features", count = 7, length_scale = 0.8 }]"#,
        ),
        (
            "residual and dropout",
            flat,
            r#"layers = [{ kind = "dense", units = 4, activation = "tanh" }, { kind = "dropout", rate = 0.3 },
                         { kind = "residual", layers = [{ kind = "dense", units = 5, activation = "sigmoid" },
                                                        { kind = "dropout", rate = 0.2 }, { kind = "dense", units = 4 }] }]"#,
        ),
    ];
    for (name, shape, text) in texts {
        all.push((name.to_owned(), shape, toml::from_str(text).unwrap()));
    }
    all
}

fn problem(shape: Shape, network: NetworkSpec, likelihood: &str, prior: &str) -> Problem {
    let entry = posterior::likelihood::find(likelihood).unwrap();
    let width = match likelihood {
        "bernoulli" => 2,
        "categorical" => 3,
        _ => 2, // two targets where there can be more than one
    };
    let recipe =
        Recipe { network, likelihood: Choice::named(likelihood), prior: Choice::named(prior), ..Recipe::default() };
    let resolved = recipe.resolve_for(shape, entry.outcome, width).unwrap();
    let targets = resolved.likelihood.targets();
    let mut x = vec![0.0f64; ROWS * shape.len()];
    fill_normals(Key::new(11), &mut x);
    let mut stream = Stream::new(Key::new(12));
    let y = (0..ROWS * targets)
        .map(|_| match entry.outcome {
            Outcome::Real => stream.normal(),
            Outcome::Class => stream.below(width as u64) as f64,
            _ => stream.below(5) as f64,
        })
        .collect();
    let mut data = Dataset::new(Values::F64(x.into()), shape, y, targets);
    data.weights = Some((0..ROWS).map(|i| 0.5 + 0.25 * i as f64).collect());
    resolved.problem(data).unwrap()
}

fn check(name: &str, problem: &Problem, rows: Rows<'_>) {
    let mut density = problem.density::<f64>(ROWS);
    let w: Vec<f64> = {
        let mut z = vec![0.0f64; problem.dim()];
        fill_normals(Key::new(13), &mut z);
        // Away from 0, where the scale mixture has a spike and the log-uniform prior a kink, both too narrow for differences.
        z.iter().map(|v| 0.05 * v.signum() + 0.4 * v).collect()
    };
    let mode = Mode::Train(Key::new(14));
    let f = |w: &[f64]| {
        let mut g = vec![0.0; w.len()];
        let value = density.log_joint(w, rows, mode, Some(&mut g));
        (value, g)
    };
    println!("{name}: {} parameters", w.len());
    expect_gradient(f, &w, TOLERANCE);
}

#[test]
fn every_layer_with_every_likelihood_and_prior() {
    for (name, shape, network) in networks() {
        for likelihood in LIKELIHOODS {
            for prior in PRIORS {
                let problem = problem(shape, network.clone(), likelihood.name, prior.name);
                check(&format!("{name}, {}, {}", likelihood.name, prior.name), &problem, Rows::All);
            }
        }
    }
}

/// Local reparameterisation and flipout: gradients in means and in spreads, noise held by its key.
#[test]
fn every_layer_with_noise_by_row() {
    for (name, shape, network) in networks() {
        for likelihood in ["gaussian", "categorical"] {
            for noise in [RowNoise::Local, RowNoise::Flipout] {
                let problem = problem(shape, network.clone(), likelihood, "normal");
                let mut density = problem.density::<f64>(ROWS);
                let (dim, size) = (problem.dim(), problem.network().layout().len());
                let mut w = vec![0.0f64; dim + size];
                // With key 15 a kink of relu lies within the step of a difference.
                fill_normals(Key::new(315), &mut w);
                w.iter_mut().for_each(|v| *v *= 0.4);
                // Variances away from 0, where the root has no slope.
                w[dim..].iter_mut().for_each(|v| *v = 0.05 + v.abs());
                let f = |w: &[f64]| {
                    let mut spread = w[dim..].to_vec();
                    spread.resize(dim, 0.0);
                    let weights = Weights::Noisy(Noisy { noise, mean: &w[..dim], spread: &spread });
                    let (mut g, mut d_spread) = (vec![0.0; dim], vec![f64::NAN; dim]);
                    let gradient = Gradient { centre: &mut g, spread: &mut d_spread };
                    let mode = Mode::Train(Key::new(16));
                    let value = density.log_likelihood_of(weights, Rows::Batch(&[5, 0, 3, 2]), mode, Some(gradient));
                    assert!(d_spread[size..].iter().all(|d| *d == 0.0), "the likelihood's parameters have no spread");
                    g.extend_from_slice(&d_spread[..size]);
                    (value, g)
                };
                println!("{name}, {likelihood}, {noise:?}: {dim} parameters");
                expect_gradient(f, &w, TOLERANCE);
            }
        }
    }
}

#[test]
fn every_prior_with_every_likelihood_on_a_mini_batch() {
    for prior in PRIORS {
        for likelihood in LIKELIHOODS {
            let (_, shape, network) = networks().remove(1);
            let problem = problem(shape, network, likelihood.name, prior.name);
            check(&format!("{}, {}", prior.name, likelihood.name), &problem, Rows::Batch(&[5, 0, 3]));
        }
    }
}

/// Teams that work through several chunks, and large networks cut into chunks, give the sum over their rows.
#[test]
fn chunks_and_teams_add_up() {
    use posterior::nn::Activation;
    const MANY: usize = 5000;
    let image = Shape::Image { channels: 1, height: 6, width: 6 };
    let conv = r#"layers = [{ kind = "conv", channels = 3, kernel = 3, activation = "tanh" }, { kind = "max-pool", size = 2 }]"#;
    for (shape, network) in [
        (Shape::Flat(3), NetworkSpec::parse("5", Activation::Tanh).unwrap()),
        (Shape::Flat(3), NetworkSpec::parse("300,300", Activation::Tanh).unwrap()), // over 2^16 parameters: large
        (image, toml::from_str(conv).unwrap()),
    ] {
        let recipe = Recipe { network, ..Recipe::default() };
        let resolved = recipe.resolve_for(shape, Outcome::Real, 1).unwrap();
        let mut x = vec![0.0f64; MANY * shape.len()];
        fill_normals(Key::new(21), &mut x);
        let y = (0..MANY).map(|i| (i as f64).sin()).collect();
        let problem = resolved.problem(Dataset::new(Values::F64(x.into()), shape, y, 1)).unwrap();
        let w: Vec<f64> = problem.initial(Key::new(22)).iter().map(|v| f64::from(*v)).collect();
        let mut whole = vec![0.0; w.len()];
        let value = problem.density::<f64>(MANY).log_likelihood(&w, Rows::All, Mode::Plain, Some(&mut whole));
        let (mut sum, mut sums) = (0.0, vec![0.0; w.len()]);
        let mut density = problem.density::<f64>(100);
        let mut part = vec![0.0; w.len()];
        for from in (0..MANY as u32).step_by(100) {
            let rows: Vec<u32> = (from..from + 100).collect();
            // A batch is scaled by N/|B| = 50.
            sum += density.log_likelihood(&w, Rows::Batch(&rows), Mode::Plain, Some(&mut part)) / 50.0;
            sums.iter_mut().zip(&part).for_each(|(s, p)| *s += p / 50.0);
        }
        assert!((value / sum - 1.0).abs() < 1e-11);
        let size = sums.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        assert!(whole.iter().zip(&sums).all(|(a, b)| (a - b).abs() < 1e-10 * size));
        noise_is_the_rows_own(&problem, &w);
    }
}

/// With noise by row, a row's noise is the same however rows are cut into chunks and teams.
fn noise_is_the_rows_own(problem: &Problem, w: &[f64]) {
    let rows: Vec<u32> = (0..300).collect();
    let spread = vec![0.01; w.len()];
    for noise in [RowNoise::Local, RowNoise::Flipout] {
        let of = |max_rows: usize| {
            let weights = Weights::Noisy(Noisy { noise, mean: w, spread: &spread });
            let mut g = vec![0.0; 2 * w.len()];
            let (centre, d_spread) = g.split_at_mut(w.len());
            let gradient = Gradient { centre, spread: d_spread };
            let mode = Mode::Train(Key::new(23));
            let mut density = problem.density::<f64>(max_rows);
            let value = density.log_likelihood_of(weights, Rows::Batch(&rows), mode, Some(gradient));
            (value, g)
        };
        // 128 rows announced: one team with chunks of 128; 5000: several teams. Only the order of sums differs.
        let ((a, ga), (b, gb)) = (of(128), of(5000));
        assert!((a / b - 1.0).abs() < 1e-11, "{a} and {b}");
        let size = ga.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        assert!(ga.iter().zip(&gb).all(|(a, b)| (a - b).abs() < 1e-10 * size));
    }
}
