//! Likelihoods against finite differences, quadrature, sums and their own samples.

use super::{expect_settings, near};
use crate::statistics::{ALPHA, ks_critical};
use posterior::Precision;
use posterior::likelihood::{Likelihood, LikelihoodGradient, Outcome};
use posterior::rng::{Key, Stream};
use posterior::settings::{Settings, Value};
use std::sync::Arc;

/// A likelihood, and values of its own parameters (unconstrained form) at which it is looked at.
#[derive(Debug)]
pub struct LikelihoodCase {
    /// p(y | f).
    pub likelihood: Arc<dyn Likelihood>,
    /// Its own parameters.
    pub noise: Vec<f64>,
}

impl LikelihoodCase {
    /// The registered one of that name with settings written as text, for so many targets or classes.
    ///
    /// # Panics
    /// If there is none, or the settings are refused; or if a wrong setting is not.
    #[track_caller]
    pub fn named(name: &str, given: &[(&str, &str)], width: usize) -> LikelihoodCase {
        let entry = posterior::likelihood::find(name).unwrap_or_else(|e| panic!("{e}"));
        let make = |given: &[(String, Value)]| {
            (entry.build)(&Settings::resolve(entry.settings, given, &format!("likelihood '{name}'"))?, width)
        };
        expect_settings(name, entry.settings, |given| make(given).map(drop));
        let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), Value::parse(v))).collect();
        let likelihood = make(&given).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((likelihood.name(), likelihood.outcome()), (name, entry.outcome), "as its entry says");
        LikelihoodCase::of(likelihood)
    }

    /// One that was made before.
    pub fn of(likelihood: Arc<dyn Likelihood>) -> LikelihoodCase {
        let count = likelihood.blocks().iter().map(|b| b.len()).sum::<usize>();
        LikelihoodCase { noise: (0..count).map(|t| -0.7 + 0.4 * t as f64).collect(), likelihood }
    }

    fn label(&self) -> String {
        let l = &self.likelihood;
        format!("{} with {} outputs and {} noise parameters", l.name(), l.outputs(), self.noise.len())
    }

    /// Outputs of a spread, exact in f32, and outcomes drawn near 0.
    fn rows(&self, rows: usize, spread: f64, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let l = &self.likelihood;
        let mut stream = Stream::new(Key::new(seed));
        let f: Vec<f64> = (0..rows * l.outputs()).map(|_| f64::from((spread * stream.normal()) as f32)).collect();
        let mut y = vec![0.0; rows * l.targets()];
        for y in y.chunks_exact_mut(l.targets()) {
            let near: Vec<f64> = (0..l.outputs()).map(|_| stream.normal()).collect();
            l.sample(&near, &self.noise, &mut stream, y);
            y.iter_mut().for_each(|y| *y = f64::from(*y as f32));
        }
        (f, y)
    }

    fn value(&self, f: &[f64], y: &[f64], noise: &[f64], weights: Option<&[f64]>, scale: f64) -> f64 {
        f64::likelihood(&*self.likelihood).log_prob(f, y, noise, weights, scale, None)
    }

    /// Value, d_f, d_noise (which starts from 1: it has to be added to).
    fn gradient<R: Precision>(
        &self,
        f: &[f64],
        y: &[f64],
        weights: Option<&[f64]>,
        scale: f64,
    ) -> (f64, Vec<f64>, Vec<f64>) {
        let to = |x: &[f64]| x.iter().map(|v| R::of(*v)).collect::<Vec<R>>();
        let mut d_f = vec![R::of(f64::NAN); f.len()];
        let mut d_noise = vec![1.0; self.noise.len()];
        let gradient = LikelihoodGradient { d_f: &mut d_f, d_noise: &mut d_noise };
        let weights = weights.map(to);
        let ops = R::likelihood(&*self.likelihood);
        let value = ops.log_prob(&to(f), &to(y), &to(&self.noise), weights.as_deref(), scale, Some(gradient));
        (value, d_f.iter().map(|v| v.f64()).collect(), d_noise.iter().map(|v| v - 1.0).collect())
    }

    /// E[g(y)] given f, for one target: by Simpson's rule in u with y = f + sinh u, or by summing; with y ≤ `up_to`.
    fn expect(&self, f: &[f64], up_to: f64, g: impl Fn(f64) -> f64) -> f64 {
        let l = &self.likelihood;
        let p = |y: f64| l.log_prob_row(f, &[y], &self.noise).exp();
        match l.outcome() {
            Outcome::Real => {
                let (mut mean, mut variance) = ([0.0], [0.0]);
                l.moments(f, &self.noise, &mut mean, &mut variance);
                let std = variance[0].sqrt();
                // At u = 9 the argument is 4000 standard deviations: a Student-t of ten degrees leaves 1e-30 beyond it.
                let end = ((up_to - f[0]) / std).asinh().min(9.0);
                let n = 4000;
                let h = (end + 9.0) / f64::from(n);
                let at = |i: i32| {
                    let u = -9.0 + h * f64::from(i);
                    let y = f[0] + std * u.sinh();
                    p(y) * g(y) * std * u.cosh()
                };
                let inner: f64 = (1..n).map(|i| at(i) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
                (at(0) + inner + at(n)) * h / 3.0
            }
            Outcome::Class => (0..l.classes()).map(|k| k as f64).take_while(|y| *y <= up_to).map(|y| p(y) * g(y)).sum(),
            _ => (0..2000).map(f64::from).take_while(|y| *y <= up_to).map(|y| p(y) * g(y)).sum(),
        }
    }
}

