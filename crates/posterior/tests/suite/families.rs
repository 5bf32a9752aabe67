//! Correlated variational families and the Bayesian last layer against what is exact: linear models, dense matrices, each other.

use posterior::data::{Dataset, Values};
use posterior::distribution::{DiagonalNormal, LowRankNormal, MultiDistribution, MultivariateNormal, kl};
use posterior::exact::LinearRegression;
use posterior::family::{Family, FullCovariance, LowRank};
use posterior::inference::{FamilyTrainer, Fit, Silent, StepPlan, find};
use posterior::likelihood::Outcome;
use posterior::math::MatRef;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::{FullCovariancePosterior, LowRankPosterior, Posterior, Tensor, restore};
use posterior::problem::{Problem, Rows};
use posterior::rng::{Key, Stream, fill_normals};
use posterior::settings::Value;
use posterior_testing::statistics::{correlation, z_mean, z_variance};

const NOISE: f64 = 0.5;
const PRIOR: f64 = 2.0;
const INPUTS: usize = 3;
const P: usize = INPUTS + 1;

struct Linear {
    problem: Problem,
    exact: LinearRegression,
}

/// y = x·w + b + noise with correlated inputs of mean 1 (so that b, too, correlates), noise known, prior N(0, PRIOR²).
fn linear(rows: usize) -> Linear {
    let mut stream = Stream::new(Key::new(1));
    let (mut x, mut features, mut y) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        let shared = stream.normal() + 1.0;
        let row: Vec<f64> = (0..INPUTS).map(|_| 0.8 * shared + 0.6 * stream.normal()).collect();
        y.push(row[0] - 0.5 * row[2] + 0.3 + NOISE * stream.normal());
        x.extend(&row);
        features.extend(&row);
        features.push(1.0);
    }
    let recipe = Recipe {
        network: NetworkSpec::parse("linear", Activation::Tanh).unwrap(),
        likelihood: fixed_noise(),
        prior: Choice::named("normal")
            .with("weight_std", Value::Float(PRIOR))
            .with("bias_std", Value::Float(PRIOR))
            .with("scaling", Value::Text("none".into())),
        ..Recipe::default()
    };
    let shape = Shape::Flat(INPUTS);
    let resolved = recipe.resolve_for(shape, Outcome::Real, 1).unwrap();
    let problem = resolved.problem(Dataset::new(Values::F64(x.into()), shape, y.clone(), 1)).unwrap();
    let (features, prior) = (MatRef::new(&features, rows, P), [PRIOR.powi(-2); P]);
    let exact = LinearRegression::fit(features, &y, None, NOISE * NOISE, &[0.0; P], &prior).unwrap();
    Linear { problem, exact }
}

fn fixed_noise() -> Choice {
    Choice::named("gaussian").with("noise", Value::Text("fixed".into())).with("noise_std", Value::Float(NOISE))
}

fn fit(method: &str, problem: &Problem, settings: &[(&str, Value)]) -> Fit {
    let given: Vec<_> = settings.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    find(method).unwrap().configure(&given).unwrap().fit(problem, Key::new(3), &mut Silent).unwrap()
}

fn numbers(posterior: &dyn Posterior, name: &str) -> Vec<f64> {
    let tensors = posterior.tensors();
    tensors.iter().find(|t| t.name == name).unwrap().data.iter().map(|v| f64::from(*v)).collect()
}

/// Mean and covariance from the tensors that are saved.
fn moments(posterior: &dyn Posterior) -> (Vec<f64>, Vec<f64>) {
    let mean = numbers(posterior, "mean");
    let n = mean.len();
    // Columns of a root of the covariance.
    let mut root: Vec<Vec<f64>> = Vec::new();
    if posterior.kind() == "low-rank" {
        let std = numbers(posterior, "std");
        root.extend((0..n).map(|j| (0..n).map(|i| if i == j { std[i] } else { 0.0 }).collect()));
        root.extend(numbers(posterior, "factor").chunks(n).map(<[f64]>::to_vec));
    } else {
        let lower = numbers(posterior, "lower");
        root.extend((0..n).map(|j| (0..n).map(|i| if j <= i { lower[i * (i + 1) / 2 + j] } else { 0.0 }).collect()));
    }
    let covariance = (0..n * n).map(|k| root.iter().map(|c| c[k / n] * c[k % n]).sum()).collect();
    (mean, covariance)
}

