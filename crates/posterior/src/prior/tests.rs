//! The prior of all blocks; single densities are in `tests/suite/conformance.rs`.

use super::*;
use crate::nn::BlockSpec;
use crate::settings::Value;

fn settings(name: &str, given: &[(&str, &str)]) -> Settings {
    let given: Vec<_> = given.iter().map(|(k, v)| (k.to_string(), Value::parse(v))).collect();
    Settings::resolve(find(name).unwrap().settings, &given, name).unwrap()
}

fn near(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got - want).abs() <= tolerance, "{what}: {got} and not {want}");
}

/// Where the double exponential has no gradient it is 0.
#[test]
fn the_gradient_at_the_kink_is_zero() {
    let mut grad = [0.0_f32; 2];
    f32::prior(&Laplace::new(1.0)).log_density(0, &[0.0, -0.0], 1.0, Some(&mut grad));
    assert_eq!(grad, [0.0, 0.0]);
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