/// Outputs at which single rows are looked at.
fn corners(outputs: usize, size: f64) -> Vec<Vec<f64>> {
    let signs = [[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]];
    signs.iter().map(|s| (0..outputs).map(|i| size * s[i % 2] * (1.0 - 0.1 * i as f64)).collect()).collect()
}

/// Everything that is asked of a likelihood.
///
/// # Panics
/// If it breaks a rule.
#[track_caller]
pub fn expect_likelihood(case: &LikelihoodCase) {
    sums(case);
    gradients(case);
    both_precisions(case);
    if case.likelihood.targets() == 1 {
        normalised(case);
    }
    curvature(case);
    samples(case);
    far_out(case);
}

/// The sum over rows is that of single rows, with weights and scale.
fn sums(case: &LikelihoodCase) {
    let l = &case.likelihood;
    for rows in [0, 1, 7, 16, 33, 150] {
        let (f, y) = case.rows(rows, 2.0, 1);
        let weights: Vec<f64> = (0..rows).map(|n| 0.25 * (n % 5) as f64).collect();
        let (k, t) = (l.outputs(), l.targets());
        let single = |n: usize| l.log_prob_row(&f[n * k..(n + 1) * k], &y[n * t..(n + 1) * t], &case.noise);
        let single: Vec<f64> = (0..rows).map(single).collect();
        let plain: f64 = single.iter().sum();
        let weighted: f64 = 2.5 * single.iter().zip(&weights).map(|(v, w)| v * w).sum::<f64>();
        // Rounding of sums, in proportion to what is added up.
        let room = 1e-12 * (1.0 + single.iter().map(|v| v.abs()).sum::<f64>());
        near(case.value(&f, &y, &case.noise, None, 1.0), plain, room, &case.label());
        near(case.value(&f, &y, &case.noise, Some(&weights), 2.5), weighted, 3.0 * room, &case.label());
        let (value, d_f, d_noise) = case.gradient::<f64>(&f, &y, None, 1.0);
        near(value, plain, room, &case.label());
        let (value, d_f_weighted, _) = case.gradient::<f64>(&f, &y, Some(&weights), 2.5);
        near(value, weighted, 3.0 * room, &case.label());
        for i in 0..f.len() {
            let want = 2.5 * weights[i / k] * d_f[i];
            near(d_f_weighted[i], want, 1e-13 * (1.0 + want.abs()), &case.label());
        }
        let (_, _, doubled) = case.gradient::<f64>(&f, &y, Some(&vec![1.0; rows]), 2.0);
        for (a, b) in doubled.iter().zip(&d_noise) {
            near(*a, 2.0 * b, 1e-12 * (1.0 + b.abs()), &case.label());
        }
    }
}

/// Gradients in f and in the noise by central differences: h²/6 of the third derivative, and the rounding of the value over h.
fn gradients(case: &LikelihoodCase) {
    let h = 1e-4;
    let check = |got: f64, value: &dyn Fn(f64) -> f64, what: &str| {
        let (up, down) = (value(h), value(-h));
        let room = 1e-6 * (1.0 + got.abs()) + 4.0 * f64::EPSILON * (up.abs() + down.abs()) / h;
        near(got, (up - down) / (2.0 * h), room, what);
    };
    let outputs = case.likelihood.outputs();
    for f in [0.7, 4.0, 30.0].into_iter().flat_map(|size| corners(outputs, size)) {
        let (_, y) = case.rows(1, 1.0, 2);
        let (_, d_f, d_noise) = case.gradient::<f64>(&f, &y, Some(&[0.7]), 1.9);
        for i in 0..outputs {
            let at = |h: f64| {
                let mut f = f.clone();
                f[i] += h;
                case.value(&f, &y, &case.noise, Some(&[0.7]), 1.9)
            };
            check(d_f[i], &at, &format!("d/df{i} of {} at {f:?}, {y:?}", case.label()));
        }
        for i in 0..case.noise.len() {
            let at = |h: f64| {
                let mut noise = case.noise.clone();
                noise[i] += h;
                case.value(&f, &y, &noise, Some(&[0.7]), 1.9)
            };
            check(d_noise[i], &at, &format!("d/d noise{i} of {} at {f:?}, {y:?}", case.label()));
        }
    }
}

