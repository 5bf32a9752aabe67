//! Priors against finite differences, quadrature and their own samples.

use super::{expect_same_on_threads, expect_settings, near};
use posterior::Precision;
use posterior::nn::{BlockSpec, Layout, Role};
use posterior::prior::{BlockPrior, NormalBlock, Prior, find};
use posterior::rng::{Key, Stream};
use posterior::settings::{Settings, Value};

/// The registered prior of that name, with settings written as text: its table, its density, its standard deviation.
///
/// # Panics
/// If it breaks a rule.
#[track_caller]
pub fn expect_prior(name: &str, given: &[(&str, &str)]) {
    let entry = find(name).unwrap_or_else(|e| panic!("{e}"));
    let owner = format!("prior '{name}'");
    let resolve = |given: &[(String, Value)]| Settings::resolve(entry.settings, given, &owner);
    expect_settings(name, entry.settings, |given| (entry.build)(&resolve(given)?, Some(0.8)).map(drop));
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), Value::parse(v))).collect();
    let settings = resolve(&given).unwrap_or_else(|e| panic!("{e}"));
    let build = |std| (entry.build)(&settings, Some(std)).unwrap_or_else(|e| panic!("{e}"));
    expect_block_prior(name, &*build(0.8));
    all_blocks(name, &settings);
    if (entry.std)(&settings, Role::Weight).is_some() {
        let std = integral(&*build(0.37), f64::INFINITY, |w| w * w).sqrt();
        near(std, 0.37, 1e-6, &format!("standard deviation of {name}"));
    }
}

/// The densities of one block.
///
/// # Panics
/// If they break a rule.
#[track_caller]
pub fn expect_block_prior(name: &str, prior: &dyn BlockPrior) {
    gradients(name, prior);
    sums(name, prior);
    near(integral(prior, f64::INFINITY, |_| 1.0), 1.0, 2e-6, &format!("total probability of {name}"));
    samples(name, prior);
    divergence(name, prior);
}

