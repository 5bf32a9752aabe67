//! Samplers against the reference draws of posteriordb: means, variances and 5 % and 95 % quantiles of every parameter, |z| < 4.
//!
//! z = (ours − reference)/√(MCSE² + MCSE²): the Monte Carlo error of either side, by its effective sample size. By chance |z| > 4 comes once in
//! 16 000; some 400 numbers are compared.

use crate::reference_models::{Model, models};
use posterior::diagnose::{Trace, mcse_mean, mcse_quantile, quantiles, r_hat};
use posterior::inference::{Silent, sample};
use posterior::posterior::Chains;
use posterior::problem::LogDensity;
use posterior::rng::{Key, Stream};
use posterior::settings::Value;
use posterior_testing::expect_gradient;

/// Estimates of one parameter, each with its Monte Carlo error: mean, variance, 5 %, 95 %.
fn estimates(trace: &Trace) -> [(f64, f64); 4] {
    let mean = trace.mean();
    let squares = trace.map(|x| (x - mean).powi(2));
    let q = quantiles(&trace.sorted(), &[0.05, 0.95]);
    [
        (mean, mcse_mean(trace)),
        (squares.mean(), mcse_mean(&squares)),
        (q[0], mcse_quantile(trace, 0.05)),
        (q[1], mcse_quantile(trace, 0.95)),
    ]
}

fn run(model: &Model, method: &str, settings: &[(&str, f64)]) -> Chains {
    let given: Vec<(String, Value)> = settings.iter().map(|(k, v)| ((*k).to_owned(), Value::Float(*v))).collect();
    let start = |chain: usize, attempt: usize| {
        let mut stream = Stream::new(Key::new(99).derive(chain as u64).derive(attempt as u64));
        (0..model.dim).map(|_| 0.5 * stream.normal()).collect()
    };
    sample(method, &given, &|| model.density(), &start, Key::new(2026), &mut Silent).unwrap()
}

/// The worst |z|, and R-hat, over all parameters.
fn compare(model: &Model, chains: &Chains) -> (f64, String, f64) {
    let (mut worst, mut at, mut largest) = (0.0, String::new(), 0.0_f64);
    let reported: Vec<Vec<f64>> = (0..chains.draws())
        .map(|s| (model.report)(&chains.draw(s).iter().map(|v| f64::from(*v)).collect::<Vec<_>>()))
        .collect();
    for (i, name) in model.reference.names.iter().enumerate() {
        let ours = Trace::new(reported.iter().map(|r| r[i]).collect(), chains.chains.len());
        let theirs = Trace::new(model.reference.draws.iter().map(|r| r[i]).collect(), model.reference.chains);
        largest = largest.max(r_hat(&ours));
        let what = ["mean", "variance", "5 %", "95 %"];
        for ((what, a), b) in what.iter().zip(estimates(&ours)).zip(estimates(&theirs)) {
            let z = ((a.0 - b.0) / a.1.hypot(b.1)).abs();
            if z.is_nan() || z > worst {
                (worst, at) =
                    (z, format!("{what} of {name}: {:.5} ± {:.5}, reference {:.5} ± {:.5}", a.0, a.1, b.0, b.1));
            }
        }
    }
    (worst, at, largest)
}

fn agree(method: &str, settings: &[(&str, f64)], which: fn(&Model) -> bool) {
    for model in models().iter().filter(|m| which(m)) {
        let began = std::time::Instant::now();
        let chains = run(model, method, settings);
        let (z, at, r_hat) = compare(model, &chains);
        println!(
            "{method} {}: |z| up to {z:.2} ({at}), R-hat up to {r_hat:.4}, {} divergences, {:.0} ms",
            model.name,
            chains.divergences(),
            1e3 * began.elapsed().as_secs_f64()
        );
        assert!(z < 4.0, "{method} on {}: z = {z:.2}, {at}", model.name);
        assert!(r_hat < 1.01 && chains.fault.is_none(), "{method} on {}: R-hat {r_hat}", model.name);
    }
}

#[test]
fn gradients_are_right() {
    for model in models() {
        let mut stream = Stream::new(Key::new(1));
        for _ in 0..3 {
            let w: Vec<f64> = (0..model.dim).map(|_| 0.5 * stream.normal()).collect();
            let f = |w: &[f64]| {
                let mut gradient = vec![0.0; w.len()];
                (model.density().value_and_gradient(w, &mut gradient).unwrap(), gradient)
            };
            // Sums of up to 1e6 with differences of 1e-3: relative rounding of 1e-7.
            expect_gradient(f, &w, 1e-5);
        }
    }
}

#[test]
fn nuts_agrees_with_the_reference() {
    agree("nuts", &[("draws", 2000.0), ("warmup", 800.0)], |_| true);
}

#[test]
fn hmc_agrees_with_the_reference() {
    agree("hmc", &[("draws", 4000.0), ("warmup", 1000.0)], |_| true);
}

#[test]
fn mclmc_agrees_with_the_reference() {
    agree("mclmc", &[("draws", 4000.0), ("warmup", 1000.0)], |_| true);
}

#[test]
fn metropolis_agrees_with_the_reference_on_small_models() {
    agree("metropolis", &[("draws", 4000.0), ("warmup", 20_000.0), ("thin", 20.0)], |m| m.small);
}
