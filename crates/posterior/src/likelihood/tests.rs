//! Every row of the table against finite differences, quadrature, sums and its own samples.

use super::*;
use crate::Precision;
use crate::rng::Key;
use crate::settings::Value;

struct Case {
    likelihood: Arc<dyn Likelihood>,
    noise: Vec<f64>,
}

fn make(name: &str, given: &[(&str, &str)], width: usize) -> Arc<dyn Likelihood> {
    let entry = find(name).unwrap();
    let given: Vec<_> = given.iter().map(|(k, v)| (k.to_string(), Value::parse(v))).collect();
    (entry.build)(&Settings::resolve(entry.settings, &given, name).unwrap(), width).unwrap()
}

/// All likelihoods, with one target (or few classes) and with several.
fn cases() -> Vec<Case> {
    let fixed = [("noise", "fixed"), ("noise_std", "0.4")];
    // Ten degrees: the z-test on variances below needs a fourth moment.
    let (ten, ten_fixed) = ([("degrees", "10")], [("degrees", "10"), ("noise", "fixed")]);
    let all = [
        make("gaussian", &[], 1),
        make("gaussian", &[], 3),
        make("gaussian", &fixed, 1),
        make("heteroscedastic", &[], 1),
        make("heteroscedastic", &[], 2),
        make("categorical", &[], 3),
        make("categorical", &[], 10),
        make("bernoulli", &[], 2),
        make("poisson", &[], 1),
        make("poisson", &[("offset", "0.7")], 2),
        make("student-t", &ten, 1),
        make("student-t", &ten, 3),
        make("student-t", &ten_fixed, 1),
    ];
    for entry in LIKELIHOODS {
        assert!(all.iter().any(|l| l.name() == entry.name), "{} is not tested", entry.name);
    }
    let noise = |l: &Arc<dyn Likelihood>| {
        let count = l.blocks().iter().map(BlockSpec::len).sum::<usize>();
        (0..count).map(|t| -0.7 + 0.4 * t as f64).collect()
    };
    all.into_iter().map(|l| Case { noise: noise(&l), likelihood: l }).collect()
}

impl Case {
    fn label(&self) -> String {
        let l = &self.likelihood;
        format!("{} with {} outputs and {} noise parameters", l.name(), l.outputs(), self.noise.len())
    }

    /// `rows` rows: outputs of the given spread, all exactly representable in f32, and outcomes drawn near 0.
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

    /// Value, d_f, d_noise (which starts from 1: it must be added to).
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
                // At u = 9 the argument is 4000 standard deviations: ten degrees leave 1e-30 beyond it.
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
            Outcome::Count => (0..2000).map(f64::from).take_while(|y| *y <= up_to).map(|y| p(y) * g(y)).sum(),
            Outcome::Class => (0..l.classes()).map(|k| k as f64).take_while(|y| *y <= up_to).map(|y| p(y) * g(y)).sum(),
        }
    }
}

fn near(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got - want).abs() <= tolerance, "{what}: {got} and not {want}");
}

/// Outputs at which single rows are looked at: ordinary ones and ones far out.
fn corners(outputs: usize, size: f64) -> Vec<Vec<f64>> {
    let signs = [[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]];
    signs.iter().map(|s| (0..outputs).map(|i| size * s[i % 2] * (1.0 - 0.1 * i as f64)).collect()).collect()
}

