//! Closed forms against Monte Carlo in both directions, within five standard errors, and the laws every divergence obeys.

use super::*;
use crate::distribution::{LogUniform, ScaleMixture, StudentT};
use crate::math::linalg::testing::{normals, positive};

const DRAWS: usize = 100_000;

#[track_caller]
fn agree(closed: f64, monte_carlo: Estimate) {
    let z = (closed - monte_carlo.value) / monte_carlo.standard_error;
    assert!(closed >= 0.0 && z.abs() < 5.0, "{closed} against {monte_carlo:?}: z = {z:.2}");
    // An estimate too wide to tell is no test: a 5 % error has to be seen.
    assert!(monte_carlo.standard_error < 0.01 * closed.max(0.1), "{monte_carlo:?}");
}

#[track_caller]
fn agree_scalar(closed: f64, q: &dyn Distribution, p: &dyn Distribution) {
    agree(closed, monte_carlo(q, p, DRAWS, Key::new(5)).unwrap());
}

#[track_caller]
fn agree_multi(closed: Result<f64>, q: &dyn MultiDistribution, p: &dyn MultiDistribution) {
    agree(closed.unwrap(), monte_carlo_multi(q, p, DRAWS, Key::new(6)).unwrap());
}

#[test]
fn scalar_pairs_in_both_directions() {
    let (a, b) = (Normal::new(0.3, 0.7).unwrap(), Normal::new(-0.5, 1.2).unwrap());
    agree_scalar(normal(&a, &b), &a, &b);
    agree_scalar(normal(&b, &a), &b, &a);
    assert!((normal(&a, &b) - normal(&b, &a)).abs() > 0.1);
    let (c, d) = (Laplace::new(0.3, 0.7).unwrap(), Laplace::new(-0.5, 1.4).unwrap());
    agree_scalar(laplace(&c, &d), &c, &d);
    agree_scalar(laplace(&d, &c), &d, &c);
    assert!((laplace(&c, &d) - laplace(&d, &c)).abs() > 0.1);
    agree_scalar(normal_laplace(&a, &d), &a, &d);
    agree_scalar(laplace_normal(&d, &a), &d, &a);
    let (e, f) = (Bernoulli::new(0.2).unwrap(), Bernoulli::from_logit(0.9).unwrap());
    agree_scalar(bernoulli(&e, &f), &e, &f);
    agree_scalar(bernoulli(&f, &e), &f, &e);
    let g = Categorical::from_probabilities(&[0.2, 0.5, 0.3]).unwrap();
    let h = Categorical::from_logits(&[1.0, -1.0, 0.0]).unwrap();
    agree_scalar(categorical(&g, &h).unwrap(), &g, &h);
    agree_scalar(categorical(&h, &g).unwrap(), &h, &g);
}

#[test]
fn vector_pairs_in_both_directions() {
    let (n, r) = (4, 2);
    let a = DiagonalNormal::new(normals(1, n), vec![0.9, 1.5, 1.2, 2.0]).unwrap();
    let b = DiagonalNormal::new(normals(2, n), vec![1.1, 1.0, 0.7, 1.6]).unwrap();
    agree_multi(diagonal(&a, &b), &a, &b);
    agree_multi(diagonal(&b, &a), &b, &a);
    let c = MultivariateNormal::new(normals(3, n), &positive(4, n)).unwrap();
    let d = MultivariateNormal::from_precision(normals(5, n), &positive(6, n)).unwrap();
    agree_multi(multivariate(&c, &d), &c, &d);
    agree_multi(multivariate(&d, &c), &d, &c);
    agree_multi(multivariate_diagonal(&c, &a), &c, &a);
    agree_multi(diagonal_multivariate(&a, &c), &a, &c);
    agree_multi(multivariate_diagonal(&d, &a), &d, &a);
    agree_multi(diagonal_multivariate(&a, &d), &a, &d);
    let e = LowRankNormal::new(normals(7, n), vec![0.8, 1.2, 0.9, 1.0], normals(8, n * r), r).unwrap();
    let f = LowRankNormal::new(normals(9, n), vec![1.5, 0.7, 1.1, 1.3], normals(10, n), 1).unwrap();
    agree_multi(low_rank(&e, &f), &e, &f);
    agree_multi(low_rank(&f, &e), &f, &e);
    agree_multi(low_rank_diagonal(&e, &a), &e, &a);
    agree_multi(diagonal_low_rank(&a, &e), &a, &e);
    assert!((low_rank_diagonal(&e, &a).unwrap() - diagonal_low_rank(&a, &e).unwrap()).abs() > 0.01);
}

