//! Kernels against their formulas and finite differences, the closed forms against dense matrices, drawn functions against their covariance.

use super::covariance::{Covariance, Scratch};
use super::exact::Exact;
use super::fitted::{GpFit, Member};
use super::nearest::{self, Nearest};
use super::sparse::{self, Sparse};
use super::*;
use crate::data::{Feature, FeatureKind, Inputs, Scale};
use crate::fitted::Fitted;
use crate::fitted::LeaveOneOut;
use crate::likelihood;
use crate::math::linalg::Cholesky;
use crate::nn::Shape;
use crate::rng::{Key, Stream};
use crate::settings::Settings;
use std::sync::Arc;

/// Two numbers, a column of three categories and a true/false: six encoded inputs.
fn inputs() -> Inputs {
    let scale = |std| Scale { mean: 0.0, std };
    let feature = |name: &str, kind| Feature { name: name.into(), kind };
    Inputs::Columns(vec![
        feature("a", FeatureKind::Standard(scale(2.0))),
        feature("b", FeatureKind::Standard(scale(0.5))),
        feature("c", FeatureKind::OneHot { categories: ["x", "y", "z"].map(String::from).into() }),
        feature("d", FeatureKind::Bool(scale(0.4))),
    ])
}

pub(super) fn rows(n: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut s = Stream::new(Key::new(seed));
    let mut x = Vec::new();
    for _ in 0..n {
        let category = s.below(3);
        x.extend([s.normal(), s.normal()]);
        x.extend((0..3).map(|c| if c == category { 1.0 } else { 0.0 }));
        x.push((s.below(2) as f64 - 0.5) / 0.4);
    }
    let y = x.chunks(6).map(|r| (2.0 * r[0]).sin() + 0.5 * r[1] + r[3] + 0.2 * s.normal()).collect();
    (x, y)
}

const EXPRESSIONS: [&str; 17] = [
    "rbf(ard, columns=[a, b], lengthscale~[0.7, 1.3])",
    "matern12(ard)",
    "matern32(columns=[a, b])",
    "matern52(ard, variance~1.7)",
    "rq(ard, columns=[a, b], alpha~0.7)",
    "periodic(columns=a, period~3, lengthscale~0.8)",
    "periodic(ard, columns=[a, b], lengthscale~[0.8, 1.4])",
    "linear(ard)",
    "polynomial(degree=3, offset~0.4)",
    "constant(variance~2) + linear",
    "hamming(ard) + white(variance~0.3)",
    "rbf(columns=a) * hamming(columns=c) + linear(columns=b) * periodic(columns=a, period~2)",
    "(rbf(columns=a) + linear(columns=b)) * (constant + matern32(columns=b)) * white",
    "hamming(columns=d, lengthscale~0.5) * rq",
    "nngp(depth=2) + white(variance~0.1)",
    "nngp(depth=1, activation=erf, weight_variance~3) * rbf(columns=a)",
    "ntk(depth=3, activation=erf, columns=[a, b]) + ntk(depth=2)",
];

pub(super) fn kernel(text: &str) -> Kernel {
    Kernel::parse(text, &inputs()).unwrap()
}

/// Logarithms of the parameters and of the noise variance, away from round values.
pub(super) fn at(kernel: &Kernel, noise: f64) -> Vec<f64> {
    let mut log = kernel.start();
    log.iter_mut().enumerate().for_each(|(i, v)| *v += 0.1 * (1.0 + i as f64).sin());
    log.push(noise.ln());
    log
}

pub(super) fn values(kernel: &Kernel, log: &[f64], x: &[f64]) -> Vec<f64> {
    let covariance = Covariance::new(kernel, log);
    let (points, n) = (covariance.points(x), x.len() / 6);
    let mut out = vec![0.0; n * n];
    let mut scratch = Scratch::default();
    out.chunks_mut(n).enumerate().for_each(|(i, out)| covariance.row(&points, i, &points, 0, true, &mut scratch, out));
    out
}