#[test]
fn sum_over_rows_is_the_sum_of_single_rows_with_weights_and_scale() {
    for case in cases() {
        let l = &case.likelihood;
        for rows in [0, 1, 7, 16, 33, 150] {
            let (f, y) = case.rows(rows, 2.0, 1);
            let weights: Vec<f64> = (0..rows).map(|n| 0.25 * (n % 5) as f64).collect();
            let single: Vec<f64> = (0..rows)
                .map(|n| {
                    let f = &f[n * l.outputs()..(n + 1) * l.outputs()];
                    l.log_prob_row(f, &y[n * l.targets()..(n + 1) * l.targets()], &case.noise)
                })
                .collect();
            let plain: f64 = single.iter().sum();
            let weighted: f64 = 2.5 * single.iter().zip(&weights).map(|(v, w)| v * w).sum::<f64>();
            let room = 1e-12 * (1.0 + single.iter().map(|v| v.abs()).sum::<f64>());
            near(case.value(&f, &y, &case.noise, None, 1.0), plain, room, &case.label());
            near(case.value(&f, &y, &case.noise, Some(&weights), 2.5), weighted, 3.0 * room, &case.label());

            let (value, d_f, d_noise) = case.gradient::<f64>(&f, &y, None, 1.0);
            near(value, plain, room, &case.label());
            let (value, d_f_weighted, _) = case.gradient::<f64>(&f, &y, Some(&weights), 2.5);
            near(value, weighted, 3.0 * room, &case.label());
            for i in 0..f.len() {
                let want = 2.5 * weights[i / l.outputs()] * d_f[i];
                near(d_f_weighted[i], want, 1e-13 * (1.0 + want.abs()), &case.label());
            }
            let ones = vec![1.0; rows];
            let (_, _, doubled) = case.gradient::<f64>(&f, &y, Some(&ones), 2.0);
            for (a, b) in doubled.iter().zip(&d_noise) {
                near(*a, 2.0 * b, 1e-12 * (1.0 + b.abs()), &case.label());
            }
        }
    }
}