/// 100 rows of numbers of the size of 1, each rounded to 6e-8.
fn both_precisions(case: &LikelihoodCase) {
    for spread in [1.0, 10.0] {
        let (f, y) = case.rows(100, spread, 3);
        let (value, d_f, d_noise) = case.gradient::<f64>(&f, &y, None, 3.0);
        let (value32, d_f32, d_noise32) = case.gradient::<f32>(&f, &y, None, 3.0);
        near(value32, value, 1e-5 * value.abs(), &case.label());
        for (a, b) in d_f32.iter().zip(&d_f) {
            near(*a, *b, 1e-5 * (3.0 + b.abs()), &case.label());
        }
        for (a, b) in d_noise32.iter().zip(&d_noise) {
            near(*a, *b, 1e-5 * (300.0 + b.abs()), &case.label()); // 100 rows times 3 stand in the sum
        }
    }
}

/// The density integrates to 1, the distribution function is its integral, the moments are its moments.
fn normalised(case: &LikelihoodCase) {
    let l = &case.likelihood;
    for f in corners(l.outputs(), 0.3).iter().chain(&corners(l.outputs(), 3.0)) {
        near(case.expect(f, f64::INFINITY, |_| 1.0), 1.0, 1e-9, &format!("total probability of {}", case.label()));
        for value in [-1.5, 0.0, 0.4, 2.0, 7.0] {
            let what = format!("cdf at {value} of {} at {f:?}", case.label());
            near(l.cdf(0, value, f, &case.noise), case.expect(f, value, |_| 1.0), 1e-8, &what);
        }
        let mut p = vec![0.0; l.classes()];
        l.probabilities(f, &mut p);
        for (k, p) in p.iter().enumerate() {
            near(*p, l.log_prob_row(f, &[k as f64], &case.noise).exp(), 1e-14, &case.label());
        }
        let (mut mean, mut variance) = ([0.0], [0.0]);
        l.moments(f, &case.noise, &mut mean, &mut variance);
        let m = case.expect(f, f64::INFINITY, |y| y);
        let v = case.expect(f, f64::INFINITY, |y| (y - m).powi(2));
        near(mean[0], m, 1e-8 * (1.0 + m.abs()), &format!("mean of {}", case.label()));
        near(variance[0], v, 1e-7 * (1.0 + v), &format!("variance of {}", case.label()));
    }
}

/// `hessian_row` is the curvature at the outcome by differences of the gradient, or its expectation, which is E[g gᵀ] over outcomes drawn.
fn curvature(case: &LikelihoodCase) {
    let (l, h, n) = (&case.likelihood, 1e-5, case.likelihood.outputs());
    for f in corners(n, 0.5).into_iter().chain(corners(n, 3.0)) {
        let slope = |y: &[f64], j: usize, h: f64| {
            let mut f = f.clone();
            f[j] += h;
            case.gradient::<f64>(&f, y, None, 1.0).1
        };
        let (_, y) = case.rows(1, 1.0, 5);
        let mut hessian = vec![f64::NAN; n * n];
        l.hessian_row(&f, &y, &case.noise, &mut hessian);
        let observed = |y: &[f64]| -> Vec<f64> {
            let columns: Vec<_> = (0..n).map(|j| (slope(y, j, -h), slope(y, j, h))).collect();
            (0..n * n).map(|at| (columns[at % n].0[at / n] - columns[at % n].1[at / n]) / (2.0 * h)).collect()
        };
        let at_y = observed(&y);
        if hessian.iter().zip(&at_y).all(|(a, b)| (a - b).abs() <= 1e-6 * (1.0 + a.abs())) {
            continue;
        }
        // One target: by quadrature. Several: by 20 000 draws, five standard errors.
        const DRAWS: usize = 20_000;
        if l.targets() == 1 {
            for (at, got) in hessian.iter().enumerate() {
                let mean = case.expect(&f, f64::INFINITY, |y| observed(&[y])[at]);
                let what = format!("entry {} {} of the curvature of {} at {f:?}", at / n, at % n, case.label());
                near(*got, mean, 1e-5 * (1.0 + got.abs()), &what);
            }
            continue;
        }
        let (mut sums, mut squares) = (vec![0.0; n * n], vec![0.0; n * n]);
        let (mut stream, mut y) = (Stream::new(Key::new(6)), vec![0.0; l.targets()]);
        for _ in 0..DRAWS {
            l.sample(&f, &case.noise, &mut stream, &mut y);
            let g = case.gradient::<f64>(&f, &y, None, 1.0).1;
            for at in 0..n * n {
                let product = g[at / n] * g[at % n];
                sums[at] += product;
                squares[at] += product * product;
            }
        }
        for at in 0..n * n {
            let mean = sums[at] / DRAWS as f64;
            let error = ((squares[at] / DRAWS as f64 - mean * mean) / DRAWS as f64).sqrt();
            let what = format!("entry {} {} of the curvature of {} at {f:?}", at / n, at % n, case.label());
            near(hessian[at], mean, 5.0 * error + 1e-9, &what);
        }
    }
}

