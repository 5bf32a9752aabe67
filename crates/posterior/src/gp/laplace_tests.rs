//! Laplace's method against the closed form where noise is normal, dense matrices, finite differences and integrals over f.

use super::exact::Exact;
use super::fitted::{GpFit, Member};
use super::laplace::{Laplace, laplace_evidence};
use super::tests::{at, kernel, rows, values};
use super::*;
use crate::data::Values;
use crate::fitted::LeaveOneOut;
use crate::fitted::{Fitted, How};
use crate::likelihood::{self, Likelihood};
use crate::math::linalg::{Cholesky, dot};
use crate::nn::Shape;
use crate::rng::Key;
use crate::settings::{Settings, Value};
use std::sync::Arc;

fn likelihood_of(name: &str, width: usize, given: &[(&str, Value)]) -> Arc<dyn Likelihood> {
    let entry = likelihood::find(name).unwrap();
    let given: Vec<(String, Value)> = given.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    (entry.build)(&Settings::resolve(entry.settings, &given, name).unwrap(), width).unwrap()
}

/// Targets of a likelihood from real ones.
fn targets(name: &str, y: &[f64]) -> Vec<f64> {
    let one = |y: &f64| match name {
        "bernoulli" => f64::from(*y > 0.3),
        "categorical" => f64::from(*y > -0.3) + f64::from(*y > 0.8),
        "poisson" => y.exp().floor(),
        _ => *y,
    };
    y.iter().map(one).collect()
}

fn cases() -> Vec<Arc<dyn Likelihood>> {
    vec![
        likelihood_of("bernoulli", 2, &[]),
        likelihood_of("categorical", 3, &[]),
        likelihood_of("poisson", 1, &[("offset", Value::Float(0.5))]),
        likelihood_of("student-t", 1, &[]),
        likelihood_of("gaussian", 1, &[]),
    ]
}

/// Under normal noise the mode and its curvature are the posterior, and the evidence is exact.
#[test]
fn normal_noise_is_exact() {
    let (x, y) = rows(60, 3);
    let (new, _) = rows(5, 8);
    let likelihood = likelihood_of("gaussian", 1, &[]);
    for text in ["matern52(ard)", "rbf(columns=[a, b]) + hamming(columns=c)"] {
        let kernel = Arc::new(kernel(text));
        let log = at(&kernel, 0.1);
        let (mut g1, mut g2) = (vec![0.0; log.len()], vec![0.0; log.len()]);
        let exact = log_marginal(&kernel, &x, &y, &log, Some(&mut g1)).unwrap();
        let found = laplace_evidence(&kernel, &*likelihood, &x, &y, &log, Some(&mut g2)).unwrap();
        assert!((found - exact).abs() < 1e-8 * exact.abs().max(1.0), "{found} {exact}");
        // The noise's part by differences of h = 1e-3 and fourth order: 1e-12 of a fifth derivative of some hundred.
        g1.iter().zip(&g2).for_each(|(a, b)| assert!((a - b).abs() < 1e-8 * a.abs().max(1.0), "{a} {b}"));
        let (x, y): (Arc<[f64]>, Arc<[f64]>) = (x.clone().into(), y.clone().into());
        let exact = Exact::new(kernel.clone(), log.clone(), x.clone(), y.clone()).unwrap();
        let (laplace, _) = Laplace::new(kernel, &*likelihood, log, x, y).unwrap();
        let ((m1, v1), (m2, v2)) = (exact.predict(&new), laplace.predict(&new));
        m1.iter().zip(&m2).chain(v1.iter().zip(&v2)).for_each(|(a, b)| assert!((a - b).abs() < 1e-8, "{a} {b}"));
    }
}

#[test]
fn gradients_of_the_evidence_are_its_differences() {
    let (x, y) = rows(40, 5);
    for likelihood in cases() {
        let y = targets(likelihood.name(), &y);
        for text in ["matern52(ard, columns=[a, b], variance~2)", "rbf(columns=a) + linear * hamming(columns=c)"] {
            let kernel = kernel(text);
            let log = at(&kernel, 0.2);
            let mut gradient = vec![0.0; log.len()];
            laplace_evidence(&kernel, &*likelihood, &x, &y, &log, Some(&mut gradient)).unwrap();
            let learned = usize::from(!likelihood.blocks().is_empty());
            for i in 0..log.len() - 1 + learned {
                let moved = |by: f64| {
                    let mut log = log.clone();
                    log[i] += by;
                    laplace_evidence(&kernel, &*likelihood, &x, &y, &log, None).unwrap()
                };
                let difference = (moved(1e-4) - moved(-1e-4)) / 2e-4;
                // h² of third derivatives of some ten: 1e-7, and rounding of 1e-12/h.
                let error = (gradient[i] - difference).abs();
                assert!(
                    error < 2e-6 * difference.abs().max(1.0),
                    "{} {text}, parameter {i}: {} {difference}",
                    likelihood.name(),
                    gradient[i]
                );
            }
        }
    }
}

