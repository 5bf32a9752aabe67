//! Moments of samplers on targets with closed forms: 24 independent chains, z = error of the grand mean over the standard error
//! across chain means, |z| < 5, for x, (x − μ)² and products; long enough that a variance 10 % off fails.

use posterior::inference::{Silent, sample};
use posterior::posterior::Chains;
use posterior::problem::FnDensity;
use posterior::rng::{Key, Stream};
use posterior::settings::Value;

const CHAINS: usize = 24;

/// A target with the mean of each parameter and the covariance of each pair.
struct Known {
    name: &'static str,
    density: fn(&[f64], &mut [f64]) -> f64,
    mean: [f64; 2],
    covariance: [[f64; 2]; 2],
}

/// N(μ, Σ) with a correlation of 0.9 and standard deviations 1 and 3.
const CORRELATED: Known = Known {
    name: "correlated",
    density: |w, g| {
        let (a, b, rho) = (w[0] - 1.0, (w[1] + 2.0) / 3.0, 0.9);
        let scale = 1.0 / (1.0 - rho * rho);
        g[0] = -scale * (a - rho * b);
        g[1] = -scale * (b - rho * a) / 3.0;
        -0.5 * scale * (a * a - 2.0 * rho * a * b + b * b)
    },
    mean: [1.0, -2.0],
    covariance: [[1.0, 2.7], [2.7, 9.0]],
};

/// Logarithms of Γ(1) and Γ(3) variables, of which the second is added to the first: skewed and correlated. E ln Γ(k) = ψ(k), Var = ψ′(k).
const EULER: f64 = 0.577_215_664_901_532_9;
const TRIGAMMA1: f64 = std::f64::consts::PI * std::f64::consts::PI / 6.0;
const SKEWED: Known = Known {
    name: "skewed",
    density: |w, g| {
        // u = w₀ − w₁ is ln Γ(1), w₁ is ln Γ(3); the change of variables has determinant 1.
        let (u, v) = (w[0] - w[1], w[1]);
        let (du, dv) = (1.0 - u.exp(), 3.0 - v.exp());
        g[0] = du;
        g[1] = dv - du;
        u - u.exp() + 3.0 * v - v.exp()
    },
    mean: [1.5 - 2.0 * EULER, 1.5 - EULER],
    covariance: [[2.0 * TRIGAMMA1 - 1.25, TRIGAMMA1 - 1.25], [TRIGAMMA1 - 1.25, TRIGAMMA1 - 1.25]],
};

fn run(known: &Known, method: &str, settings: &[(&str, f64)]) -> Chains {
    let mut given: Vec<(String, Value)> = settings.iter().map(|(k, v)| ((*k).to_owned(), Value::Float(*v))).collect();
    given.push(("chains".to_owned(), Value::Int(CHAINS as i64)));
    let start = |chain: usize, attempt: usize| {
        let mut stream = Stream::new(Key::new(5).derive(chain as u64).derive(attempt as u64));
        vec![stream.normal(), stream.normal()]
    };
    sample(method, &given, &|| FnDensity::new(2, known.density), &start, Key::new(17), &mut Silent).unwrap()
}

/// z of x, y, (x − μ)², (y − ν)² and (x − μ)(y − ν); and the same for a variance that is 10 % larger, which has to be seen.
fn check(known: &Known, method: &str, settings: &[(&str, f64)], bias: f64) {
    let chains = run(known, method, settings);
    assert_eq!(chains.chains.len(), CHAINS);
    let [mx, my] = known.mean;
    type Of = fn(f64, f64) -> f64;
    let quantities: [(&str, Of, f64); 5] = [
        ("x", |x, _| x, 0.0),
        ("y", |_, y| y, 0.0),
        ("x²", |x, _| x * x, known.covariance[0][0]),
        ("y²", |_, y| y * y, known.covariance[1][1]),
        ("xy", |x, y| x * y, known.covariance[0][1]),
    ];
    for (name, of, expected) in quantities {
        let means: Vec<f64> = chains
            .chains
            .iter()
            .map(|c| {
                let values = (0..c.draws()).map(|i| of(f64::from(c.draw(i)[0]) - mx, f64::from(c.draw(i)[1]) - my));
                values.sum::<f64>() / c.draws() as f64
            })
            .collect();
        let n = CHAINS as f64;
        let mean = means.iter().sum::<f64>() / n;
        let error = (means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
        // A known bias, relative to the second moments, is allowed beside chance.
        let slack = bias * expected.abs();
        let z = ((mean - expected).abs() - slack).max(0.0) / error;
        println!("{method}, {}: {name} {mean:.4} ± {error:.4}, expected {expected:.4}", known.name);
        assert!(z < 5.0, "{method}, {}: {name} is {mean:.4} ± {error:.4}, expected {expected:.4}", known.name);
        assert!(expected == 0.0 || 0.1 * expected > 5.0 * error + slack, "{name}: 10 % would not be seen ({error:.4})");
    }
}

#[test]
fn hmc_has_the_right_second_moments() {
    // So many that 10 % of the smallest moment, 0.39, are five standard errors.
    let settings = [("draws", 4000.0), ("warmup", 300.0)];
    check(&CORRELATED, "hmc", &settings, 0.0);
    check(&SKEWED, "hmc", &settings, 0.0);
}

#[test]
fn hmc_with_a_fixed_path_has_the_right_second_moments() {
    let settings = [("draws", 3000.0), ("warmup", 300.0), ("steps", 6.0), ("target_accept", 0.65)];
    check(&CORRELATED, "hmc", &settings, 0.0);
}

#[test]
fn nuts_has_the_right_second_moments() {
    let settings = [("draws", 2500.0), ("warmup", 300.0)];
    check(&CORRELATED, "nuts", &settings, 0.0);
    check(&SKEWED, "nuts", &settings, 0.0);
}

#[test]
fn metropolis_has_the_right_second_moments() {
    let settings = [("draws", 3000.0), ("thin", 15.0), ("warmup", 2000.0)];
    check(&CORRELATED, "metropolis", &settings, 0.0);
    check(&SKEWED, "metropolis", &settings, 0.0);
}

/// Without an accept step there is a bias, which its `energy_error` keeps within 2 % of a variance here.
#[test]
fn mclmc_has_nearly_the_right_second_moments() {
    let settings = [("draws", 8000.0), ("warmup", 500.0)];
    check(&CORRELATED, "mclmc", &settings, 0.02);
    check(&SKEWED, "mclmc", &settings, 0.02);
}