/// Every kernel by its formula, written out.
#[test]
fn kernels_are_their_formulas() {
    let (x, _) = rows(7, 1);
    let square = |i: usize, j: usize, d: usize| (x[i * 6 + d] - x[j * 6 + d]).powi(2);
    let all = |i: usize, j: usize| (0..6).map(|d| square(i, j, d)).sum::<f64>();
    let product = |i: usize, j: usize| (0..6).map(|d| x[i * 6 + d] * x[j * 6 + d]).sum::<f64>();
    let differ = |i: usize, j: usize, d: std::ops::Range<usize>| d.into_iter().any(|d| square(i, j, d) > 0.0);
    type Formula<'a> = Box<dyn Fn(usize, usize) -> f64 + 'a>;
    let cases: Vec<(&str, Formula<'_>)> = vec![
        ("rbf(variance=2, lengthscale=1.5)", Box::new(|i, j| 2.0 * (-0.5 * all(i, j) / 2.25).exp())),
        ("matern12(lengthscale=2)", Box::new(|i, j| (-all(i, j).sqrt() / 2.0).exp())),
        (
            "matern32(columns=b, lengthscale=2)",
            Box::new(|i, j| {
                let r = (3.0 * square(i, j, 1)).sqrt() / 2.0;
                (1.0 + r) * (-r).exp()
            }),
        ),
        (
            "matern52(lengthscale=2)",
            Box::new(|i, j| {
                let r = (5.0 * all(i, j)).sqrt() / 2.0;
                (1.0 + r + r * r / 3.0) * (-r).exp()
            }),
        ),
        ("rq(alpha=3, lengthscale=2)", Box::new(|i, j| (1.0 + all(i, j) / 24.0).powf(-3.0))),
        (
            // A period of 3 in units of a column whose standard deviation is 2.
            "periodic(columns=a, period=3, lengthscale=0.7)",
            Box::new(|i, j| {
                let turn = (std::f64::consts::PI * 2.0 * (x[i * 6] - x[j * 6]) / 3.0).sin();
                (-2.0 * turn * turn / 0.49).exp()
            }),
        ),
        ("linear(variance=0.3)", Box::new(|i, j| 0.3 * product(i, j))),
        ("polynomial(degree=3, offset=0.5)", Box::new(|i, j| (product(i, j) / 6.0 + 0.5).powi(3))),
        ("constant(variance=3)", Box::new(|_, _| 3.0)),
        ("white(variance=3)", Box::new(|i, j| if i == j { 3.0 } else { 0.0 })),
        (
            "hamming(lengthscale=0.5)",
            Box::new(|i, j| {
                let count = f64::from(differ(i, j, 2..5)) + f64::from(differ(i, j, 5..6));
                (-count / 0.5).exp()
            }),
        ),
    ];
    for (text, formula) in cases {
        let mut fixed = kernel(text);
        if !text.contains("variance") && text.contains("lengthscale") {
            fixed = kernel(&text.replacen('(', "(variance=1, ", 1));
        }
        let mut log = fixed.start();
        log.push(0.0);
        let got = values(&fixed, &log, &x);
        for i in 0..7 {
            for j in 0..7 {
                let exact = formula(i, j);
                // Rounding of some ten operations.
                assert!((got[i * 7 + j] - exact).abs() < 1e-13 * exact.abs().max(1.0), "{text}: {i} {j}");
            }
        }
    }
}

/// log N(y | 0, K) with a dense matrix, and the gradient by central differences.
#[test]
fn marginal_likelihoods_and_gradients_of_every_kernel() {
    let (x, y) = rows(70, 2);
    for text in EXPRESSIONS {
        let kernel = kernel(text);
        let log = at(&kernel, 0.2);
        let n = y.len();
        let mut dense = values(&kernel, &log, &x);
        (0..n).for_each(|i| dense[i * n + i] += 0.2);
        let cholesky = Cholesky::new(&dense, n).unwrap();
        let exact = -0.5 * cholesky.inverse_quadratic(&y)
            - 0.5 * cholesky.log_det()
            - 0.5 * n as f64 * std::f64::consts::TAU.ln();
        let mut gradient = vec![0.0; log.len()];
        let value = log_marginal(&kernel, &x, &y, &log, Some(&mut gradient)).unwrap();
        assert!((value - exact).abs() < 1e-10 * exact.abs(), "{text}: {value} {exact}"); // two factorisations of 70 rows
        let h = 1e-5;
        for i in 0..log.len() {
            let moved = |by: f64| {
                let mut log = log.clone();
                log[i] += by;
                log_marginal(&kernel, &x, &y, &log, None).unwrap()
            };
            let difference = (moved(h) - moved(-h)) / (2.0 * h);
            // h² of third derivatives of some hundred, and ε·|value|/h.
            let error = (gradient[i] - difference).abs();
            assert!(error < 1e-6 * gradient[i].abs().max(1.0), "{text}, parameter {i}: {} {difference}", gradient[i]);
        }
    }
}

