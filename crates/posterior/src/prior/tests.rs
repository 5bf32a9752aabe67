//! Every row of the table against finite differences, quadrature and its own samples.

use super::*;
use crate::nn::BlockSpec;
use crate::rng::Stream;
use crate::settings::Value;

fn settings(name: &str, given: &[(&str, &str)]) -> Settings {
    let given: Vec<_> = given.iter().map(|(k, v)| (k.to_string(), Value::parse(v))).collect();
    Settings::resolve(find(name).unwrap().settings, &given, name).unwrap()
}

/// Every density, with a place where it bends or jumps.
fn cases() -> Vec<(&'static str, Arc<dyn BlockPrior>)> {
    let mut all: Vec<(&'static str, Arc<dyn BlockPrior>)> = vec![
        ("normal off centre", Arc::new(Normal::new(-1.0, 0.7))),
        ("wide mixture", Arc::new(ScaleMixture::new(0.3, 1.5, 0.4))),
        ("short log-uniform", Arc::new(LogUniform::new(0.1, 2.0).unwrap())),
    ];
    for entry in PRIORS {
        all.push((entry.name, (entry.build)(&settings(entry.name, &[]), Some(0.8)).unwrap()));
    }
    all
}

fn log_p(prior: &dyn BlockPrior, w: f64) -> f64 {
    f64::prior(prior).log_density(0, &[w], 1.0, None)
}

/// ∫ p(w) g(w) dw for w from −∞ to `end`, with w = ±e^u: fine near 0 as well as far out.
fn integral(prior: &dyn BlockPrior, end: f64, g: impl Fn(f64) -> f64) -> f64 {
    // Midpoints: the kinks cost h², 1e-7 here. What lies within e⁻²⁵ of 0 or beyond e²⁵ is below 1e-7 as well.
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

fn near(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got - want).abs() <= tolerance, "{what}: {got} and not {want}");
}

#[test]
fn gradient_agrees_with_finite_differences_and_is_added() {
    for (name, prior) in cases() {
        for w in [-3e4, -30.0, -2.5, -0.31, -0.004, 2e-5, 0.02, 0.5, 1.3, 30.0, 1e5] {
            let h = 1e-5 * f64::abs(w);
            let mut grad = [10.0];
            let value = f64::prior(&*prior).log_density(0, &[w], 3.0, Some(&mut grad));
            assert_eq!(value, log_p(&*prior, w), "{name}: the value is not scaled");
            let slope = (log_p(&*prior, w + h) - log_p(&*prior, w - h)) / (2.0 * h);
            let room = 1e-6 * (1.0 + slope.abs()) + 4.0 * f64::EPSILON * value.abs() / h;
            near((grad[0] - 10.0) / 3.0, slope, room, &format!("{name} at {w}"));
        }
    }
    let mut grad = [0.0_f32; 2];
    f32::prior(&Laplace::new(1.0)).log_density(0, &[0.0, -0.0], 1.0, Some(&mut grad));
    assert_eq!(grad, [0.0, 0.0]);
}

#[test]
fn sums_agree_with_single_parameters_and_single_precision_with_double() {
    let mut stream = Stream::new(Key::new(1));
    for (name, prior) in cases() {
        for n in [0, 1, 15, 16, 40, 1000] {
            let w32: Vec<f32> = (0..n).map(|_| (stream.normal() * (2.0 * stream.normal()).exp()) as f32).collect();
            let w: Vec<f64> = w32.iter().map(|v| f64::from(*v)).collect();
            let want: f64 = w.iter().map(|w| log_p(&*prior, *w)).sum();
            let size: f64 = w.iter().map(|w| log_p(&*prior, *w).abs()).sum();
            let (mut grad, mut grad32) = (vec![0.0; n], vec![0.0_f32; n]);
            near(f64::prior(&*prior).log_density(0, &w, 2.0, Some(&mut grad)), want, 1e-13 * size, name);
            near(f64::prior(&*prior).log_density(0, &w, 2.0, None), want, 1e-13 * size, name);
            near(f32::prior(&*prior).log_density(0, &w32, 2.0, Some(&mut grad32)), want, 1e-6 * size, name);
            for (a, b) in grad32.iter().zip(&grad) {
                near(f64::from(*a), *b, 1e-5 * (1.0 + b.abs()), name);
            }
        }
    }
}

#[test]
fn densities_are_normalised() {
    for (name, prior) in cases() {
        near(integral(&*prior, f64::INFINITY, |_| 1.0), 1.0, 2e-6, name);
    }
}

