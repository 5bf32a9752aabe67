//! Ensembles, the Bayesian bootstrap: what members are, that predictions go through each once, and closed forms with their known bias.

use crate::linear_model::{DIM, Linear, fit};
use posterior::data::{Dataset, Values};
use posterior::inference::{Fit, Silent, bootstrap_weights, find};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::{MeanFieldPosterior, MixturePosterior, PointPosterior, Posterior, Tensor};
use posterior::predict::{NetworkPredictor, Predictor, TargetScale};
use posterior::problem::Problem;
use posterior::rng::{Key, Purpose, Stream};
use posterior::settings::Value;
use std::sync::Arc;

/// Rows of y = sin 2x + noise; heteroscedastic where the method says so.
fn problem(method: &str, rows: usize) -> Problem {
    let mut stream = Stream::new(Key::new(1));
    let x: Vec<f64> = (0..rows).map(|_| 1.5 * stream.normal()).collect();
    let y = x.iter().map(|x| (2.0 * x).sin() + 0.2 * stream.normal()).collect();
    let recipe = Recipe {
        network: NetworkSpec::parse("6", Activation::Tanh).unwrap(),
        method: Choice::named(method),
        ..Recipe::default()
    };
    let resolved = recipe.resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap();
    resolved.problem(Dataset::new(Values::F64(x.into()), Shape::Flat(1), y, 1)).unwrap()
}

/// The members' points.
fn points(fit: &Fit, members: usize) -> Vec<Vec<f32>> {
    let tensors = fit.posterior.tensors();
    let find = |k: usize| tensors.iter().find(|t: &&Tensor| t.name == format!("{k}.w")).unwrap().data.clone();
    (0..members).map(find).collect()
}

const SHORT: [(&str, Value); 2] = [("epochs", Value::Int(40)), ("members", Value::Int(4))];

#[test]
fn members_differ_and_so_do_their_rows() {
    let problem = problem("ensemble", 50);
    assert_eq!(problem.likelihood().name(), "heteroscedastic");
    let plain = points(&fit(&problem, "ensemble", &SHORT), 4);
    for a in 0..4 {
        for b in 0..a {
            assert!(plain[a].iter().zip(&plain[b]).all(|(a, b)| a != b), "{a} and {b} have a parameter in common");
        }
    }
    // A member is the MAP fit of its key.
    let alone = find("map").unwrap().configure(&[("epochs".to_owned(), Value::Int(40))]).unwrap();
    let key = Key::new(3).purpose(Purpose::Member).derive(2);
    assert_eq!(alone.fit(&problem, key, &mut Silent).unwrap().posterior.draw(key).w, plain[2]);
    // With rows left out or with anchors, from the same initial values it goes elsewhere.
    for other in [("leave_out", Value::Float(0.3)), ("anchored", Value::Bool(true))] {
        let changed = points(&fit(&problem, "ensemble", &[SHORT.to_vec(), vec![other]].concat()), 4);
        assert!(changed.iter().zip(&plain).all(|(a, b)| a != b));
    }
}

