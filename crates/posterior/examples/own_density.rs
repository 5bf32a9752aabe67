//! A density of your own, sampled: the eight schools of Rubin (1981), non-centred, by NUTS. `cargo run --release -p posterior --example own_density`
//!
//! yⱼ ~ N(μ + τ tⱼ, σⱼ), tⱼ ~ N(0, 1), μ ~ N(0, 5), τ ~ half-Cauchy(5). τ is moved as ln τ, whose Jacobian is part of the density. More models like this are in
//! `tests/reference_models`.

use posterior::diagnose::{Trace, ess_bulk, mcse_mean, r_hat};
use posterior::inference::{Silent, sample};
use posterior::problem::FnDensity;
use posterior::rng::Key;
use posterior::settings::Value;

const Y: [f64; 8] = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0];
const SIGMA: [f64; 8] = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];

/// log p(t, μ, ln τ | y) up to a constant, and its gradient.
fn eight_schools(w: &[f64], gradient: &mut [f64]) -> f64 {
    let (mu, tau) = (w[8], w[9].exp());
    let square = (tau / 5.0).powi(2);
    let mut value = -square.ln_1p() + w[9] - mu * mu / 50.0;
    (gradient[8], gradient[9]) = (-mu / 25.0, 1.0 - 2.0 * square / (1.0 + square));
    for j in 0..8 {
        let pull = (Y[j] - mu - tau * w[j]) / (SIGMA[j] * SIGMA[j]);
        value -= 0.5 * (pull * SIGMA[j]).powi(2) + 0.5 * w[j] * w[j];
        gradient[j] = tau * pull - w[j];
        gradient[8] += pull;
        gradient[9] += tau * w[j] * pull;
    }
    value
}

/// Samples the eight schools.
pub fn main() -> posterior::Result<()> {
    let density = || FnDensity::new(10, eight_schools);
    let start = |chain: usize, _attempt: usize| vec![0.1 * (chain as f64 - 1.5); 10];
    let settings = [("draws".to_owned(), Value::Int(2000))];
    let chains = sample("nuts", &settings, &density, &start, Key::new(1), &mut Silent)?;
    println!("{} draws, {} divergences", chains.draws(), chains.divergences());
    for (name, of) in [("mu", (|w| f64::from(w[8])) as fn(&[f32]) -> f64), ("tau", |w| f64::from(w[9]).exp())] {
        let trace = Trace::new((0..chains.draws()).map(|s| of(chains.draw(s))).collect(), chains.chains.len());
        let (mean, error) = (trace.mean(), mcse_mean(&trace));
        println!("{name:<4} {mean:.2} ± {error:.2}, R-hat {:.4}, ESS {:.0}", r_hat(&trace), ess_bulk(&trace));
    }
    Ok(())
}
