//! Either direction on a normal, on two peaks and on a bent density: against closed forms, quadrature and the other divergences.

use super::*;
use crate::distribution::kl;
use crate::math::linalg::testing::close;
use posterior_testing::expect_gradient;

type LogDensity = Box<dyn Fn(&[f64], &mut [f64]) -> f64>;

fn normal(mean: &[f64], covariance: &[f64]) -> MultivariateNormal {
    MultivariateNormal::new(mean.to_vec(), covariance).unwrap()
}

/// log Σ wₖ N(x | mₖ, Σₖ) of two normals, up to `constant`.
fn mixture(parts: [(f64, MultivariateNormal); 2], constant: f64) -> LogDensity {
    let precision = |q: &MultivariateNormal| Cholesky::new(&q.covariance(), q.dim()).unwrap().inverse();
    let precisions = [precision(&parts[0].1), precision(&parts[1].1)];
    Box::new(move |x, gradient| {
        let logs = [0, 1].map(|k| parts[k].0.ln() + parts[k].1.log_density(x));
        let largest = logs[0].max(logs[1]);
        let sum = logs.iter().map(|l| (l - largest).exp()).sum::<f64>();
        gradient.fill(0.0);
        for k in [0, 1] {
            let share = (logs[k] - largest).exp() / sum;
            let d: Vec<f64> = x.iter().zip(parts[k].1.mean()).map(|(x, m)| x - m).collect();
            for (g, row) in gradient.iter_mut().zip(precisions[k].chunks(x.len())) {
                *g -= share * dot(row, &d);
            }
        }
        largest + sum.ln() + constant
    })
}

/// log N(x | m, Σ) without its constant.
fn single(q: &MultivariateNormal) -> LogDensity {
    let (mean, precision) = (q.mean().to_vec(), Cholesky::new(&q.covariance(), q.dim()).unwrap().inverse());
    Box::new(move |x, gradient| {
        let n = x.len();
        let slope = |i: usize| -(0..n).map(|j| precision[i * n + j] * (x[j] - mean[j])).sum::<f64>();
        (0..n).for_each(|i| gradient[i] = slope(i));
        0.5 * (0..n).map(|i| gradient[i] * (x[i] - mean[i])).sum::<f64>()
    })
}

fn two_peaks() -> [(f64, MultivariateNormal); 2] {
    [(0.6, normal(&[-2.0, -1.0], &[0.5, 0.2, 0.2, 0.4])), (0.4, normal(&[2.5, 1.0], &[0.3, -0.1, -0.1, 0.5]))]
}

/// x₁ ~ N(0, 1.2²), x₂ | x₁ ~ N(0.6 (x₁² − 1.44) + 0.3 x₁, 0.4²), without its constant.
fn bent(x: &[f64], gradient: &mut [f64]) -> f64 {
    let off = (x[1] - 0.6 * (x[0] * x[0] - 1.44) - 0.3 * x[0]) / 0.16;
    gradient[0] = -x[0] / 1.44 + off * (1.2 * x[0] + 0.3);
    gradient[1] = -off;
    -x[0] * x[0] / 2.88 - 0.08 * off * off
}

#[test]
fn gradients_of_the_densities_here() {
    let peaks = mixture(two_peaks(), 0.0);
    for at in [[-2.0, 0.5], [0.3, 0.1], [2.0, 1.5]] {
        for density in [&*peaks, &bent] {
            let value_and_gradient = |x: &[f64]| {
                let mut gradient = vec![0.0; 2];
                (density(x, &mut gradient), gradient)
            };
            expect_gradient(value_and_gradient, &at, 1e-8);
        }
    }
}

/// Where q can be p, both directions find p. A sum on the grid is exact to rounding; the uphill search ends where its gain is
/// below 1e-12, that is within 1e-6 of the optimum.
#[test]
fn a_normal_is_found_by_either_direction() {
    let targets = [
        (vec![0.7], vec![2.3]),
        (vec![1.0, -2.0], vec![1.5, -0.9, -0.9, 0.8]),
        (vec![0.3, 0.0, -1.0], vec![1.0, 0.3, -0.2, 0.3, 0.8, 0.1, -0.2, 0.1, 1.4]),
    ];
    for (mean, covariance) in targets {
        let d = mean.len();
        let (p, wide) = (normal(&mean, &covariance), (0..d * d).map(|k| if k / d == k % d { 4.0 } else { 0.0 }));
        let wide = normal(&vec![0.0; d], &wide.collect::<Vec<f64>>());
        let target = Normalised::new(single(&p), wide.clone()).unwrap();
        assert!((target.log_normaliser() + p.log_density(&mean)).abs() < 1e-9, "{}", target.log_normaliser());
        let (forward, reverse) = (target.forward().unwrap(), target.reverse(&wide).unwrap());
        close(forward.mean(), &mean, 1e-9);
        close(&forward.covariance(), &covariance, 1e-9);
        close(reverse.mean(), &mean, 1e-6);
        close(&reverse.covariance(), &covariance, 1e-6);
        // And the divergences of another normal are those of the closed forms.
        assert!((target.kl_from(&wide).unwrap() - kl::multivariate(&wide, &p).unwrap()).abs() < 1e-9);
        assert!((target.kl_to(&wide).unwrap() - kl::multivariate(&p, &wide).unwrap()).abs() < 1e-9);
        assert!(target.kl_from(&reverse).unwrap().abs() < 1e-9 && target.kl_to(&forward).unwrap().abs() < 1e-9);
    }
}