fn fit(text: &str, n: usize, noise: f64) -> GpFit {
    let (x, y) = rows(n, 3);
    let kernel = Arc::new(kernel(text));
    let log = at(&kernel, noise);
    let member = Exact::new(kernel, log, x.into(), y.into()).unwrap();
    let entry = likelihood::find("gaussian").unwrap();
    let likelihood = (entry.build)(&Settings::resolve(entry.settings, &[], "gaussian").unwrap(), 1).unwrap();
    let (leave_one_out, log_evidence) = (member.leave_one_out(), member.log_marginal());
    GpFit {
        name: NAME,
        likelihood,
        input: Shape::Flat(6),
        members: vec![Member::Exact(member)],
        leave_one_out,
        log_evidence,
    }
}

fn exact_of(fit: &GpFit) -> &Exact {
    let [Member::Exact(member)] = fit.members.as_slice() else { panic!("one exact process") };
    member
}

/// k** − K*ᵀ(K + σ²)⁻¹K* with dense matrices.
fn dense_posterior(fit: &GpFit, at: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let member = exact_of(fit);
    let (n, m) = (member.y.len(), at.len() / 6);
    let all: Vec<f64> = member.x.iter().chain(at).copied().collect();
    let k = values(&member.kernel, &member.log, &all);
    let (total, noise) = (n + m, member.log[member.log.len() - 1].exp());
    let dense: Vec<f64> =
        (0..n * n).map(|e| k[e / n * total + e % n] + if e / n == e % n { noise } else { 0.0 }).collect();
    let cholesky = Cholesky::new(&dense, n).unwrap();
    let column = |j: usize| -> Vec<f64> { (0..n).map(|i| k[i * total + n + j]).collect() };
    let mut weights = member.y.to_vec();
    cholesky.solve(&mut weights);
    let mean = (0..m).map(|j| crate::math::linalg::dot(&column(j), &weights)).collect();
    let mut covariance = vec![0.0; m * m];
    for i in 0..m {
        let mut solved = column(i);
        cholesky.solve(&mut solved);
        for j in 0..m {
            covariance[i * m + j] = k[(n + i) * total + n + j] - crate::math::linalg::dot(&solved, &column(j));
        }
    }
    (mean, covariance)
}

#[test]
fn predictions_agree_with_dense_matrices() {
    for text in EXPRESSIONS {
        let fit = fit(text, 90, 0.1);
        let (x, _) = rows(5, 9);
        let (mean, variance) = exact_of(&fit).predict(&x);
        let (exact_mean, exact) = dense_posterior(&fit, &x);
        for j in 0..5 {
            // A condition number of some thousands.
            assert!(
                (mean[j] - exact_mean[j]).abs() < 1e-10 && (variance[j] - exact[j * 5 + j]).abs() < 1e-10,
                "{text}"
            );
        }
    }
}

/// Leaving a row out in closed form is fitting without it.
#[test]
fn leave_one_out_is_a_fit_without_the_row() {
    let fit = fit("matern52(ard) + linear", 40, 0.1);
    let LeaveOneOut { residual, std } = &fit.leave_one_out;
    for out in [0, 17, 39] {
        let member = exact_of(&fit);
        let keep: Vec<usize> = (0..40).filter(|i| *i != out).collect();
        let x: Vec<f64> = keep.iter().flat_map(|i| member.x[i * 6..(i + 1) * 6].to_vec()).collect();
        let y: Vec<f64> = keep.iter().map(|i| member.y[*i]).collect();
        let without = Exact::new(member.kernel.clone(), member.log.clone(), x.into(), y.into()).unwrap();
        let (mean, variance) = without.predict(&member.x[out * 6..(out + 1) * 6]);
        assert!((residual[out] - (member.y[out] - mean[0])).abs() < 1e-10);
        assert!((std[out] - (variance[0] + 0.1).sqrt()).abs() < 1e-10);
    }
}

