//! Black-box variational inference: the score-function gradient against the closed form, and where it leads.

use crate::linear_model::{DIM, Linear, fit};
use posterior::family::ScoreFunction;
use posterior::inference::{BlackBoxTrainer, StepPlan};
use posterior::problem::Rows;
use posterior::rng::{BLOCK, Key, fill_normals};
use posterior::settings::Value;
use posterior_testing::statistics::{moments, z_mean};

const MEAN: [f32; DIM] = [-0.3, 0.1, 0.4, 0.2];
const STD: [f32; DIM] = [0.05, 0.1, 0.08, 0.06];

/// The gradient in m, then in σ, of E_q[log p(D | w)] − β·KL at N(MEAN, STD²).
fn closed_gradient(linear: &Linear, beta: f64) -> Vec<f64> {
    let precision = linear.precision(beta);
    let in_mean = |i: usize| linear.pull[i] - (0..DIM).map(|j| precision[i][j] * f64::from(MEAN[j])).sum::<f64>();
    let in_std = |i: usize| beta / f64::from(STD[i]) - precision[i][i] * f64::from(STD[i]);
    (0..DIM).map(in_mean).chain((0..DIM).map(in_std)).collect()
}

/// The estimates of many steps that do not move, parameter by parameter.
fn estimates(linear: &Linear, control_variate: bool, samples: usize, beta: f64) -> Vec<Vec<f64>> {
    const STEPS: u64 = 20_000;
    let (problem, estimator) = (&linear.problem, ScoreFunction { control_variate });
    let mut trainer = BlackBoxTrainer::new(problem, &MEAN, &STD, estimator, samples, 100, Key::new(7));
    let mut by_parameter = vec![Vec::new(); 2 * DIM];
    for step in 0..STEPS {
        trainer.estimate(Rows::All, StepPlan { step, rate: 0.0, beta });
        let (in_mean, in_std) = trainer.gradient();
        for (values, g) in by_parameter.iter_mut().zip(in_mean.iter().chain(in_std)) {
            values.push(f64::from(*g));
        }
    }
    by_parameter
}

#[test]
fn the_gradient_has_the_closed_mean_and_the_control_variate_lowers_its_variance() {
    let linear = Linear::new(100, 0.1);
    // Two draws are where a control variate estimated from all draws would have the largest bias: a half of the gradient.
    for (samples, beta) in [(2, 1.0), (8, 1.0), (8, 0.3)] {
        let closed = closed_gradient(&linear, beta);
        let (plain, controlled) = (estimates(&linear, false, samples, beta), estimates(&linear, true, samples, beta));
        for i in 0..2 * DIM {
            let case = format!("{samples} samples, beta {beta}, parameter {i}");
            for (estimates, how) in [(&plain[i], "plain"), (&controlled[i], "controlled")] {
                let z = z_mean(estimates, closed[i]);
                assert!(z.abs() < 5.0, "{how}, {case}: {z} standard errors from {}", closed[i]);
            }
            // f is far from 0 beside its spread, and what is left of it after the control is the spread.
            let (before, after) = (moments(&plain[i]).variance, moments(&controlled[i]).variance);
            assert!(after < 0.5 * before, "{case}: variance {after}, and {before} without");
        }
    }
}

#[test]
fn the_estimator_is_its_formula() {
    // In f64, draw by draw: aᵢ from the other draws, f far from 0 as log joints are. Two blocks, the second not full.
    let (draws, dim) = (5, BLOCK + 30);
    let mut noise = vec![0.0f32; draws * dim];
    fill_normals(Key::new(2), &mut noise);
    let std: Vec<f32> = (0..dim).map(|i| 0.1 + 0.001 * i as f32).collect();
    let values: Vec<f64> = (0..draws).map(|s| -5000.0 + 3.0 * (s as f64).sin()).collect();
    let (mut d_mean, mut d_std) = (vec![0.0; dim], vec![0.0; dim]);
    for control_variate in [true, false] {
        ScoreFunction { control_variate }.gradient(&values, &noise, &std, &mut d_mean, &mut d_std);
        for i in 0..dim {
            let scale = f64::from(std[i]);
            let e = |s: usize| f64::from(noise[s * dim + i]);
            for (ours, score) in [
                (d_mean[i], &(|s: usize| e(s) / scale) as &dyn Fn(usize) -> f64),
                (d_std[i], &|s: usize| (e(s) * e(s) - 1.0) / scale),
            ] {
                let others = |s: usize, f: &dyn Fn(usize) -> f64| {
                    (0..draws).filter(|r| *r != s).map(|r| f(r) * score(r).powi(2)).sum::<f64>()
                };
                let a = |s: usize| others(s, &|r| values[r]) / others(s, &|_| 1.0);
                let term = |s: usize| (values[s] - if control_variate { a(s) } else { 0.0 }) * score(s);
                let expected = (0..draws).map(term).sum::<f64>() / draws as f64;
                // Rounding to f32 at the end; the terms of the plain sum are 5000/σ and cancel.
                let size = if control_variate { 1.0 } else { 5000.0 } / scale;
                assert!(
                    (f64::from(ours) - expected).abs() < 1e-6 * (expected.abs() + 1e-3 * size),
                    "{ours} for {expected}"
                );
            }
        }
    }
    // A single draw has no others: the control variate is left out.
    let (mut alone, mut plain) = (vec![0.0; dim], vec![0.0; dim]);
    ScoreFunction { control_variate: true }.gradient(&values[..1], &noise[..dim], &std, &mut alone, &mut d_std);
    ScoreFunction { control_variate: false }.gradient(&values[..1], &noise[..dim], &std, &mut plain, &mut d_std);
    assert_eq!(alone, plain);
}

#[test]
fn on_a_linear_model_it_finds_the_best_diagonal_gaussian() {
    let linear = Linear::new(100, 0.1);
    for (batch_size, beta, control_variate) in [(100, 1.0, true), (50, 1.0, true), (100, 0.3, true), (100, 1.0, false)]
    {
        let (mean, variances) = linear.optimum(beta);
        let settings = [
            ("epochs", Value::Int(20_000 * batch_size / 100)),
            ("batch_size", Value::Int(batch_size)),
            ("beta", Value::Float(beta)),
            ("learning_rate", Value::Float(0.02)),
            ("control_variate", Value::Bool(control_variate)),
        ];
        let fit = fit(&linear.problem, "bbvi", &settings);
        let (m, s) = fit.posterior.diagonal().unwrap();
        // As in tests/mean_field.rs, where gradients are exact at a draw: Adam wanders by some parts in a hundred of σ at its last
        // rate of 2e-4, and more by the noise of the score, which without the control variate grows with the size of f itself.
        let (in_variance, in_mean) = if control_variate { (0.15, 0.3) } else { (0.5, 0.6) };
        for i in 0..DIM {
            let case =
                format!("batches of {batch_size}, beta {beta}, control variate {control_variate}, parameter {i}");
            let (variance, target) = (f64::from(s[i]).powi(2), variances[i]);
            assert!((variance / target - 1.0).abs() < in_variance, "{case}: variance {variance} for {target}");
            assert!((f64::from(m[i]) - mean[i]).abs() < in_mean * target.sqrt(), "{case}: {} for {}", m[i], mean[i]);
        }
    }
}