/// Samples have the moments and the distribution that are claimed. |z| > 5 has the chance 6e-7; 2 % on a probability of 0.7 are seen.
fn samples(case: &LikelihoodCase) {
    const N: usize = 50_000;
    let l = &case.likelihood;
    let f: Vec<f64> = (0..l.outputs()).map(|i| 0.8 - 0.5 * i as f64).collect();
    let (mut mean, mut variance) = (vec![0.0; l.targets()], vec![0.0; l.targets()]);
    l.moments(&f, &case.noise, &mut mean, &mut variance);
    let mut stream = Stream::new(Key::new(100));
    let mut y = vec![0.0; l.targets()];
    let mut draws = vec![Vec::with_capacity(N); l.targets()];
    for _ in 0..N {
        l.sample(&f, &case.noise, &mut stream, &mut y);
        draws.iter_mut().zip(&y).for_each(|(d, y)| d.push(*y));
    }
    for (t, draws) in draws.iter_mut().enumerate() {
        let n = N as f64;
        let average = |g: &dyn Fn(f64) -> f64| draws.iter().map(|y| g(*y)).sum::<f64>() / n;
        let second = average(&|y| (y - mean[t]).powi(2));
        let fourth = average(&|y| (y - mean[t]).powi(4));
        let z_mean = (average(&|y| y) - mean[t]) / (variance[t] / n).sqrt();
        let z_variance = (second - variance[t]) / ((fourth - second * second) / n).sqrt();
        assert!(z_mean.abs() < 5.0 && z_variance.abs() < 5.0, "samples of {}: z {z_mean} {z_variance}", case.label());
        draws.sort_by(f64::total_cmp);
        for i in (0..N).filter(|i| i + 1 == N || draws[i + 1] > draws[*i]) {
            let d = l.cdf(t, draws[i], &f, &case.noise) - (i + 1) as f64 / n;
            assert!(d.abs() < ks_critical(N, ALPHA), "samples of {}: {d} at {}", case.label(), draws[i]);
        }
    }
}

/// A network that has run away still gets numbers, in both precisions; outcomes that cannot be have the density 0.
fn far_out(case: &LikelihoodCase) {
    let l = &case.likelihood;
    for f in corners(l.outputs(), 1e4) {
        let (_, y) = case.rows(1, 1.0, 9);
        let both = [case.gradient::<f32>(&f, &y, None, 100.0), case.gradient::<f64>(&f, &y, None, 100.0)];
        for (value, d_f, d_noise) in both {
            let all = d_f.iter().chain(&d_noise).all(|v| v.is_finite());
            assert!(value.is_finite() && all, "{} at {f:?}: {value} {d_f:?} {d_noise:?}", case.label());
        }
    }
    if l.outcome() != Outcome::Real {
        let (f, mut y) = case.rows(1, 1.0, 9);
        for impossible in [-1.0, 0.5, if l.classes() > 0 { l.classes() as f64 } else { -2.0 }] {
            y[0] = impossible;
            let values = [case.value(&f, &y, &case.noise, None, 1.0), case.gradient::<f32>(&f, &y, None, 1.0).0];
            let row = l.log_prob_row(&f, &y, &case.noise);
            assert!(values.iter().chain([&row]).all(|v| *v == f64::NEG_INFINITY), "{}: {impossible}", case.label());
        }
    }
}