/// Duplicates, constants and next to no noise: variances are never negative, and jitter is bounded and kept.
#[test]
fn variances_are_never_negative() {
    let (mut x, mut y) = rows(30, 4);
    x.extend(x.clone());
    y.extend(y.clone());
    for text in EXPRESSIONS {
        let kernel = Arc::new(kernel(text));
        for noise in [1e-30, 1e-12, 1e-3] {
            let log = at(&kernel, noise);
            let Ok(member) = Exact::new(kernel.clone(), log, x.clone().into(), y.clone().into()) else {
                panic!("{text} {noise}");
            };
            let (mean, variance) = member.predict(&x);
            assert!(mean.iter().all(|m| m.is_finite()) && variance.iter().all(|v| *v >= 0.0), "{text}");
            assert!(member.jitter < 1e-5, "{text} {noise}: {}", member.jitter);
        }
    }
}

/// Mean and covariance of many functions against the posterior's, within five standard errors.
#[test]
fn drawn_functions_have_the_posterior_mean_and_covariance() {
    const DRAWS: usize = 600;
    for text in EXPRESSIONS {
        let fit = fit(text, 12, 0.3);
        let (x, _) = rows(3, 11);
        let (mean, covariance) = dense_posterior(&fit, &x);
        let Some(mut functions) = fit.functions(DRAWS, Key::new(5), true) else {
            assert!(text.contains("nngp") || text.contains("ntk"), "{text}");
            continue;
        };
        let mut drawn = vec![0.0; DRAWS * 3];
        for (s, f) in drawn.chunks_mut(3).enumerate() {
            functions.select(s);
            functions.eval(&x, f);
        }
        for i in 0..3 {
            let average = drawn.chunks(3).map(|f| f[i]).sum::<f64>() / DRAWS as f64;
            let error = 5.0 * (covariance[i * 4] / DRAWS as f64).sqrt();
            assert!((average - mean[i]).abs() < error, "{text}: {average} {} {error}", mean[i]);
            for j in 0..3 {
                let products = drawn.chunks(3).map(|f| (f[i] - mean[i]) * (f[j] - mean[j]));
                let got = products.sum::<f64>() / DRAWS as f64;
                // Var of a product of normals is cᵢᵢcⱼⱼ + cᵢⱼ²; products of features have heavier tails, for which half as much again.
                let spread = covariance[i * 4] * covariance[j * 4] + covariance[i * 3 + j].powi(2);
                let error = 7.5 * (spread / DRAWS as f64).sqrt();
                assert!((got - covariance[i * 3 + j]).abs() < error, "{text}: {got} {} {error}", covariance[i * 3 + j]);
            }
        }
    }
}

#[test]
fn a_draw_is_a_function_with_a_gradient() {
    for text in EXPRESSIONS {
        let fit = fit(text, 20, 0.1);
        let Some(mut functions) = fit.functions(3, Key::new(8), true) else {
            assert!(text.contains("nngp") || text.contains("ntk"), "{text}");
            continue;
        };
        let (x, _) = rows(4, 12);
        let (mut first, mut other, mut again) = (vec![0.0; 4], vec![0.0; 4], vec![0.0; 4]);
        functions.select(1);
        functions.eval(&x, &mut first);
        functions.select(2);
        functions.eval(&x, &mut other);
        functions.select(1);
        // In another order and company.
        functions.eval(&x[6..], &mut again[1..]);
        assert_eq!(first[1..], again[1..], "{text}");
        assert_ne!(first, other);
        if text.contains("white") {
            continue; // it is rough
        }
        let (v, mut dx) = ([1.0, -2.0, 0.5, 0.0], vec![0.0; 24]);
        functions.eval(&x, &mut first);
        functions.vjp(&x, &v, &mut dx);
        for k in 0..24 {
            let mut value = |by: f64| {
                let mut x = x.clone();
                x[k] += by;
                functions.eval(&x, &mut other);
                v.iter().zip(&other).map(|(v, f)| v * f).sum::<f64>()
            };
            let difference = (value(1e-6) - value(-1e-6)) / 2e-6;
            // Matérn-1/2 has a kink at data rows and steep waves near it; others are smooth.
            let tolerance = if text.contains("matern12") { 1e-3 } else { 1e-5 };
            assert!((dx[k] - difference).abs() < tolerance * dx[k].abs().max(1.0), "{text}: {} {difference}", dx[k]);
        }
    }
}