#[test]
fn what_is_left_out_has_no_say() {
    // 2 of 4 rows are at 100, which no member without them can know of: a network with no inputs but its bias.
    let (x, y) = (vec![0.0; 4], vec![0.0, 0.0, 100.0, 100.0]);
    let recipe = Recipe {
        network: NetworkSpec::parse("linear", Activation::Tanh).unwrap(),
        likelihood: Choice::named("gaussian").with("noise", Value::Text("fixed".into())),
        prior: Choice::named("normal").with("bias_std", Value::Float(1000.0)),
        ..Recipe::default()
    };
    let resolved = recipe.resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap();
    let problem = resolved.problem(Dataset::new(Values::F64(x.into()), Shape::Flat(1), y, 1)).unwrap();
    let settings = [
        ("leave_out", Value::Float(0.25)),
        ("members", Value::Int(12)),
        ("learning_rate", Value::Float(1.0)),
        ("epochs", Value::Int(1500)),
    ];
    let mut seen = [0; 2];
    for w in points(&fit(&problem, "ensemble", &settings), 12) {
        // Three rows are left: one or two of them at 100.
        let expected = [100.0 / 3.0, 200.0 / 3.0];
        let which = expected.iter().position(|e| (w[1] - e).abs() < 0.5);
        seen[which.unwrap_or_else(|| panic!("{w:?}"))] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

/// Anchors a ~ N(0, S) move the maximum of a linear model to Σ(Xᵀy/σ² + S⁻¹a): the posterior's mean, and the covariance ΣS⁻¹Σ, less than Σ.
#[test]
fn anchored_members_have_the_known_mean_and_covariance() {
    const MEMBERS: usize = 400;
    let prior_std = 0.3;
    let linear = Linear::new(20, prior_std);
    let (mean, _) = linear.optimum(1.0);
    let settings = [
        ("members", Value::Int(MEMBERS as i64)),
        ("anchored", Value::Bool(true)),
        ("learning_rate", Value::Float(0.02)),
        ("epochs", Value::Int(500)),
    ];
    let all = points(&fit(&linear.problem, "ensemble", &settings), MEMBERS);
    // Σ by Gauss–Jordan.
    let mut a = linear.precision(1.0);
    let mut sigma = [[0.0; DIM]; DIM];
    (0..DIM).for_each(|i| sigma[i][i] = 1.0);
    for i in 0..DIM {
        let pivot = a[i][i];
        (0..DIM).for_each(|k| (a[i][k], sigma[i][k]) = (a[i][k] / pivot, sigma[i][k] / pivot));
        for j in (0..DIM).filter(|j| *j != i) {
            let factor = a[j][i];
            (0..DIM).for_each(|k| {
                (a[j][k], sigma[j][k]) = (a[j][k] - factor * a[i][k], sigma[j][k] - factor * sigma[i][k])
            });
        }
    }
    for i in 0..DIM {
        let variance: f64 = (0..DIM).map(|k| sigma[i][k] * sigma[k][i]).sum::<f64>() / (prior_std * prior_std);
        let values: Vec<f64> = all.iter().map(|w| f64::from(w[i])).collect();
        let average = values.iter().sum::<f64>() / MEMBERS as f64;
        let spread = values.iter().map(|v| (v - average).powi(2)).sum::<f64>() / (MEMBERS - 1) as f64;
        // Five standard errors of a mean and, relative, of a variance of normals: 5√(2/400) = 0.35; Σᵢᵢ itself is beyond.
        assert!(
            (average - mean[i]).abs() < 5.0 * (variance / MEMBERS as f64).sqrt(),
            "mean {i}: {average} for {}",
            mean[i]
        );
        assert!((spread / variance - 1.0).abs() < 0.35, "variance {i}: {spread} for {variance}");
        assert!(sigma[i][i] > 1.5 * variance, "the posterior's own variance is another");
    }
}

/// Mean and variance of Σ_k N(m_k, σ_k²)/S at every row, written out; and no member is taken twice, or left out, whatever is asked for.
#[test]
fn predictions_are_the_mixture_of_all_members() {
    let problem = problem("ensemble", 50);
    let fitted = fit(&problem, "ensemble", &SHORT);
    let points = points(&fitted, 4);
    let (network, likelihood) = (problem.network().clone(), problem.likelihood().clone());
    let posterior: Arc<dyn Posterior> = fitted.posterior.into();
    let predict = |posterior: Arc<dyn Posterior>, draws: usize| {
        let (network, likelihood, scale) = (network.clone(), likelihood.clone(), TargetScale::default());
        NetworkPredictor { network, likelihood, posterior, draws, key: Key::new(9), scale }.predict(&problem.data().x)
    };
    let predictive = predict(posterior.clone(), 100);
    assert_eq!(predictive.draws(), 4);
    let real = predictive.real();
    let alone: Vec<_> = points.iter().map(|w| predict(Arc::new(PointPosterior::new(w.clone())), 1).real()).collect();
    for n in 0..problem.data().rows {
        let mean = alone.iter().map(|p| p.mean[n]).sum::<f64>() / 4.0;
        let second = alone.iter().map(|p| p.aleatoric[n] + p.mean[n].powi(2)).sum::<f64>() / 4.0;
        let noise = alone.iter().map(|p| p.aleatoric[n]).sum::<f64>() / 4.0;
        // σ² + μ² averaged, less the square of the average. Rounding alone.
        assert!((real.mean[n] - mean).abs() < 1e-12);
        assert!((real.epistemic[n] + real.aleatoric[n] - (second - mean * mean)).abs() < 1e-12);
        assert!((real.aleatoric[n] - noise).abs() < 1e-12 && real.epistemic[n] > 0.0);
    }
    // Fewer draws are as many different members.
    let few = predict(posterior, 2);
    assert_eq!(few.draws(), 2);
    assert_ne!(few.draw(0), few.draw(1));
}

#[test]
fn a_set_of_draws_takes_members_in_turn() {
    let gaussian = |m: f32| Box::new(MeanFieldPosterior::new(vec![m], vec![0.01], None)) as Box<dyn Posterior>;
    let mixture = MixturePosterior::new((0..3).map(|k| gaussian(k as f32)).collect(), None);
    let counts = |of: usize| {
        let mut counts = [0; 3];
        for s in 0..of {
            let mut draw = mixture.draw(Key::new(0));
            mixture.draw_of_into(s, of, Key::new(1).step(s as u64), &mut draw);
            counts[draw.w[0].round() as usize] += 1;
        }
        counts
    };
    assert_eq!((counts(100), counts(6), counts(2), counts(1)), ([34, 33, 33], [2, 2, 2], [1, 1, 0], [1, 0, 0]));
    assert_eq!((&mixture as &dyn posterior::posterior::Posterior).distinct(), None);
}

#[test]
fn one_two_and_four_threads_agree() {
    let problem = problem("map", 60);
    for (method, other) in [
        ("ensemble", ("leave_out", Value::Float(0.2))),
        ("ensemble", ("anchored", Value::Bool(true))),
        ("bootstrap", ("with_prior", Value::Bool(false))),
        ("swag", ("rank", Value::Int(5))),
    ] {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| fit(&problem, method, &[SHORT.to_vec(), vec![other.clone()]].concat()).posterior.tensors())
        };
        let one = run(1);
        assert!(one == run(2) && one == run(4), "{method} {other:?}");
    }
}