#[test]
fn gradient_agrees_with_finite_differences_near_and_far() {
    // Central differences: h²/6 of the third derivative, and the rounding of the value over h.
    let h = 1e-4;
    let check = |got: f64, value: &dyn Fn(f64) -> f64, what: &str| {
        let (up, down) = (value(h), value(-h));
        let room = 1e-6 * (1.0 + got.abs()) + 4.0 * f64::EPSILON * (up.abs() + down.abs()) / h;
        near(got, (up - down) / (2.0 * h), room, what);
    };
    for case in cases() {
        let outputs = case.likelihood.outputs();
        for f in corners(outputs, 0.7).into_iter().chain(corners(outputs, 4.0)).chain(corners(outputs, 30.0)) {
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
}

#[test]
fn single_precision_agrees_with_double() {
    for case in cases() {
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
}

#[test]
fn density_is_normalised_and_the_cdf_is_its_integral() {
    for case in cases().iter().filter(|c| c.likelihood.targets() == 1) {
        let l = &case.likelihood;
        for f in corners(l.outputs(), 0.3).iter().chain(&corners(l.outputs(), 3.0)) {
            near(case.expect(f, f64::INFINITY, |_| 1.0), 1.0, 1e-9, &case.label());
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
            near(mean[0], m, 1e-8 * (1.0 + m.abs()), &case.label());
            near(variance[0], v, 1e-7 * (1.0 + v), &case.label());
        }
    }
}

/// The observed Hessian by differences of the gradient; the expected one by its mean over y.
#[test]
fn hessian_is_the_curvature_or_its_expectation() {
    let h = 1e-5;
    for case in cases() {
        let l = &case.likelihood;
        let n = l.outputs();
        let fisher = ["heteroscedastic", "student-t"].contains(&l.name());
        for f in corners(n, 0.5).into_iter().chain(corners(n, 3.0)) {
            let curvature = |y: &[f64], i: usize, j: usize| {
                let slope = |h: f64| {
                    let mut f = f.clone();
                    f[j] += h;
                    case.gradient::<f64>(&f, y, None, 1.0).1[i]
                };
                (slope(-h) - slope(h)) / (2.0 * h)
            };
            let (_, y) = case.rows(1, 1.0, 5);
            let mut hessian = vec![f64::NAN; n * n];
            l.hessian_row(&f, &y, &case.noise, &mut hessian);
            for (at, got) in hessian.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let what = format!("entry {i} {j} for {} at {f:?}", case.label());
                if !fisher {
                    near(*got, curvature(&y, i, j), 1e-6 * (1.0 + got.abs()), &what);
                }
                if l.targets() == 1 {
                    let mean = case.expect(&f, f64::INFINITY, |y| curvature(&[y], i, j));
                    near(*got, mean, 1e-5 * (1.0 + got.abs()), &what);
                } else if i != j {
                    near(*got, 0.0, 0.0, &what); // targets are independent
                }
            }
        }
    }
}

/// Chance of a false alarm per comparison: 6e-7 (|z| > 5). So many draws that 2 % on a probability of 0.7 are seen.
#[test]
fn samples_have_the_moments_and_the_distribution_they_claim() {
    const N: usize = 50_000;
    for (c, case) in cases().iter().enumerate() {
        let l = &case.likelihood;
        let f: Vec<f64> = (0..l.outputs()).map(|i| 0.8 - 0.5 * i as f64).collect();
        let (mut mean, mut variance) = (vec![0.0; l.targets()], vec![0.0; l.targets()]);
        l.moments(&f, &case.noise, &mut mean, &mut variance);
        let mut stream = Stream::new(Key::new(100 + c as u64));
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
            assert!(z_mean.abs() < 5.0 && z_variance.abs() < 5.0, "{}: {z_mean} {z_variance}", case.label());
            // Kolmogorov–Smirnov, at the values drawn; D√n > 2.6 has the chance 3e-6.
            draws.sort_by(f64::total_cmp);
            for i in (0..N).filter(|i| i + 1 == N || draws[i + 1] > draws[*i]) {
                let d = l.cdf(t, draws[i], &f, &case.noise) - (i + 1) as f64 / n;
                assert!(d.abs() < 2.6 / n.sqrt(), "{}: {d} at {}", case.label(), draws[i]);
            }
        }
    }
}

#[test]
fn student_with_many_degrees_is_gaussian_and_bernoulli_is_categorical() {
    let gaussian = Case { likelihood: make("gaussian", &[], 1), noise: vec![-0.4] };
    let student = Case { likelihood: make("student-t", &[("degrees", "1e10")], 1), noise: vec![-0.4] };
    let (f, y) = gaussian.rows(50, 1.0, 7);
    let (a, b) = (gaussian.gradient::<f64>(&f, &y, None, 1.0), student.gradient::<f64>(&f, &y, None, 1.0));
    near(a.0, b.0, 1e-6, "value");
    near(a.2[0], b.2[0], 1e-6, "d_noise");
    a.1.iter().zip(&b.1).for_each(|(a, b)| near(*a, *b, 1e-7, "d_f"));
    let single = student.gradient::<f32>(&f, &y, None, 1.0);
    near(single.0, a.0, 1e-5 * a.0.abs(), "value in f32"); // log1p: 1 + z²/1e10 is 1 in f32
    for v in [-3.0, 0.1, 2.0] {
        let at = |c: &Case| c.likelihood.cdf(0, v, &[0.3], &c.noise);
        near(at(&gaussian), at(&student), 1e-8, "cdf");
    }

    let bernoulli = Case { likelihood: make("bernoulli", &[], 2), noise: vec![] };
    let categorical = Case { likelihood: make("categorical", &[], 2), noise: vec![] };
    for (f, y) in [(0.3, 1.0), (-2.0, 0.0), (30.0, 0.0), (-30.0, 1.0)] {
        let (a, b) =
            (bernoulli.gradient::<f64>(&[f], &[y], None, 1.0), categorical.gradient::<f64>(&[0.0, f], &[y], None, 1.0));
        near(a.0, b.0, 1e-13 * (1.0 + a.0.abs()), "value");
        near(a.1[0], b.1[1], 1e-14, "d_f");
    }
}

/// With more classes than fit the scratch space of a block, the value alone takes another path.
#[test]
fn many_classes() {
    let case = Case { likelihood: make("categorical", &[], 2500), noise: vec![] };
    let f: Vec<f64> = (0..5000).map(|i| f64::from(i % 37) * 0.3 - 5.0).collect();
    let y = [2499.0, 3.0];
    let want = case.likelihood.log_prob_row(&f[..2500], &y[..1], &[])
        + 0.5 * case.likelihood.log_prob_row(&f[2500..], &y[1..], &[]);
    near(case.value(&f, &y, &[], Some(&[1.0, 0.5]), 1.0), want, 1e-10, "value alone");
    let (value, d_f, _) = case.gradient::<f64>(&f, &y, Some(&[1.0, 0.5]), 1.0);
    near(value, want, 1e-10, "value with gradient");
    near(d_f[..2500].iter().sum(), 0.0, 1e-12, "a shift of all outputs changes nothing");
    near(d_f[2499], 1.0 - case.likelihood.log_prob_row(&f[..2500], &y[..1], &[]).exp(), 1e-12, "1 − p");
    near(case.gradient::<f32>(&f, &y, Some(&[1.0, 0.5]), 1.0).0, want, 1e-5 * want.abs(), "f32");
}

/// A network that has run away still gets numbers, in both precisions; outcomes that cannot be have the density 0.
#[test]
fn far_out_everything_is_finite_and_impossible_outcomes_are_impossible() {
    for case in cases() {
        for f in corners(case.likelihood.outputs(), 1e4) {
            let (_, y) = case.rows(1, 1.0, 9);
            for (value, d_f, d_noise) in
                [case.gradient::<f32>(&f, &y, None, 100.0), case.gradient::<f64>(&f, &y, None, 100.0)]
            {
                let all = d_f.iter().chain(&d_noise).all(|v| v.is_finite());
                assert!(value.is_finite() && all, "{}: {value} {d_f:?} {d_noise:?}", case.label());
            }
        }
        if case.likelihood.outcome() != Outcome::Real {
            let (f, mut y) = case.rows(1, 1.0, 9);
            for impossible in [-1.0, 0.5, if case.likelihood.classes() > 0 { 10.0 } else { -2.0 }] {
                y[0] = impossible;
                assert_eq!(case.value(&f, &y, &[], None, 1.0), f64::NEG_INFINITY, "{}", case.label());
                assert_eq!(case.gradient::<f32>(&f, &y, None, 1.0).0, f64::NEG_INFINITY, "{}", case.label());
                assert_eq!(case.likelihood.log_prob_row(&f, &y, &[]), f64::NEG_INFINITY, "{}", case.label());
            }
        }
    }
}

#[test]
fn names_defaults_and_wrong_widths() {
    let message = find("gausian").unwrap_err().to_string();
    assert_eq!(message, "there is no likelihood 'gausian'; did you mean 'gaussian'?");
    let defaults = [(Outcome::Real, 0), (Outcome::Count, 0), (Outcome::Class, 2), (Outcome::Class, 7)];
    let names = defaults.map(|(outcome, classes)| default_for(outcome, classes));
    assert_eq!(names, ["gaussian", "poisson", "bernoulli", "categorical"]);
    for (entry, width) in LIKELIHOODS.iter().zip([0, 0, 1, 3, 0, 0]) {
        let settings = Settings::resolve(entry.settings, &[], entry.name).unwrap();
        assert!((entry.build)(&settings, width).is_err(), "{} of {width}", entry.name);
        let good = (entry.build)(&settings, 2).unwrap();
        assert_eq!((good.name(), good.outcome(), good.settings()), (entry.name, entry.outcome, &settings));
    }
    let learned = make("gaussian", &[("noise_std", "0.5"), ("noise_prior_mean", "-2")], 3);
    assert_eq!(learned.blocks()[0].shape, [3]);
    assert_eq!((learned.noise_prior(), learned.initial_noise()), ((-2.0, 1.0), 0.5_f64.ln()));
    assert!(make("gaussian", &[("noise", "fixed")], 3).blocks().is_empty());
}