#[test]
fn columns_that_are_not_there_or_do_not_suit_are_named() {
    let message = |text: &str| Kernel::parse(text, &inputs()).unwrap_err().to_string();
    assert!(
        message("linear + rbf(columns=e)")
            .starts_with("the kernel 'rbf' at character 10: there is no input column 'e'")
    );
    assert!(message("hamming(columns=a)").contains("the column 'a' holds numbers"));
    assert!(message("rbf(lengthscale=[1, 2])").contains("there are 2 values of lengthscale for 1"));
    let scale = Scale { mean: 0.0, std: 1.0 };
    let images = Inputs::Images { channels: 1, height: 2, width: 2, scale };
    assert!(Kernel::parse("rbf", &images).unwrap_err().to_string().contains("the inputs are images"));
    let numbers = Inputs::Columns(vec![Feature { name: "a".into(), kind: FeatureKind::Standard(scale) }]);
    assert!(Kernel::parse("hamming", &numbers).unwrap_err().to_string().contains("no column holds text"));
}

/// The kernel at its parameters is read again as the same kernel, all of it held.
#[test]
fn fitted_kernels_are_read_again() {
    let (x, _) = rows(5, 1);
    for text in EXPRESSIONS {
        let kernel = kernel(text);
        let log = at(&kernel, 1.0);
        let again = Kernel::parse(&kernel.at(&log, 0).to_string(), &inputs()).unwrap();
        assert!(again.parameters().iter().all(|p| p.fixed));
        let mut held = again.start();
        held.push(0.0);
        let (one, two) = (values(&kernel, &log, &x), values(&again, &held, &x));
        one.iter().zip(&two).for_each(|(a, b)| assert!((a - b).abs() < 1e-12 * a.abs().max(1.0), "{text}"));
    }
}

/// All rows as inducing rows: the bound is the evidence, predictions are exact; fewer: below it, and rising; its gradient by central differences.
#[test]
fn the_sparse_bound_is_below_the_evidence_and_rises_to_it() {
    let (x, y) = rows(150, 6);
    let (at_rows, _) = rows(6, 13);
    for text in ["matern52(ard)", "matern32(columns=[a, b]) + linear * hamming(columns=c)"] {
        let kernel = Arc::new(kernel(text));
        let log = at(&kernel, 0.1);
        let exact = log_marginal(&kernel, &x, &y, &log, None).unwrap();
        let mut before = f64::NEG_INFINITY;
        for m in [5, 20, 60, 150] {
            let order = sparse::choose(&kernel, &log, &x, m);
            let z: Vec<f64> = order.iter().flat_map(|r| x[r * 6..(r + 1) * 6].to_vec()).collect();
            let mut gradient = vec![0.0; log.len()];
            let bound = sparse::bound(&kernel, &x, &y, &z, &log, Some(&mut gradient)).unwrap();
            // Greedy rows are nested. Rounding: a condition number of some 1e6 of K_uu.
            assert!(bound < exact + 1e-7 && bound > before - 1e-7, "{text} {m}: {before} {bound} {exact}");
            before = bound;
            for i in 0..log.len() {
                let moved = |by: f64| {
                    let mut log = log.clone();
                    log[i] += by;
                    sparse::bound(&kernel, &x, &y, &z, &log, None).unwrap()
                };
                let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                // As for the exact gradient, with the rounding of two factorisations.
                assert!(
                    (gradient[i] - difference).abs() < 1e-5 * difference.abs().max(1.0),
                    "{text} {m} {i}: {} {difference}",
                    gradient[i]
                );
            }
        }
        assert!((before - exact).abs() < 1e-6 * exact.abs(), "{text}: {before} {exact}");
        let z: Arc<[f64]> = x.clone().into();
        let (sparse, _) = Sparse::new(kernel.clone(), log.clone(), &x, &y, z).unwrap();
        let whole = Exact::new(kernel, log, x.clone().into(), y.clone().into()).unwrap();
        let ((m1, v1), (m2, v2)) = (sparse.predict(&at_rows), whole.predict(&at_rows));
        for j in 0..6 {
            assert!((m1[j] - m2[j]).abs() < 1e-6 && (v1[j] - v2[j]).abs() < 1e-6, "{text}");
        }
    }
}