/// The mean of n numbers under Dirichlet weights has the variance s²/(n + 1), s² = 1/n Σ(y − ȳ)².
#[test]
fn the_bootstrap_of_a_mean_has_its_variance() {
    const N: usize = 6;
    let y: Vec<f64> = vec![0.3, -1.2, 2.5, 0.9, -0.4, 1.7];
    let mean = y.iter().sum::<f64>() / N as f64;
    let variance = y.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / N as f64 / (N + 1) as f64;
    let weighted = |key: Key| {
        let weights = bootstrap_weights(N, key);
        assert!((weights.iter().sum::<f64>() - N as f64).abs() < 1e-9 && weights.iter().all(|w| *w > 0.0));
        weights.iter().zip(&y).map(|(w, y)| w * y).sum::<f64>() / N as f64
    };
    let draws: Vec<f64> = (0..40_000).map(|s| weighted(Key::new(5).derive(s))).collect();
    let average = draws.iter().sum::<f64>() / draws.len() as f64;
    let spread = draws.iter().map(|d| (d - average).powi(2)).sum::<f64>() / draws.len() as f64;
    // Five errors of 40 000 draws: √(2/40 000) = 0.7 % of a variance (nearly normal draws); with n for n + 1 it is 17 % off.
    assert!((average - mean).abs() < 5.0 * (variance / 40_000.0).sqrt(), "{average} for {mean}");
    assert!((spread / variance - 1.0).abs() < 0.035, "{spread} for {variance}");

    // And a member of the method is that mean: a network without inputs, its bias, no prior.
    let recipe = Recipe {
        network: NetworkSpec::parse("linear", Activation::Tanh).unwrap(),
        likelihood: Choice::named("gaussian").with("noise", Value::Text("fixed".into())),
        ..Recipe::default()
    };
    let resolved = recipe.resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap();
    let data = Dataset::new(Values::F64(vec![0.0; N].into()), Shape::Flat(1), y.clone(), 1);
    let problem = resolved.problem(data.clone()).unwrap();
    let settings = [
        ("members", Value::Int(20)),
        ("with_prior", Value::Bool(false)),
        ("epochs", Value::Int(1500)),
        ("learning_rate", Value::Float(0.02)),
    ];
    let fitted = points(&fit(&problem, "bootstrap", &settings), 20);
    for (k, w) in fitted.iter().enumerate() {
        let expected = weighted(Key::new(3).purpose(Purpose::Member).derive(k as u64));
        // Adam's last steps, at a hundredth of its rate, are below 1e-4.
        assert!((f64::from(w[1]) - expected).abs() < 1e-3, "member {k}: {} for {expected}", w[1]);
    }
    // Weights of the data multiply those of the bootstrap: rows of weight 0 are not there.
    let weights = Some(vec![0.0, 0.0, 0.0, 1.0, 0.0, 0.0].into());
    let one = problem.with_data(Dataset { weights, ..data }).unwrap();
    for w in points(&fit(&one, "bootstrap", &settings), 20) {
        assert!((f64::from(w[1]) - y[3]).abs() < 1e-3, "{w:?}");
    }
}

#[test]
fn anchors_need_a_normal_prior() {
    let linear = Linear::with_prior(20, Choice::named("laplace"));
    let method = find("ensemble").unwrap().configure(&[("anchored".to_owned(), Value::Bool(true))]).unwrap();
    let error = method.fit(&linear.problem, Key::new(1), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("anchored members need a normal prior, and this one is 'laplace'"), "{error}");
}