fn normal(posterior: &dyn Posterior) -> MultivariateNormal {
    let (mean, covariance) = moments(posterior);
    MultivariateNormal::new(mean, &covariance).unwrap()
}

fn steps(n: i64) -> (&'static str, Value) {
    ("epochs", Value::Int(n))
}

#[test]
fn correlated_families_find_the_exact_posterior_of_a_linear_model() {
    let Linear { problem, exact } = linear(60);
    let target = MultivariateNormal::from_precision_cholesky(exact.mean().to_vec(), exact.precision().clone()).unwrap();
    // The power of what follows: without the correlations, the best KL is that of independent normals.
    let diagonal = target.precision_diagonal().iter().map(|p| p.powf(-0.5)).collect();
    let independent = DiagonalNormal::new(exact.mean().to_vec(), diagonal).unwrap();
    let without = kl::diagonal_multivariate(&independent, &target).unwrap();
    assert!(without > 1.0, "{without}");
    // Adam still wanders at its last rate. Over eight other seeds the KL was at most 0.0034 from four draws of all rows and 0.011
    // from one draw of a third of them; these are three times that. An L or U whose variances are 20 % off gives 0.04.
    for (method, samples, batch, most) in
        [("full-covariance", 4, 60, 0.01), ("low-rank", 4, 60, 0.01), ("full-covariance", 1, 20, 0.03)]
    {
        let mut settings =
            vec![steps(20_000 * batch / 60), ("samples", Value::Int(samples)), ("batch_size", Value::Int(batch))];
        if method == "low-rank" {
            settings.push(("rank", Value::Int(P as i64)));
        }
        let q = normal(&*fit(method, &problem, &settings).posterior);
        // The KL bounds everything: a mean is off by less than √(2 KL) standard deviations.
        let divergence = kl::multivariate(&q, &target).unwrap();
        assert!(divergence < most, "{method}, {samples} samples, batches of {batch}: KL {divergence}");
    }
}

#[test]
fn the_elbo_is_below_the_evidence_and_reaches_it_where_q_can() {
    let Linear { problem, exact } = linear(60);
    // Mean of the last epochs' bounds at a q that hardly moves any more, each from 8 draws.
    let bound = |method: &str| {
        let fit = fit(method, &problem, &[steps(6000), ("samples", Value::Int(8)), ("batch_size", Value::Int(60))]);
        let last: Vec<f64> = fit.summary.trace.iter().rev().take(40).map(|e| e.objective).collect();
        let mean = last.iter().sum::<f64>() / 40.0;
        let variance = last.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 39.0;
        (mean, (variance / 40.0).sqrt(), fit.posterior.log_evidence().unwrap())
    };
    let evidence = exact.log_evidence();
    for method in ["full-covariance", "low-rank", "mean-field"] {
        let (mean, error, reported) = bound(method);
        // Five standard errors of the estimate.
        assert!(mean < evidence + 5.0 * error, "{method}: {mean} ± {error} for {evidence}");
        // One estimate from 8 draws of a log-likelihood that is χ² with 4 degrees, halved: sd √(4/2)/√8 = 0.5.
        assert!((reported - mean).abs() < 2.5, "{method}: {reported} for {mean}");
        match method {
            // The gap is KL[q ‖ exact], below 0.01 as above.
            "full-covariance" => assert!(mean > evidence - 0.01 - 5.0 * error, "{mean} ± {error} for {evidence}"),
            // The gap of independent normals is above 1, and rank 5 closes it.
            "low-rank" => assert!(mean > evidence - 0.1 - 5.0 * error, "{mean} ± {error} for {evidence}"),
            _ => assert!(mean < evidence - 1.0 + 5.0 * error, "{mean} ± {error} for {evidence}"),
        }
    }
}

