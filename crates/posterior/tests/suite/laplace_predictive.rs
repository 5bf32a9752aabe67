//! Laplace's draws and densities against the covariance, and its linearised predictive by brute force.

use crate::laplace::{STRUCTURES, fit, options, text, toy, wide};
use posterior::data::{Dataset, Values};
use posterior::inference::{LaplaceApproximation, LaplaceOptions};
use posterior::likelihood::Outcome;
use posterior::math::MatRef;
use posterior::model::Recipe;
use posterior::nn::{Mode, Shape};
use posterior::posterior::Posterior;
use posterior::predict::{LinearisedPredictor, Link, NetworkPredictor, Outputs, Predictor, TargetScale};
use posterior::problem::Problem;
use posterior::problem::curvature::{Structure, Subset};
use posterior::rng::{Key, fill_normals};
use posterior::settings::Value;
use std::sync::Arc;

/// Second moments of 40 000 draws against the covariance: a root taken from the wrong side has the right diagonal sum and fails here.
#[test]
fn draws_have_the_covariance() {
    let problem = toy("4", "categorical", 50);
    let w = wide(&problem.initial(Key::new(5)));
    let subset = Subset::all(&**problem.network()).unwrap();
    let n = subset.len();
    for structure in STRUCTURES {
        let mut laplace = LaplaceApproximation::new(&problem, w.clone(), &subset, options(structure)).unwrap();
        let covariance = laplace.covariance().unwrap();
        let q = laplace.posterior().unwrap();
        let (draws, mut sums) = (40_000, vec![0.0; n * n]);
        for s in 0..draws {
            let d: Vec<f64> = wide(&q.draw(Key::new(s)).w).iter().zip(&w).map(|(a, b)| a - b).collect();
            for i in 0..n {
                (0..n).for_each(|j| sums[i * n + j] += d[i] * d[j]);
            }
        }
        let mut worst = 0.0_f64;
        for i in 0..n {
            for j in 0..n {
                let (v, c) = (covariance[i * n + i] * covariance[j * n + j], covariance[i * n + j]);
                // Var[dᵢdⱼ] = ΣᵢᵢΣⱼⱼ + Σᵢⱼ²
                let z = (sums[i * n + j] / draws as f64 - c) / ((v + c * c) / draws as f64).sqrt();
                worst = worst.max(z.abs());
            }
        }
        // 27² products: the largest of so many standard normals is below 5 but once in 10⁴.
        assert!(worst < 5.0, "{structure:?}: {worst}");
    }
}

/// A number and the index of one of three categories, whose vector stands beside the number.
fn categories() -> Problem {
    let text = r#"layers = [{ kind = "graph", nodes = [{ name = "x", kind = "select", columns = [0], from = ["input"] },
        { kind = "select", columns = [1], from = ["input"] }, { name = "c", kind = "embedding", categories = 3, size = 2 },
        { kind = "concat", from = ["x", "c"] }, { kind = "dense", units = 3, activation = "tanh" }] }]"#;
    let recipe = Recipe { network: toml::from_str(text).unwrap(), ..Recipe::default() };
    let mut x = vec![0.0; 2 * 20];
    fill_normals(Key::new(1), &mut x);
    x.iter_mut().skip(1).step_by(2).enumerate().for_each(|(i, v)| *v = (i % 3) as f64);
    let y = (0..20).map(|i| f64::from(i % 3)).collect();
    let resolved = recipe.resolve_for(Shape::Flat(2), Outcome::Class, 3).unwrap();
    resolved.problem(Dataset::new(Values::F64(x.into()), Shape::Flat(2), y, 1)).unwrap()
}