#[test]
fn two_peaks_are_covered_by_one_direction_and_told_apart_by_the_other() {
    let parts = two_peaks();
    let target = Normalised::new(mixture(parts.clone(), -3.0), normal(&[0.0; 2], &[2.0, 0.0, 0.0, 1.5])).unwrap();
    assert!((target.log_normaliser() + 3.0).abs() < 1e-9);
    // Forward: mean and covariance of the mixture, by the law of total variance.
    let mean: Vec<f64> = (0..2).map(|i| parts.iter().map(|(w, q)| w * q.mean()[i]).sum()).collect();
    let about = |q: &MultivariateNormal, k: usize| {
        q.covariance()[k] + (q.mean()[k / 2] - mean[k / 2]) * (q.mean()[k % 2] - mean[k % 2])
    };
    let covariance: Vec<f64> = (0..4).map(|k| parts.iter().map(|(w, q)| w * about(q, k)).sum()).collect();
    let forward = target.forward().unwrap();
    close(forward.mean(), &mean, 1e-9);
    close(&forward.covariance(), &covariance, 1e-9);
    // Reverse: one peak each, and the divergence is what it costs to leave the other out, −ln w. The peaks are five
    // standard deviations apart: q feels the other one by a few thousandths.
    for (weight, peak) in &parts {
        let q = target.reverse(&normal(peak.mean(), &[1.0, 0.0, 0.0, 1.0])).unwrap();
        close(q.mean(), peak.mean(), 0.02);
        close(&q.covariance(), &peak.covariance(), 0.02);
        let divergence = target.kl_from(&q).unwrap();
        assert!((divergence + weight.ln()).abs() < 0.01, "{divergence} for {weight}");
        // Each is the best of the two by its own measure.
        assert!(divergence < target.kl_from(&forward).unwrap());
        assert!(target.kl_to(&forward).unwrap() < target.kl_to(&q).unwrap());
    }
}

#[test]
fn divergences_agree_with_monte_carlo_on_a_bent_density() {
    // Where x₁ is 7, eight standard deviations from what is usual, x₂ is 30.
    let target = Normalised::new(bent, normal(&[0.0, 16.0], &[1.2, 0.0, 0.0, 6.0])).unwrap();
    // ∫ = 2π · 1.2 · 0.4, and the moments of x₂ follow from those of x₁: E x₁⁴ = 3 · 1.2⁴.
    let exact = (std::f64::consts::TAU * 1.2 * 0.4).ln();
    assert!((target.log_normaliser() - exact).abs() < 1e-8, "{}", target.log_normaliser() - exact);
    let forward = target.forward().unwrap();
    let variance = 0.16 + 0.36 * 2.0 * 1.44f64.powi(2) + 0.09 * 1.44;
    close(forward.mean(), &[0.0, 0.0], 1e-7);
    close(&forward.covariance(), &[1.44, 0.432, 0.432, variance], 1e-6);
    // A different sum altogether: 10⁵ draws of q, and of p through its construction; within five standard errors.
    let reverse = target.reverse(&normal(&[0.5, 0.5], &[0.5, 0.0, 0.0, 0.5])).unwrap();
    for q in [&forward, &reverse] {
        let mut stream = crate::rng::Stream::new(crate::rng::Key::new(8));
        let mut x = vec![0.0; 2];
        let from = kl::estimate(100_000, || {
            q.sample(&mut stream, &mut x);
            q.log_density(&x) - target.log_density(&x)
        });
        let to = kl::estimate(100_000, || {
            let x = 1.2 * stream.normal();
            let x = [x, 0.6 * (x * x - 1.44) + 0.3 * x + 0.4 * stream.normal()];
            target.log_density(&x) - q.log_density(&x)
        });
        for (exact, estimate) in [(target.kl_from(q), from), (target.kl_to(q), to)] {
            let (exact, estimate) = (exact.unwrap(), estimate.unwrap());
            let z = (exact - estimate.value) / estimate.standard_error;
            assert!(z.abs() < 5.0, "{exact} against {estimate:?}: z = {z:.2}");
        }
    }
    // No normal close to it is better by its measure.
    for k in 0..5 {
        for by in [-0.05, 0.05] {
            let nudged = |q: &MultivariateNormal| {
                let (mut mean, mut covariance) = (q.mean().to_vec(), q.covariance());
                match k {
                    0 | 1 => mean[k] += by,
                    2 => (covariance[1], covariance[2]) = (covariance[1] + by, covariance[2] + by),
                    _ => covariance[if k == 3 { 0 } else { 3 }] *= 1.0 + by,
                }
                normal(&mean, &covariance)
            };
            let (f, r) = (nudged(&forward), nudged(&reverse));
            assert!(target.kl_to(&f).unwrap() > target.kl_to(&forward).unwrap());
            assert!(target.kl_from(&r).unwrap() > target.kl_from(&reverse).unwrap());
        }
    }
}

#[test]
fn grids_that_do_not_fit_are_told() {
    let standard = || single(&normal(&[0.0; 2], &[1.0, 0.0, 0.0, 1.0]));
    let refused = |cover: &MultivariateNormal, part: &str| {
        let e = Normalised::new(standard(), cover.clone()).map(|_| ()).unwrap_err().to_string();
        assert!(e.contains(part), "{e}");
    };
    refused(&normal(&[0.0; 2], &[0.1, 0.0, 0.0, 1.0]), "wider");
    refused(&normal(&[0.0; 2], &[1e4, 0.0, 0.0, 1e4]), "narrower");
    refused(&normal(&[0.0; 4], &crate::math::linalg::testing::positive(1, 4)), "from 1 to 3");
    let p = Normalised::new(standard(), normal(&[0.0; 2], &[1.0, 0.0, 0.0, 1.0])).unwrap();
    assert!(p.reverse(&normal(&[0.0], &[1.0])).is_err() && p.kl_to(&normal(&[0.0], &[1.0])).is_err());
}