/// q's of three parameters with large correlations, of both kinds, and the normal they stand for.
fn correlated() -> Vec<(Box<dyn Posterior>, MultivariateNormal)> {
    let mean = vec![0.5f32, -1.0, 2.0];
    let full = FullCovariancePosterior::new(mean.clone(), 0, vec![1.0, 0.8, 0.6, -1.5, 0.5, 0.4], None);
    let factor = vec![1.0, 0.8, -1.5, 0.0, 0.5, 0.7];
    let low = LowRankPosterior::new(mean, vec![0.3, 0.5, 0.2], factor, None);
    let all: Vec<Box<dyn Posterior>> = vec![Box::new(full), Box::new(low)];
    all.into_iter().map(|q| (normal(&*q), q)).map(|(n, q)| (q, n)).collect()
}

#[test]
fn draws_have_the_covariance() {
    for (q, expected) in correlated() {
        let draws: Vec<Vec<f32>> = (0..50_000).map(|s| q.draw(Key::new(7).step(s)).w).collect();
        let column = |i: usize| draws.iter().map(|w| f64::from(w[i])).collect::<Vec<f64>>();
        let (mean, covariance) = (expected.mean(), expected.covariance());
        for i in 0..3 {
            // |z| < 5 fails by chance once in two million; a variance that is wrong by 10 % gives z = 16.
            assert!(z_mean(&column(i), mean[i]).abs() < 5.0, "{} mean {i}", q.kind());
            assert!(z_variance(&column(i), covariance[i * 3 + i]).abs() < 5.0, "{} variance {i}", q.kind());
            for j in 0..i {
                let product: Vec<f64> =
                    column(i).iter().zip(column(j)).map(|(a, b)| (a - mean[i]) * (b - mean[j])).collect();
                assert!(z_mean(&product, covariance[i * 3 + j]).abs() < 5.0, "{} covariance {i} {j}", q.kind());
            }
        }
        // Draws of different keys have nothing to do with each other: r√n is a standard normal.
        let first = column(0);
        assert!((correlation(&first[1..], &first[..first.len() - 1]) * (first.len() as f64).sqrt()).abs() < 5.0);
    }
}

#[test]
fn a_familys_draws_while_training_are_those_of_its_posterior() {
    let Linear { problem, .. } = linear(10);
    let mut mean = vec![0.0f32; P];
    fill_normals(Key::new(5), &mut mean);
    let std = vec![0.3f32; P];
    // The key of a draw names the same noise on both sides; only the order of the sums may differ.
    let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    let mut w = vec![0.0; P];
    let mut low = LowRank::new(&mean, &std, 2, 1, Key::new(6));
    low.draw(Key::new(8), &problem.penalties(), &mut w);
    let (m, s, u) = low.parts();
    assert!(close(&w, &LowRankPosterior::new(m, s, u, None).draw(Key::new(8)).w));
    let mut full = FullCovariance::new(&mean, &std, 1);
    full.draw(Key::new(8), &problem.penalties(), &mut w);
    let (m, l) = full.parts();
    assert!(close(&w, &FullCovariancePosterior::new(m, 0, l, None).draw(Key::new(8)).w));
}

#[test]
fn densities_are_those_of_the_normals() {
    for (q, expected) in correlated() {
        for w in [[0.5f32, -1.0, 2.0], [0.0, 0.0, 0.0], [3.0, 1.0, -4.0]] {
            let x: Vec<f64> = w.iter().map(|v| f64::from(*v)).collect();
            let (got, expected) = (q.log_density(&w).unwrap(), expected.log_density(&x));
            assert!((got / expected - 1.0).abs() < 1e-10, "{}: {got} for {expected}", q.kind()); // f64, condition below 1e3
        }
    }
    // Where it does not cover all parameters there is no density.
    let part = FullCovariancePosterior::new(vec![1.0, 2.0, 3.0, 4.0], 1, vec![0.5, 0.1, 0.2], Some(-3.0));
    assert_eq!((part.range(), part.log_density(&[1.0; 4]), part.log_evidence()), (1..3, None, Some(-3.0)));
    let w = part.draw(Key::new(1)).w;
    assert!(w[0] == 1.0 && w[3] == 4.0 && w[1] != 2.0 && w[2] != 3.0);
}

