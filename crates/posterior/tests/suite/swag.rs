//! SWAG: moments of a path against closed forms, the spread of its draws, and the posterior of one weight.

use crate::linear_model::fit;
use posterior::data::{Dataset, Values};
use posterior::inference::PathMoments;
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::Posterior;
use posterior::problem::Problem;
use posterior::rng::{Key, Stream};
use posterior::settings::Value;

#[test]
fn moments_of_a_path_are_those_of_its_snapshots() {
    // Three snapshots of two parameters, written out; K = 2 keeps the last two deviations from the mean so far.
    let mut path = PathMoments::new(2, 2);
    for w in [[1.0f32, 10.0], [3.0, 10.0], [8.0, 4.0]] {
        path.collect(&w);
    }
    let q = path.posterior();
    assert_eq!(q.mean(), [4.0, 8.0]);
    // ½ of the variances 26/3 and 8, over T and not T − 1.
    for (std, variance) in q.std().iter().zip([26.0 / 3.0, 8.0f32]) {
        assert!((std * std - 0.5 * variance).abs() < 1e-5, "{std}");
    }
    // Deviations: 3 − 2, 10 − 10; 8 − 4, 4 − 8; over √(2(K − 1)) = √2. The third has taken the place of the first.
    let root = 2f32.sqrt();
    assert_eq!(q.rank(), 2);
    for (u, d) in q.factor().iter().zip([4.0, -4.0, 1.0, 0.0]) {
        assert!((u * root - d).abs() < 1e-6, "{:?}", q.factor());
    }
    // Fewer snapshots than K: as many columns as there are, and a parameter that never moved keeps a density.
    let mut path = PathMoments::new(1, 5);
    path.collect(&[2.0]);
    path.collect(&[2.0]);
    let q = path.posterior();
    assert!(q.rank() == 2 && q.mean() == [2.0] && q.std()[0] > 0.0 && q.std()[0] < 1e-9);
}

/// ½ diag σ² + D Dᵀ/(2(K − 1)): second moments of draws, also between parameters.
#[test]
fn draws_have_half_the_diagonal_and_half_the_low_rank() {
    const DRAWS: usize = 40_000;
    let mut stream = Stream::new(Key::new(2));
    let (mut path, mut kept) = (PathMoments::new(3, 4), Vec::new());
    let (mut sum, mut squares, count) = ([0.0f64; 3], [0.0f64; 3], 12);
    for t in 0..count {
        let shared = stream.normal();
        let w: [f64; 3] = [shared, -shared + 0.3 * stream.normal(), stream.normal()];
        path.collect(&w.map(|v| v as f32));
        (0..3).for_each(|i| (sum[i], squares[i]) = (sum[i] + w[i], squares[i] + w[i] * w[i]));
        kept.push(std::array::from_fn::<f64, 3, _>(|i| w[i] - sum[i] / (t + 1) as f64));
    }
    let mean = sum.map(|s| s / count as f64);
    let mut expected = [[0.0; 3]; 3];
    for i in 0..3 {
        expected[i][i] = 0.5 * (squares[i] / count as f64 - mean[i] * mean[i]);
        (0..3).for_each(|j| expected[i][j] += kept[count - 4..].iter().map(|d| d[i] * d[j]).sum::<f64>() / 6.0);
    }
    let q = path.posterior();
    let draws: Vec<Vec<f32>> = (0..DRAWS).map(|s| q.draw(Key::new(3).step(s as u64)).w).collect();
    for i in 0..3 {
        for j in 0..3 {
            let product = |w: &Vec<f32>| (f64::from(w[i]) - mean[i]) * (f64::from(w[j]) - mean[j]);
            let found = draws.iter().map(product).sum::<f64>() / DRAWS as f64;
            // The product of two normals has the variance C_ii C_jj + C_ij²; five errors.
            let error = ((expected[i][i] * expected[j][j] + expected[i][j].powi(2)) / DRAWS as f64).sqrt();
            assert!((found - expected[i][j]).abs() < 5.0 * error, "{i} {j}: {found} for {}", expected[i][j]);
        }
    }
}

/// y = b + noise: one weight that the data say something about, whose posterior is N(μ, 1/A), A = N/σ² + 1/s².
fn bias(rows: usize, noise: f64) -> (Problem, f64, f64) {
    let mut stream = Stream::new(Key::new(4));
    let y: Vec<f64> = (0..rows).map(|_| 0.7 + noise * stream.normal()).collect();
    let recipe = Recipe {
        network: NetworkSpec::parse("linear", Activation::Tanh).unwrap(),
        likelihood: Choice::named("gaussian")
            .with("noise", Value::Text("fixed".into()))
            .with("noise_std", Value::Float(noise)),
        ..Recipe::default()
    };
    let precision = rows as f64 / (noise * noise) + 1.0;
    let mean = y.iter().sum::<f64>() / (noise * noise) / precision;
    let resolved = recipe.resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap();
    let x = Values::F64(vec![0.0; rows].into());
    (resolved.problem(Dataset::new(x, Shape::Flat(1), y, 1)).unwrap(), mean, 1.0 / precision)
}

/// At the rate it chooses, the path of a single weight strays as far as the posterior: whatever the rows and the noise.
#[test]
fn the_path_of_one_weight_has_the_posteriors_variance() {
    for (rows, noise) in [(100, 0.5), (400, 0.5), (400, 2.0)] {
        let (problem, mean, variance) = bias(rows, noise);
        let settings = [
            ("epochs", Value::Int(400)),
            ("learning_rate", Value::Float(0.05)),
            ("swag_epochs", Value::Int(1000)),
            ("rank", Value::Int(100)),
        ];
        let fit = fit(&problem, "swag", &settings);
        let draws: Vec<f64> = (0..4000).map(|s| f64::from(fit.posterior.draw(Key::new(1).step(s)).w[1])).collect();
        let average = draws.iter().sum::<f64>() / draws.len() as f64;
        let spread = draws.iter().map(|d| (d - average).powi(2)).sum::<f64>() / draws.len() as f64;
        // The path's own variance is off by 1/(1 − batch/rows) = 1.11 and by Adam's estimate of v; 100 deviations have a relative error of
        // √(2/100), half of which counts. A rate of twice or half the right one doubles or halves it.
        assert!((average - mean).abs() < 5.0 * (variance / 300.0).sqrt(), "{rows} {noise}: {average} for {mean}");
        assert!((0.7..1.5).contains(&(spread / variance)), "{rows} {noise}: {spread} for {variance}");
    }
}

#[test]
fn several_members_are_a_mixture_and_one_is_a_gaussian() {
    let (problem, ..) = bias(60, 0.5);
    let common = [("epochs", Value::Int(20)), ("swag_epochs", Value::Int(5)), ("rank", Value::Int(3))];
    let one = fit(&problem, "swag", &common);
    assert_eq!(one.posterior.kind(), "low-rank");
    assert_eq!((one.summary.epochs, one.summary.trace.last().unwrap().epoch), (25, 25));
    assert_eq!(one.summary.steps, 20 + 5 * 10);
    let several = fit(&problem, "swag", &[common.to_vec(), vec![("members", Value::Int(3))]].concat());
    assert_eq!((several.posterior.kind(), several.summary.steps), ("mixture", 3 * 70));
}