#[test]
fn nothing_diverges_from_itself() {
    let n = 5;
    // Rounding of sums of n terms of size 1 that cancel.
    let zero = |v: f64| assert!(v.abs() < 1e-13, "{v}");
    let a = Normal::new(0.3, 0.7).unwrap();
    assert_eq!(normal(&a, &a), 0.0);
    let d = DiagonalNormal::new(normals(1, n), vec![0.5; n]).unwrap();
    assert_eq!(diagonal(&d, &d).unwrap(), 0.0);
    let m = MultivariateNormal::new(normals(1, n), &positive(2, n)).unwrap();
    zero(multivariate(&m, &m).unwrap());
    let m = MultivariateNormal::from_precision(normals(1, n), &positive(2, n)).unwrap();
    zero(multivariate(&m, &m).unwrap());
    let l = LowRankNormal::new(normals(1, n), vec![0.5; n], normals(2, n * 2), 2).unwrap();
    zero(low_rank(&l, &l).unwrap());
    let l = Laplace::new(1.0, 2.0).unwrap();
    zero(laplace(&l, &l));
    let c = Categorical::from_logits(&normals(3, n)).unwrap();
    assert_eq!(categorical(&c, &c).unwrap(), 0.0);
    let b = Bernoulli::new(0.1).unwrap();
    assert_eq!(bernoulli(&b, &b), 0.0);
    for d in [&LogUniform::new(0.1, 3.0).unwrap() as &dyn Distribution, &StudentT::new(3.0, 0.0, 1.0).unwrap()] {
        assert_eq!(monte_carlo(d, d, 1000, Key::new(1)).unwrap(), Estimate { value: 0.0, standard_error: 0.0 });
    }
}

#[test]
fn one_formula_in_several_shapes() {
    // A diagonal written as full or as rank 0 gives the same divergence to rounding.
    let n = 3;
    let a = DiagonalNormal::new(normals(1, n), vec![0.9, 1.5, 1.2]).unwrap();
    let b = DiagonalNormal::new(normals(2, n), vec![1.1, 1.0, 0.7]).unwrap();
    let full = |d: &DiagonalNormal| {
        let covariance: Vec<f64> = (0..n * n).map(|k| if k / n == k % n { d.variance()[k / n] } else { 0.0 }).collect();
        MultivariateNormal::new(d.mean().to_vec(), &covariance).unwrap()
    };
    let thin = |d: &DiagonalNormal| LowRankNormal::new(d.mean().to_vec(), d.variance(), vec![], 0).unwrap();
    let expected = diagonal(&a, &b).unwrap();
    for got in [
        multivariate(&full(&a), &full(&b)),
        multivariate_diagonal(&full(&a), &b),
        diagonal_multivariate(&a, &full(&b)),
        low_rank(&thin(&a), &thin(&b)),
        low_rank_diagonal(&thin(&a), &b),
        diagonal_low_rank(&a, &thin(&b)),
    ] {
        assert!((got.unwrap() - expected).abs() < 1e-13);
    }
}

#[test]
fn extremes_and_errors() {
    let close = normal(&Normal::new(0.0, 1.0 + 1e-9).unwrap(), &Normal::new(0.0, 1.0).unwrap());
    assert!((close / 1e-18 - 1.0).abs() < 1e-6, "{close:e}"); // KL ≈ (δσ/σ)²; 1 + 1e-9 rounds by 1e-7 of 1e-9
    assert!(normal(&Normal::new(0.0, 1e-200).unwrap(), &Normal::new(0.0, 1e200).unwrap()).is_finite());
    let (sure, fair) = (Bernoulli::new(1.0).unwrap(), Bernoulli::new(0.5).unwrap());
    assert_eq!(bernoulli(&fair, &sure), f64::INFINITY);
    assert!((bernoulli(&sure, &fair) - 2f64.ln()).abs() < 1e-15);
    assert_eq!(monte_carlo(&fair, &sure, 1000, Key::new(1)).unwrap().value, f64::INFINITY);
    let three = Categorical::from_logits(&[0.0; 3]).unwrap();
    assert!(categorical(&three, &Categorical::from_logits(&[0.0; 2]).unwrap()).is_err());
    let one = DiagonalNormal::new(vec![0.0], vec![1.0]).unwrap();
    assert!(diagonal(&one, &DiagonalNormal::new(vec![0.0; 2], vec![1.0; 2]).unwrap()).is_err());
    assert!(monte_carlo(&fair, &fair, 1, Key::new(1)).is_err());
    // No closed form: the estimate is positive and repeats.
    let (q, p) = (Normal::new(0.0, 0.5).unwrap(), ScaleMixture::new(0.5, 1.0, 0.1).unwrap());
    let first = monte_carlo(&q, &p, 10_000, Key::new(2)).unwrap();
    assert!(first.value > 5.0 * first.standard_error);
    assert_eq!(first, monte_carlo(&q, &p, 10_000, Key::new(2)).unwrap());
}