#[test]
fn the_kl_of_a_draw_is_the_closed_form() {
    let Linear { problem, .. } = linear(10);
    let (mean, std) = (vec![0.3f32, -0.2, 1.0, 0.0], vec![0.5f32, 0.1, 0.2, 0.4]);
    let prior = DiagonalNormal::new(vec![0.0; P], vec![PRIOR; P]).unwrap();
    let family = LowRank::new(&mean, &std, 3, 1, Key::new(6));
    let (m, s, u) = family.parts();
    let wide = |x: &[f32]| x.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
    let rows = (0..P * 3).map(|k| f64::from(u[k % 3 * P + k / 3])).collect();
    let q = LowRankNormal::new(wide(&m), s.iter().map(|s| f64::from(*s).powi(2)).collect(), rows, 3).unwrap();
    let mut trainer = FamilyTrainer::new(&problem, family, 1, 10, Key::new(2));
    let plan = StepPlan { step: 0, rate: 0.0, beta: 1.0 };
    trainer.step(Rows::All, plan);
    let closed = kl::low_rank_diagonal(&q, &prior).unwrap();
    assert!((trainer.kl() / closed - 1.0).abs() < 1e-5, "{} for {closed}", trainer.kl()); // f32 sums
    let estimate = kl::monte_carlo_multi(&q, &prior, 20_000, Key::new(1)).unwrap();
    assert!((trainer.kl() - estimate.value).abs() < 5.0 * estimate.standard_error);
    let mut trainer = FamilyTrainer::new(&problem, FullCovariance::new(&mean, &std, 1), 1, 10, Key::new(2));
    trainer.step(Rows::All, plan);
    let closed = problem.prior().kl_from_normal(&mean, &std).unwrap(); // L starts diagonal
    assert!((trainer.kl() / closed - 1.0).abs() < 1e-5, "{} for {closed}", trainer.kl());
}

#[test]
fn other_priors_reach_the_same_bound_from_their_draws() {
    // A scale mixture of two equal normals is a normal, but goes the other way: entropy closed, −log p(w) at the draws.
    let shape = Shape::Flat(2);
    let mut x = vec![0.0f64; 60];
    fill_normals(Key::new(8), &mut x);
    let y: Vec<f64> = x.chunks(2).map(|r| r[0] - 0.5 * r[1]).collect();
    let fitted = |prior: Choice, method: &str| {
        let recipe = Recipe {
            network: NetworkSpec::parse("linear", Activation::Tanh).unwrap(),
            likelihood: fixed_noise(),
            prior,
            ..Recipe::default()
        };
        let resolved = recipe.resolve_for(shape, Outcome::Real, 1).unwrap();
        let problem = resolved.problem(Dataset::new(Values::F64(x.clone().into()), shape, y.clone(), 1)).unwrap();
        normal(&*fit(method, &problem, &[steps(10_000), ("samples", Value::Int(4))]).posterior)
    };
    let std = |s: f64| Value::Float(s);
    for method in ["full-covariance", "low-rank"] {
        let unscaled = Choice::named("normal").with("scaling", Value::Text("none".into()));
        let closed = fitted(unscaled.with("weight_std", std(0.4)).with("bias_std", std(0.4)), method);
        let mixture = Choice::named("scale-mixture").with("std1", std(0.4)).with("std2", std(0.4));
        let drawn = fitted(mixture, method);
        // Both wander by some hundredths of a standard deviation; the prior without its pull would be off by a KL of 0.5.
        let divergence = kl::multivariate(&drawn, &closed).unwrap();
        assert!(divergence < 0.02, "{method}: {divergence}");
    }
}