/// J Σ Jᵀ with J by finite differences of the outputs.
#[test]
fn linearised_moments_are_brute_force() {
    let image = r#"layers = [{ kind = "conv", channels = 2, kernel = 2, activation = "tanh" }, { kind = "max-pool", size = 2 }, { kind = "flatten" },
        { kind = "residual", layers = [{ kind = "dense", units = 2, activation = "gelu" }] }]"#;
    let conv = Recipe { network: toml::from_str(image).unwrap(), ..Recipe::default() };
    let shape = Shape::Image { channels: 1, height: 3, width: 3 };
    let mut x = vec![0.0; 20 * 9];
    fill_normals(Key::new(1), &mut x);
    let y = (0..20).map(|i| f64::from(i % 3)).collect();
    let resolved = conv.resolve_for(shape, Outcome::Class, 3).unwrap();
    let conv = resolved.problem(Dataset::new(Values::F64(x.into()), shape, y, 1)).unwrap();
    for problem in
        [toy("4,3", "categorical", 30), toy("3", "heteroscedastic", 30), toy("4", "gaussian", 30), conv, categories()]
    {
        let w = wide(&problem.initial(Key::new(5)));
        let (width, k) = (problem.network().input().len(), problem.network().outputs());
        let x = problem.data().x.to::<f64>()[..4 * width].to_vec();
        let outputs = |w: &[f64]| {
            let network: &dyn posterior::nn::Network<f64> = &**problem.network();
            let size = problem.network().layout().len();
            let mut ws = network.workspace(4);
            let pass = posterior::nn::Pass {
                mode: Mode::Plain,
                layer: 0,
                first_row: 0,
                threads: posterior::math::Threads::One,
            };
            network.forward(w[..size].into(), MatRef::new(&x, 4, width), &pass, &mut ws).data.to_vec()
        };
        for (last, separate) in [(false, false), (false, true), (true, false)] {
            let network = &**problem.network();
            let subset = if last { Subset::last_layer(network) } else { Subset::all(network) }.unwrap();
            let (range, n) = (subset.range(), subset.len());
            let mut jacobian = vec![0.0; 4 * k * n];
            for p in 0..n {
                let moved = |h: f64| {
                    let mut w = w.clone();
                    w[range.start + p] += h;
                    outputs(&w)
                };
                let (up, down) = (moved(1e-5), moved(-1e-5));
                (0..4 * k).for_each(|o| jacobian[o * n + p] = (up[o] - down[o]) / 2e-5);
            }
            for structure in STRUCTURES {
                let options = LaplaceOptions { separate_bias: separate, ..options(structure) };
                let mut laplace = LaplaceApproximation::new(&problem, w.clone(), &subset, options).unwrap();
                let covariance = laplace.covariance().unwrap();
                let (network, likelihood) = (problem.network().clone(), problem.likelihood().clone());
                let q = laplace.posterior().unwrap();
                let predictor =
                    LinearisedPredictor::new(network, likelihood, &q, 400, Link::Average, TargetScale::default())
                        .unwrap();
                let (mean, got) = predictor.moments(&Values::F64(x.clone().into()));
                // The covariance of one unit, whole or as one Kronecker block, has its pass in f32: some ten roundings of numbers near 1.
                let single = last && k == 1 && structure != Structure::Diagonal;
                let rounding = if single { 10.0 * f64::from(f32::EPSILON) } else { 1e-12 };
                assert!(mean.iter().zip(outputs(&w)).all(|(a, b)| (a - b).abs() < rounding));
                for row in 0..4 {
                    let entry = |a: usize, b: usize| {
                        let (ja, jb) = (&jacobian[(row * k + a) * n..][..n], &jacobian[(row * k + b) * n..][..n]);
                        (0..n * n).map(|i| ja[i / n] * covariance[i] * jb[i % n]).sum::<f64>()
                    };
                    let scale = (0..k).map(|a| entry(a, a)).fold(0.0, f64::max);
                    for i in 0..k * k {
                        let expected = entry(i / k, i % k);
                        let off = (got[row * k * k + i] - expected).abs();
                        // Differences are good to 1e-9, what is kept of Σ to 1e-6.
                        assert!(off < 1e-5 * scale, "{structure:?} last {last}: {off} of {scale}");
                    }
                }
                // The predictive keeps these moments: as they are, or, up to f32, over its points.
                let predictive = predictor.predict(&Values::F64(x.clone().into()));
                match predictive.outputs() {
                    Outputs::Gaussian(g) => assert_eq!((&g.mean, &g.covariance), (&mean, &got)),
                    Outputs::Draws(points) => {
                        let weights = points.weights.as_ref().unwrap();
                        for row in 0..4 {
                            let f = |s: usize, o: usize| f64::from(points.f[(s * 4 + row) * k + o]) - mean[row * k + o];
                            for i in 0..k * k {
                                let average: f64 =
                                    weights.iter().enumerate().map(|(s, w)| w * f(s, i / k) * f(s, i % k)).sum();
                                let v = got[row * k * k + i];
                                assert!(
                                    (average - v).abs() < 1e-4 * got[row * k * k + i / k * (k + 1)].max(v.abs()),
                                    "{average} {v}"
                                );
                            }
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[test]
fn the_density_of_a_draw_is_that_of_its_covariance() {
    let problem = toy("3", "categorical", 40);
    let w = wide(&problem.initial(Key::new(5)));
    let subset = Subset::all(&**problem.network()).unwrap();
    for structure in STRUCTURES {
        let mut laplace = LaplaceApproximation::new(&problem, w.clone(), &subset, options(structure)).unwrap();
        let normal =
            posterior::distribution::MultivariateNormal::new(w.clone(), &laplace.covariance().unwrap()).unwrap();
        let q = laplace.posterior().unwrap();
        let draw = q.draw(Key::new(9)).w;
        let expected = posterior::distribution::MultiDistribution::log_density(&normal, &wide(&draw));
        let got = q.log_density(&draw).unwrap();
        // Eigenvectors in f32 turn a z of about 1 by some 1e-6 each.
        assert!((got - expected).abs() < 1e-3, "{structure:?}: {got} for {expected}");
    }
}

/// Sampling and linearisation agree where the network is nearly linear in its weights: the last layer.
#[test]
fn draws_of_the_last_layer_agree_with_the_closed_form() {
    let problem = toy("5", "gaussian", 60);
    let given = [("epochs", Value::Int(100)), ("subset", text("last-layer"))];
    let q: Arc<dyn Posterior> = fit(&problem, &given).posterior.into();
    let x = Values::F64(vec![0.5, -1.0, 3.0, 2.0].into());
    let (network, likelihood) = (problem.network().clone(), problem.likelihood().clone());
    let draws = NetworkPredictor {
        network: network.clone(),
        likelihood: likelihood.clone(),
        posterior: q.clone(),
        draws: 20_000,
        key: Key::new(1),
        scale: TargetScale::default(),
    };
    let sampled = draws.predict(&x).real();
    let blocks = q.as_blocks().unwrap();
    let closed =
        LinearisedPredictor::new(network, likelihood, blocks, 100, Link::Average, TargetScale::default()).unwrap();
    let closed = closed.predict(&x).real();
    for n in 0..2 {
        let std = closed.epistemic[n].sqrt();
        // Five standard errors of a mean and of a variance of 20 000 draws.
        assert!((sampled.mean[n] - closed.mean[n]).abs() < 5.0 * std / 141.0);
        assert!((sampled.epistemic[n] / closed.epistemic[n] - 1.0).abs() < 5.0 / 100.0);
    }
}