/// The standard deviation asked for is the one there is: the same word in every prior.
#[test]
fn standard_deviation_is_what_it_says() {
    for entry in PRIORS {
        let settings = settings(entry.name, &[]);
        if (entry.std)(&settings, Role::Weight).is_some() {
            let prior = (entry.build)(&settings, Some(0.37)).unwrap();
            near(integral(&*prior, f64::INFINITY, |w| w * w).sqrt(), 0.37, 1e-6, entry.name);
        }
    }
}

/// Kolmogorov–Smirnov at fixed points against the integral of the density; |z| > 5 has the chance 6e-7. Bounded
/// functions of w besides, since one of the densities has no moments.
#[test]
fn samples_follow_the_density() {
    const N: usize = 40_000;
    for (c, (name, prior)) in cases().iter().enumerate() {
        let mut w = vec![0.0_f32; N];
        prior.sample(Key::new(50 + c as u64), &mut w);
        let mut again = vec![0.0_f32; N];
        prior.sample(Key::new(50 + c as u64), &mut again);
        assert_eq!(w, again);
        let compare = |g: &dyn Fn(f64) -> f64, what: &str| {
            let mean = integral(&**prior, f64::INFINITY, g);
            let variance = integral(&**prior, f64::INFINITY, |w| (g(w) - mean).powi(2));
            let got = w.iter().map(|w| g(f64::from(*w))).sum::<f64>() / N as f64;
            let z = (got - mean) / (variance / N as f64).sqrt();
            assert!(z.abs() < 5.0, "{name}, {what}: {got} and not {mean}, z = {z}");
        };
        compare(&f64::tanh, "tanh w");
        compare(&|w| w.abs().min(3.0), "|w| up to 3");
        compare(&|w| (w * w).min(9.0), "w² up to 9");
        compare(&|w| w.abs().max(1e-4).ln().clamp(-9.0, 12.0), "ln |w|");
        for edge in [-1.0, -0.1, -0.002, 0.0, 0.002, 0.1, 1.0, 500.0] {
            let share = integral(&**prior, edge, |_| 1.0);
            let got = w.iter().filter(|w| f64::from(**w) <= edge).count() as f64 / N as f64;
            let room = 5.0 * (share * (1.0 - share).max(0.0) / N as f64).sqrt() + 1e-4;
            near(got, share, room, &format!("{name}: share up to {edge}"));
        }
    }
}

/// Closed form against 100 000 draws of log q − log p, within five standard errors.
#[test]
fn closed_divergence_agrees_with_monte_carlo() {
    for (c, (name, prior)) in cases().iter().enumerate() {
        for (m, s) in [(0.0_f32, 0.5_f32), (1.2, 0.3), (-2.0, 1.5), (0.01, 0.02)] {
            let Some(closed) = prior.kl_from_normal(&[m], &[s]) else {
                assert!(["scale-mixture", "log-uniform", "wide mixture", "short log-uniform"].contains(name));
                continue;
            };
            let (mf, sf) = (f64::from(m), f64::from(s));
            let mut stream = Stream::new(Key::new(c as u64).derive(m.to_bits().into()));
            let n = 100_000;
            let terms: Vec<f64> = (0..n)
                .map(|_| {
                    let e = stream.normal();
                    -0.5 * e * e - sf.ln() - crate::math::special::HALF_LN_TAU - log_p(&**prior, mf + sf * e)
                })
                .collect();
            let mean = terms.iter().sum::<f64>() / f64::from(n);
            let variance = terms.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / f64::from(n);
            near(closed, mean, 5.0 * (variance / f64::from(n)).sqrt(), &format!("{name} from N({m}, {s}²)"));
        }
        if let Some((mean, std)) = prior.as_normal().and_then(NormalBlock::same) {
            let kl = prior.kl_from_normal(&[mean as f32; 19], &[std as f32; 19]).unwrap();
            near(kl, 0.0, 1e-6, name);
        }
    }
}

/// 3 inputs, 100 hidden units, 1 output; the likelihood's noise behind them.
fn layout() -> Layout {
    let mut layout = Layout::default();
    for (layer, inputs, outputs) in [(0, 3, 100), (2, 100, 1)] {
        layout.push(layer, &BlockSpec::new("weight", vec![inputs, outputs], Role::Weight, inputs));
        layout.push(layer, &BlockSpec::new("bias", vec![outputs], Role::Bias, inputs));
    }
    layout.push(3, &BlockSpec::new("log_noise", vec![1], Role::Noise, 1));
    layout
}

fn stds(prior: &Prior) -> Vec<f64> {
    prior.blocks().iter().map(|(_, p)| p.as_normal().unwrap().at(0).1).collect()
}