/// Three classes against (K⁻¹ + W)⁻¹ as one dense matrix.
#[test]
fn classes_agree_with_dense_matrices() {
    let (n, classes) = (9, 3);
    let (x, y) = rows(n, 11);
    let y = targets("categorical", &y);
    let likelihood = likelihood_of("categorical", classes, &[]);
    let kernel = Arc::new(kernel("rbf(columns=[a, b], variance~1.5) + constant"));
    let log = at(&kernel, 1.0);
    let (member, evidence) =
        Laplace::new(kernel.clone(), &*likelihood, log.clone(), x.clone().into(), y.clone().into()).unwrap();
    let k = values(&kernel, &log, &x);
    let inverse = Cholesky::new(&k, n).unwrap().inverse();
    let f: Vec<f64> =
        (0..classes * n).map(|e| dot(&k[e % n * n..(e % n + 1) * n], &member.a[e / n * n..(e / n + 1) * n])).collect();
    let size = n * classes;
    let mut precision = vec![0.0; size * size];
    let (mut fit, mut half) = (0.0, vec![0.0; classes * classes]);
    for i in 0..n {
        let own: Vec<f64> = (0..classes).map(|c| f[c * n + i]).collect();
        fit += likelihood.log_prob_row(&own, &y[i..=i], &[]);
        likelihood.hessian_row(&own, &y[i..=i], &[], &mut half);
        for c in 0..classes {
            for d in 0..classes {
                precision[(c * n + i) * size + d * n + i] += half[c * classes + d];
            }
            for j in 0..n {
                precision[(c * n + i) * size + c * n + j] += inverse[i * n + j];
            }
        }
    }
    let posterior = Cholesky::new(&precision, size).unwrap();
    let prior = Cholesky::new(&k, n).unwrap();
    let log_det = posterior.log_det() + classes as f64 * prior.log_det();
    let dense = fit - 0.5 * dot(&member.a, &f) - 0.5 * log_det;
    // A condition number of K of some thousands.
    assert!((dense - evidence).abs() < 1e-9, "{dense} {evidence}");
    let covariance = posterior.inverse();
    let (mean, blocks) = member.predict(&x);
    for i in 0..n {
        for c in 0..classes {
            assert!((mean[i * classes + c] - f[c * n + i]).abs() < 1e-9);
            for d in 0..classes {
                let exact = covariance[(c * n + i) * size + d * n + i];
                assert!((blocks[(i * classes + c) * classes + d] - exact).abs() < 1e-8, "{i} {c} {d}");
            }
        }
    }
}