/// As the prior of weights, biases and a noise parameter: the sum of its blocks, also where a block is long.
fn all_blocks(name: &str, settings: &Settings) {
    let mut layout = Layout::default();
    layout.push(0, &BlockSpec::new("weight", vec![70_000], Role::Weight, 7));
    layout.push(0, &BlockSpec::new("bias", vec![10], Role::Bias, 7));
    layout.push(1, &BlockSpec::new("log_noise", vec![1], Role::Noise, 1));
    let prior = Prior::new(name, settings, &layout, (-1.0, 0.6)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut w = vec![0.0_f32; layout.len()];
    prior.sample(Key::new(3), &mut w);
    let (value, gradient) = expect_same_on_threads(name, || {
        let mut gradient = vec![0.0_f32; w.len()];
        (prior.log_density(&w, 1.0, Some(&mut gradient)), gradient)
    });
    let mut sum = 0.0;
    for (range, block) in prior.blocks() {
        let mut part = vec![0.0_f32; range.len()];
        sum += f32::prior(&**block).log_density(0, &w[range.clone()], 1.0, Some(&mut part));
        assert!(gradient[range.clone()] == part, "{name}: the gradient of a block is not that of its parts");
    }
    // The order of 70 000 sums.
    near(value, sum, 1e-10 * sum.abs(), &format!("{name} of all blocks"));
}

fn log_p(prior: &dyn BlockPrior, w: f64) -> f64 {
    f64::prior(prior).log_density(0, &[w], 1.0, None)
}

/// ∫ p(w) g(w) dw for w from −∞ to `end`, with w = ±e^u: fine near 0 as well as far out.
fn integral(prior: &dyn BlockPrior, end: f64, g: impl Fn(f64) -> f64) -> f64 {
    // Midpoints: kinks cost h², 1e-7 here. What lies within e⁻²⁵ of 0 or beyond e²⁵ is below 1e-7 as well.
    let (n, h) = (200_000, 50.0 / 200_000.0);
    let mut total = 0.0;
    for i in 0..n {
        let size = (-25.0 + h * (f64::from(i) + 0.5)).exp();
        for w in [-size, size] {
            if w <= end {
                total += log_p(prior, w).exp() * g(w) * size * h;
            }
        }
    }
    total
}

/// By central differences, and added to what is there.
fn gradients(name: &str, prior: &dyn BlockPrior) {
    for w in [-3e4, -30.0, -2.5, -0.31, -0.004, 2e-5, 0.02, 0.5, 1.3, 30.0, 1e5] {
        let h = 1e-5 * f64::abs(w);
        let mut grad = [10.0];
        let value = f64::prior(prior).log_density(0, &[w], 3.0, Some(&mut grad));
        assert_eq!(value, log_p(prior, w), "{name}: the value is not scaled");
        let slope = (log_p(prior, w + h) - log_p(prior, w - h)) / (2.0 * h);
        let room = 1e-6 * (1.0 + slope.abs()) + 4.0 * f64::EPSILON * value.abs() / h;
        near((grad[0] - 10.0) / 3.0, slope, room, &format!("gradient of {name} at {w}"));
    }
}

/// Sums are those of single parameters, with and without gradient, and single precision is near double.
fn sums(name: &str, prior: &dyn BlockPrior) {
    let mut stream = Stream::new(Key::new(1));
    for n in [0, 1, 15, 16, 40, 1000] {
        let w32: Vec<f32> = (0..n).map(|_| (stream.normal() * (2.0 * stream.normal()).exp()) as f32).collect();
        let w: Vec<f64> = w32.iter().map(|v| f64::from(*v)).collect();
        let want: f64 = w.iter().map(|w| log_p(prior, *w)).sum();
        let size: f64 = w.iter().map(|w| log_p(prior, *w).abs()).sum();
        let (mut grad, mut grad32) = (vec![0.0; n], vec![0.0_f32; n]);
        near(f64::prior(prior).log_density(0, &w, 2.0, Some(&mut grad)), want, 1e-13 * size, name);
        near(f64::prior(prior).log_density(0, &w, 2.0, None), want, 1e-13 * size, name);
        // A term may be a difference of larger numbers, each rounded to 6e-8.
        let room = 1e-6 * (size + n as f64);
        near(f32::prior(prior).log_density(0, &w32, 2.0, Some(&mut grad32)), want, room, name);
        for (a, b) in grad32.iter().zip(&grad) {
            near(f64::from(*a), *b, 1e-5 * (1.0 + b.abs()), name);
        }
    }
}

/// Shares and bounded functions of samples against integrals (a density may have no moments); |z| > 5 has the chance 6e-7.
fn samples(name: &str, prior: &dyn BlockPrior) {
    const N: usize = 40_000;
    let draw = || {
        let mut w = vec![0.0_f32; N];
        prior.sample(Key::new(50), &mut w);
        w
    };
    let w = draw();
    assert!(w == draw(), "{name}: the same key gives the same draws");
    let compare = |g: &dyn Fn(f64) -> f64, what: &str| {
        let mean = integral(prior, f64::INFINITY, g);
        let variance = integral(prior, f64::INFINITY, |w| (g(w) - mean).powi(2));
        let got = w.iter().map(|w| g(f64::from(*w))).sum::<f64>() / N as f64;
        let z = (got - mean) / (variance / N as f64).sqrt();
        assert!(z.abs() < 5.0, "samples of {name}, {what}: {got} and not {mean}, z = {z}");
    };
    compare(&f64::tanh, "tanh w");
    compare(&|w| w.abs().min(3.0), "|w| up to 3");
    compare(&|w| (w * w).min(9.0), "w² up to 9");
    compare(&|w| w.abs().max(1e-4).ln().clamp(-9.0, 12.0), "ln |w|");
    for edge in [-1.0, -0.1, -0.002, 0.0, 0.002, 0.1, 1.0, 500.0] {
        let share = integral(prior, edge, |_| 1.0);
        let got = w.iter().filter(|w| f64::from(**w) <= edge).count() as f64 / N as f64;
        let room = 5.0 * (share * (1.0 - share).max(0.0) / N as f64).sqrt() + 1e-4;
        near(got, share, room, &format!("samples of {name}: share up to {edge}"));
    }
}

/// A closed form of KL[N ‖ p] against 100 000 draws of log q − log p, within five standard errors; 0 from itself.
fn divergence(name: &str, prior: &dyn BlockPrior) {
    let half_ln_tau = 0.5 * std::f64::consts::TAU.ln();
    for (i, (m, s)) in [(0.0_f32, 0.5_f32), (1.2, 0.3), (-2.0, 1.5), (0.01, 0.02)].into_iter().enumerate() {
        let Some(closed) = prior.kl_from_normal(&[m], &[s]) else { return };
        let (mf, sf) = (f64::from(m), f64::from(s));
        let mut stream = Stream::new(Key::new(60).derive(i as u64));
        let n = 100_000;
        let term = |e: f64| -0.5 * e * e - sf.ln() - half_ln_tau - log_p(prior, mf + sf * e);
        let terms: Vec<f64> = (0..n).map(|_| term(stream.normal())).collect();
        let mean = terms.iter().sum::<f64>() / f64::from(n);
        let variance = terms.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / f64::from(n);
        near(closed, mean, 5.0 * (variance / f64::from(n)).sqrt(), &format!("KL from N({m}, {s}²) to {name}"));
    }
    if let Some((mean, std)) = prior.as_normal().and_then(NormalBlock::same) {
        let kl = prior.kl_from_normal(&[mean as f32; 19], &[std as f32; 19]);
        near(kl.unwrap_or(f64::NAN), 0.0, 1e-6, &format!("KL from {name} to itself"));
    }
}