#[test]
fn restoring_checks_everything() {
    let back = |kind: &str, dim: usize, tensors: &[Tensor]| {
        restore(kind, dim, None, &|name| tensors.iter().find(|t| t.name == name).map(|t| t.data.clone()))
    };
    for (q, _) in correlated() {
        assert_eq!(back(q.kind(), 3, &q.tensors()).unwrap().tensors(), q.tensors());
    }
    // A start beyond what f32 can count.
    let far = FullCovariancePosterior::new(vec![0.0; (1 << 24) + 3], (1 << 24) + 1, vec![1.0, 0.0, 1.0], None);
    let digits = &far.tensors()[2];
    assert_eq!((digits.name.as_str(), &digits.data[..]), ("start", &[256.0, 1.0][..]));
    let tensor = |name: &str, data: &[f32]| Tensor { name: name.into(), shape: vec![data.len()], data: data.to_vec() };
    let full = |mean: &[f32], lower: &[f32], start: &[f32]| {
        let tensors = [tensor("mean", mean), tensor("lower", lower), tensor("start", start)];
        back("full-covariance", 2, &tensors).map(|_| ()).unwrap_err().to_string()
    };
    assert!(full(&[0.0], &[1.0], &[0.0, 0.0]).contains("'mean' has 1 numbers, not 2"));
    assert!(full(&[0.0; 2], &[1.0, 2.0], &[0.0, 0.0]).contains("2 numbers, which is no triangle"));
    assert!(full(&[0.0; 2], &[1.0, 0.0, 1.0], &[0.0, 1.0]).contains("does not fit into 2"));
    assert!(full(&[0.0; 2], &[1.0, 0.0, 0.0], &[0.0, 0.0]).contains("not positive"));
    for start in [[-1.0, 0.0], [0.0, 0.5], [65536.0, 0.0], [0.0, f32::MAX]] {
        assert!(full(&[0.0; 2], &[1.0], &start).contains("not a digit"));
    }
    assert!(full(&[0.0; 2], &[1.0], &[65535.0, 65535.0]).contains("does not fit"));
    let low = |std: &[f32], factor: &[f32]| {
        let tensors = [tensor("mean", &[0.0; 2]), tensor("std", std), tensor("factor", factor)];
        back("low-rank", 2, &tensors).map(|_| ()).unwrap_err().to_string()
    };
    assert!(low(&[1.0, 0.0], &[1.0, 1.0]).contains("not positive"));
    assert!(low(&[1.0, 1.0], &[1.0, 1.0, 1.0]).contains("3 numbers, not columns of 2"));
    assert!(back("low-rank", 2, &[tensor("mean", &[0.0; 2]), tensor("std", &[1.0; 2])]).is_err());
}

#[test]
fn wrong_settings_and_sizes_get_one_sentence() {
    let message = |value: i64| {
        let given = [("rank".to_owned(), Value::Int(value))];
        find("low-rank").unwrap().configure(&given).unwrap_err().to_string()
    };
    for rank in [0, -3, 1001] {
        let expected =
            format!("the setting 'rank' cannot be '{rank}'; it takes a whole number from 1 to 1000 (default 5)");
        assert_eq!(message(rank), expected);
    }
    let recipe = Recipe { network: NetworkSpec::parse("300,300", Activation::Tanh).unwrap(), ..Recipe::default() };
    let shape = Shape::Flat(2);
    let resolved = recipe.resolve_for(shape, Outcome::Real, 1).unwrap();
    let problem = resolved.problem(Dataset::new(Values::F64(vec![0.0; 4].into()), shape, vec![0.0; 2], 1)).unwrap();
    let method = find("full-covariance").unwrap().configure(&[]).unwrap();
    let message = method.fit(&problem, Key::new(1), &mut Silent).unwrap_err().to_string();
    assert!(message.starts_with("full-covariance on 91502 parameters needs "), "{message}");
    assert!(message.ends_with("it may take; use low-rank or last-layer instead"), "{message}");
}