/// ∫ g(f) N(f | m, v) df on a fine grid.
fn integral(m: f64, v: f64, g: impl Fn(f64) -> f64) -> f64 {
    let (steps, s) = (4000, v.sqrt());
    let at = |i: i32| -9.0 + 18.0 * f64::from(i) / f64::from(steps);
    let density = |z: f64| (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    (0..=steps).map(|i| density(at(i)) * g(m + s * at(i))).sum::<f64>() * 18.0 / f64::from(steps)
}

/// One row: the evidence and the predictive against integrals over f, which Laplace's method comes near.
#[test]
fn one_row_is_near_the_integral() {
    let x = rows(1, 2).0;
    // How far Laplace's method is from the integral, in nats: a property of it, stated generously.
    for (likelihood, y, near) in [
        (likelihood_of("bernoulli", 2, &[]), 1.0, 0.02),
        (likelihood_of("poisson", 1, &[]), 3.0, 0.03),
        (
            likelihood_of("student-t", 1, &[("noise_std", Value::Float(1.0)), ("noise", Value::Text("fixed".into()))]),
            0.7,
            0.1,
        ),
    ] {
        let kernel = Arc::new(kernel("rbf(columns=[a, b], variance=1.0)"));
        let mut log = kernel.start();
        log.push(0.0);
        let (member, evidence) = Laplace::new(kernel, &*likelihood, log, x.clone().into(), vec![y].into()).unwrap();
        let name = likelihood.name();
        let density = |f: f64| likelihood.log_prob_row(&[f], &[y], &[]).exp();
        let whole = integral(0.0, 1.0, density);
        assert!((evidence - whole.ln()).abs() < near, "{name}: {evidence} {}", whole.ln());
        let (mean, variance) = member.predict(&x);
        // The highest point of the posterior on a grid of steps of 1e-4.
        let joint = |i: &i32| density(1e-4 * f64::from(*i)).ln() - 0.5e-8 * f64::from(*i).powi(2);
        let top = (-30_000..30_000).max_by(|a, b| joint(a).total_cmp(&joint(b))).unwrap();
        assert!((mean[0] - 1e-4 * f64::from(top)).abs() < 1e-4, "{name}: {} {top}", mean[0]);
        // The predictive of the Gaussian itself, to the accuracy of the likelihood's own nodes and of single precision.
        let fit = GpFit {
            name: NAME,
            likelihood: likelihood.clone(),
            input: Shape::Flat(6),
            members: vec![Member::Laplace(member)],
            leave_one_out: LeaveOneOut::default(),
            log_evidence: evidence,
        };
        let p = fit.predict(&Values::from(x.clone()), &How::new(100, Key::new(1))).unwrap();
        let found = p.log_likelihood(&[y])[0];
        let expected = integral(mean[0], variance[0], density).ln();
        assert!((found - expected).abs() < 2e-5, "{name}: {found} {expected}");
    }
}

/// Functions drawn have the mean and the covariance of the posterior at rows.
#[test]
fn drawn_functions_have_the_posterior_of_every_output() {
    let (x, y) = rows(14, 21);
    let (new, _) = rows(2, 22);
    for likelihood in [likelihood_of("bernoulli", 2, &[]), likelihood_of("categorical", 3, &[])] {
        let y = targets(likelihood.name(), &y);
        let kernel = Arc::new(kernel("rbf(columns=[a, b], variance~1.5) + linear"));
        let log = at(&kernel, 1.0);
        let (member, log_evidence) = Laplace::new(kernel, &*likelihood, log, x.clone().into(), y.into()).unwrap();
        let (mean, covariance) = member.predict(&new);
        let outputs = likelihood.outputs();
        let fit = GpFit {
            name: NAME,
            likelihood,
            input: Shape::Flat(6),
            members: vec![Member::Laplace(member)],
            leave_one_out: LeaveOneOut::default(),
            log_evidence,
        };
        let draws = 3000;
        let mut function = fit.functions(draws, Key::new(3), true).unwrap();
        let (mut f, mut all) = (vec![0.0; 2 * outputs], Vec::new());
        for s in 0..draws {
            function.select(s);
            function.eval(&new, &mut f);
            all.push(f.clone());
        }
        let average = |g: &dyn Fn(&[f64]) -> f64| all.iter().map(|f| g(f)).sum::<f64>() / draws as f64;
        for row in 0..2 {
            for c in 0..outputs {
                let (m, v) = (mean[row * outputs + c], covariance[(row * outputs + c) * outputs + c]);
                let found = average(&|f| f[row * outputs + c]);
                // Five standard errors.
                assert!((found - m).abs() < 5.0 * (v / draws as f64).sqrt(), "mean {found} {m}");
                for d in 0..outputs {
                    let exact = covariance[(row * outputs + c) * outputs + d];
                    let other = covariance[(row * outputs + d) * outputs + d];
                    let own = |f: &[f64]| (f[row * outputs + c] - m) * (f[row * outputs + d] - mean[row * outputs + d]);
                    let error = 5.0 * ((v * other + exact * exact) / draws as f64).sqrt();
                    assert!((average(&own) - exact).abs() < error, "{c} {d}: {} {exact}", average(&own));
                }
            }
        }
        // The gradient in x of a combination of outputs.
        let v: Vec<f64> = (0..2 * outputs).map(|i| 0.3 + i as f64).collect();
        let mut dx = vec![0.0; new.len()];
        function.eval(&new, &mut f);
        function.vjp(&new, &v, &mut dx);
        let mut moved = |by: f64| {
            let mut x = new.clone();
            x[7] += by;
            function.eval(&x, &mut f);
            dot(&f, &v)
        };
        let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!((dx[7] - difference).abs() < 1e-6 * difference.abs().max(1.0), "{} {difference}", dx[7]);
    }
}
