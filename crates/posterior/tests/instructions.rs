//! AVX2 and AVX-512 give the same bits: products of every shape, random numbers, and the fit of every method.
//!
//! One test in a process of its own, since the choice of instructions is the process's. On a machine without AVX-512 it says so and passes.
//! Factorisations of `faer` and the samplers of `nuts-rs` choose for themselves and are not reached by this choice: see the documents.

use posterior::data::{Dataset, Values};
use posterior::inference::{METHODS, Silent};
use posterior::likelihood::Outcome;
use posterior::math::simd::{Instructions, choose};
use posterior::math::{Mat, Real, Threads, gemm};
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::predict::{NetworkPredictor, Predictor, TargetScale};
use posterior::rng::{Key, Stream, fill_normals};
use posterior::settings::Value;
use std::sync::Arc;

fn both<T: PartialEq>(what: &str, mut run: impl FnMut() -> T) {
    let [narrow, wide] = [Instructions::Avx2, Instructions::Avx512].map(|instructions| {
        choose(instructions);
        run()
    });
    assert!(narrow == wide, "{what}: AVX2 and AVX-512 differ");
}

fn normals<R: Real>(seed: u64, len: usize) -> Vec<R> {
    let mut v = vec![0.0f64; len];
    fill_normals(Key::new(seed), &mut v);
    v.into_iter().map(R::of).collect()
}

/// Sizes at which kernels, blocks of sums and the choice of what is packed change over, all operands as they are and transposed.
fn products<R: Real + PartialEq>() {
    let sizes = [1, 2, 3, 16, 17, 50, 65, 130];
    for m in sizes {
        for n in sizes.into_iter().chain([500]) {
            for k in [1, 2, 3, 8, 17, 100, 256, 512, 513, 784, 1025, 1500] {
                if m * n * k > 20_000_000 {
                    continue;
                }
                let (a, b, start) = (normals::<R>(1, m * k), normals::<R>(2, k * n), normals::<R>(3, m * n));
                for (ta, tb) in [(false, false), (false, true), (true, false), (true, true)] {
                    both(&format!("{m} × {n} × {k}, transposed: {ta}, {tb}"), || {
                        let mut c = start.clone();
                        let left = if ta { Mat::transposed(&a, m) } else { Mat::rows_of(&a, k) };
                        let right = if tb { Mat::transposed(&b, k) } else { Mat::rows_of(&b, n) };
                        gemm((m, n, k), &mut c, true, left, right, Threads::Pool);
                        c
                    });
                }
            }
        }
    }
}

/// The method with settings that make its fit short, as far as it has them.
fn short(method: &str) -> Choice {
    let has = |name: &str| METHODS.iter().any(|m| m.name == method && m.settings.iter().any(|s| s.name == name));
    let int = |v| Value::Int(v);
    let mut all = vec![("epochs", int(2)), ("swag_epochs", int(2)), ("members", int(2)), ("batch_size", int(100))];
    if has("chains") {
        all.extend([("chains", int(2)), ("draws", int(3)), ("thin", int(2)), ("warmup", int(4))]);
        all.extend([("max_steps", int(4)), ("max_depth", int(3)), ("start", Value::Text("prior".into()))]);
    }
    if method == "annealing" {
        all.push(("steps", int(20)));
    }
    if method == "importance" {
        all.push(("draws", int(30)));
    }
    all.into_iter().filter(|(name, _)| has(name)).fold(Choice::named(method), |c, (name, value)| c.with(name, value))
}

fn fits(network: &NetworkSpec, shape: Shape, classes: usize, what: &str) {
    let rows = 130;
    let x = Values::F32(normals::<f32>(1, rows * shape.len()).into());
    let mut stream = Stream::new(Key::new(2));
    let y: Vec<f64> =
        (0..rows).map(|_| if classes == 0 { stream.normal() } else { stream.below(classes as u64) as f64 }).collect();
    let (outcome, width) = if classes == 0 { (Outcome::Real, 1) } else { (Outcome::Class, classes) };
    for method in METHODS {
        // The linear model has no hidden layers.
        let network = if method.name == "linear" { NetworkSpec { layers: Vec::new() } } else { network.clone() };
        let recipe = Recipe { network, method: short(method.name), ..Recipe::default() };
        let mut fitted = 0;
        both(&format!("{} on a {what} network", method.name), || {
            let resolved = recipe.resolve_for(shape, outcome, width).ok()?;
            let (network, likelihood) = (resolved.network.clone(), resolved.likelihood.clone());
            let method = resolved.method().unwrap();
            let problem = resolved.problem(Dataset::new(x.clone(), shape, y.clone(), 1)).unwrap();
            // A method that is not for this network says so.
            let fit = method.fit(&problem, Key::new(7), &mut Silent).ok()?;
            fitted += 1;
            let tensors = fit.posterior.tensors();
            let (posterior, key, scale) = (Arc::from(fit.posterior), Key::new(7), TargetScale::default());
            let predictive = NetworkPredictor { network, likelihood, posterior, draws: 2, key, scale }.predict(&x);
            Some((tensors, predictive.outputs().clone()))
        });
        assert!(fitted == 2 || what != "small", "{} was not fitted", method.name);
    }
}

#[test]
fn avx2_and_avx512_agree() {
    if Instructions::detected() != Instructions::Avx512 {
        eprintln!("skipped: this machine has no AVX-512");
        return;
    }
    products::<f32>();
    products::<f64>();
    for len in [1, 7, 1024, 5000] {
        both("normals", || normals::<f64>(4, len));
        both("normals in f32", || {
            let mut v = vec![0.0f32; len];
            fill_normals(Key::new(5), &mut v);
            v
        });
    }
    let parse = |t: &str| NetworkSpec::parse(t, Activation::Tanh).unwrap();
    fits(&parse("30"), Shape::Flat(5), 0, "small");
    let conv = r#"layers = [{ kind = "conv", channels = 6, kernel = 3, activation = "relu" }, { kind = "max-pool", size = 2 },
                            { kind = "dropout", rate = 0.2 }, { kind = "dense", units = 20, activation = "relu" }]"#;
    fits(&toml::from_str(conv).unwrap(), Shape::Image { channels: 1, height: 12, width: 12 }, 3, "convolutional");
}