/// All rows as neighbours: the chain rule gives the evidence; the gradient of fewer by central differences.
#[test]
fn all_neighbours_are_exact() {
    let (x, y) = rows(60, 7);
    let (at_rows, _) = rows(6, 13);
    let kernel = Arc::new(kernel("matern52(ard) + white(variance~0.05)"));
    let log = at(&kernel, 0.1);
    let mut exact = vec![0.0; log.len()];
    let value = log_marginal(&kernel, &x, &y, &log, Some(&mut exact)).unwrap();
    let mut gradient = vec![0.0; log.len()];
    let all = nearest::neighbours(&kernel, &log, &x, 60);
    let got = nearest::log_density(&kernel, &x, &y, &all, &log, Some(&mut gradient)).unwrap();
    assert!((got - value).abs() < 1e-10 * value.abs());
    gradient.iter().zip(&exact).for_each(|(g, e)| assert!((g - e).abs() < 1e-9 * e.abs().max(1.0), "{g} {e}"));
    let few = nearest::neighbours(&kernel, &log, &x, 7);
    nearest::log_density(&kernel, &x, &y, &few, &log, Some(&mut gradient)).unwrap();
    for i in 0..log.len() {
        let moved = |by: f64| {
            let mut log = log.clone();
            log[i] += by;
            nearest::log_density(&kernel, &x, &y, &few, &log, None).unwrap()
        };
        let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!(
            (gradient[i] - difference).abs() < 1e-6 * difference.abs().max(1.0),
            "{i}: {} {difference}",
            gradient[i]
        );
    }
    let near =
        Nearest { kernel: kernel.clone(), log: log.clone(), x: x.clone().into(), y: y.clone().into(), count: 60 };
    let whole = Exact::new(kernel, log, x.into(), y.into()).unwrap();
    let ((m1, v1), (m2, v2)) = (near.predict(&at_rows), whole.predict(&at_rows));
    (0..6).for_each(|j| assert!((m1[j] - m2[j]).abs() < 1e-10 && (v1[j] - v2[j]).abs() < 1e-10));
}

/// Functions of a sparse process have its mean and variance, within five standard errors.
#[test]
fn functions_of_a_sparse_process() {
    const DRAWS: usize = 800;
    let (x, y) = rows(100, 6);
    let kernel = Arc::new(kernel("matern52(ard)"));
    let log = at(&kernel, 0.1);
    let z: Arc<[f64]> = x[..20 * 6].into();
    let (sparse, _) = Sparse::new(kernel, log, &x, &y, z).unwrap();
    let mut fit = fit("rbf", 5, 0.1);
    let (points, _) = rows(3, 14);
    let (mean, variance) = sparse.predict(&points);
    fit.members = vec![Member::Sparse(sparse)];
    let mut functions = fit.functions(DRAWS, Key::new(5), true).unwrap();
    let mut drawn = vec![0.0; DRAWS * 3];
    for (s, f) in drawn.chunks_mut(3).enumerate() {
        functions.select(s);
        functions.eval(&points, f);
    }
    for i in 0..3 {
        let average = drawn.chunks(3).map(|f| f[i]).sum::<f64>() / DRAWS as f64;
        let square = drawn.chunks(3).map(|f| (f[i] - mean[i]).powi(2)).sum::<f64>() / DRAWS as f64;
        assert!((average - mean[i]).abs() < 5.0 * (variance[i] / DRAWS as f64).sqrt(), "{average} {}", mean[i]);
        assert!((square / variance[i] - 1.0).abs() < 5.0 * (2.0 / DRAWS as f64).sqrt(), "{square} {}", variance[i]);
    }
}