#[test]
fn fan_in_scales_weights_and_nothing_else() {
    let layout = layout();
    let build =
        |given: &[(&str, &str)]| Prior::new("normal", &settings("normal", given), &layout, (-1.0, 0.6)).unwrap();
    let scaled = build(&[("weight_std", "2"), ("bias_std", "5")]);
    assert_eq!(stds(&scaled), [2.0 / 3_f64.sqrt(), 5.0, 0.2, 5.0, 0.6]);
    assert_eq!(scaled.blocks()[4].1.as_normal().unwrap().at(0), (-1.0, 0.6));
    assert_eq!(scaled.blocks()[2].0, 400..500);
    let plain = build(&[("scaling", "none")]);
    assert_eq!(stds(&plain), [1.0, 1.0, 1.0, 1.0, 0.6]);
    let layer = scaled.clone().with_layer_std(2, 3.0, 7.0).unwrap();
    assert_eq!(stds(&layer), [2.0 / 3_f64.sqrt(), 5.0, 0.3, 7.0, 0.6]);

    let message = |p: Result<Prior>| p.unwrap_err().to_string();
    let wrong = message(scaled.clone().with_layer_std(1, 1.0, 1.0));
    assert_eq!(wrong, "layer 1 has no parameters to put a prior on; choose one of: 0, 2");
    assert!(message(scaled.clone().with_layer_std(3, 1.0, 1.0)).contains("layer 3"));
    assert!(message(scaled.with_layer_std(0, 0.0, 1.0)).contains("a number from 0.000001"));
    let uniform = Prior::new("log-uniform", &settings("log-uniform", &[]), &layout, (0.0, 1.0)).unwrap();
    assert!(message(uniform.with_layer_std(0, 1.0, 1.0)).contains("has no standard deviation"));
    let crossed = settings("log-uniform", &[("lower", "2"), ("upper", "1")]);
    assert!(message(Prior::new("log-uniform", &crossed, &layout, (0.0, 1.0))).contains("below 'upper'"));
    let any = settings("normal", &[]);
    assert!(message(Prior::new("normal", &any, &layout, (0.0, 0.0))).contains("noise"));
    assert!(message(Prior::new("norml", &any, &layout, (0.0, 1.0))).contains("did you mean 'normal'?"));
}

#[test]
fn the_prior_of_all_blocks_is_the_sum_of_its_blocks() {
    let layout = layout();
    for entry in PRIORS {
        let prior = Prior::new(entry.name, &settings(entry.name, &[]), &layout, (-1.0, 0.6)).unwrap();
        let mut w = vec![0.0_f32; layout.len()];
        prior.sample(Key::new(3), &mut w);
        let mut second = vec![0.0_f32; 100];
        prior.blocks()[2].1.sample(Key::new(3).derive(2), &mut second);
        assert_eq!(w[400..500], second);
        let mut grad = vec![1.0_f32; w.len()];
        let value = prior.log_density(&w, 0.5, Some(&mut grad));
        let mut sum = 0.0;
        for (range, density) in prior.blocks() {
            let mut part = vec![1.0_f32; range.len()];
            sum += f32::prior(&**density).log_density(0, &w[range.clone()], 0.5, Some(&mut part));
            assert_eq!(grad[range.clone()], part);
        }
        assert_eq!(value, sum);
        let std = vec![0.1_f32; w.len()];
        let closed = ["normal", "laplace"].contains(&entry.name);
        assert_eq!(prior.kl_from_normal(&w, &std).is_some(), closed, "{}", entry.name);
    }
}

/// More than one wave of chunks, and a last chunk that is not full.
#[test]
fn long_blocks_give_the_same_bits_on_any_number_of_threads() {
    let n = WAVE * CHUNK + 2 * CHUNK + 77;
    let mut layout = Layout::default();
    layout.push(0, &BlockSpec::new("weight", vec![n], Role::Weight, 4));
    let prior = Prior::new("scale-mixture", &settings("scale-mixture", &[]), &layout, (0.0, 1.0)).unwrap();
    let mut w = vec![0.0_f32; n];
    prior.sample(Key::new(9), &mut w);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut grad = vec![0.0_f32; n];
        let value = pool.install(|| prior.log_density(&w, 1.0, Some(&mut grad)));
        assert_eq!(value, pool.install(|| prior.log_density(&w, 1.0, None)));
        (value, grad)
    };
    let one = run(1);
    assert!(run(2) == one && run(4) == one);
    let whole = f32::prior(&*prior.blocks()[0].1).log_density(0, &w, 1.0, None);
    near(one.0, whole, 1e-10 * whole.abs(), "chunks add up");
}
