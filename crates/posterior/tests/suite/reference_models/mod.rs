//! Models of posteriordb as densities: each is a Rust closure with its gradient, over parameters without bounds, and the way back to the
//! model's own parameters. What is positive is moved as its logarithm, whose Jacobian is part of the density.

use posterior::math::linalg::Cholesky;
use posterior::problem::{FnDensity, LogDensity};
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// A model with its data and with reference draws.
pub struct Model {
    pub name: &'static str,
    pub dim: usize,
    density: Box<Density>,
    /// From the parameters that are moved to those of the reference.
    pub report: fn(&[f64]) -> Vec<f64>,
    /// The reference: chain by chain, draw by draw.
    pub reference: Reference,
    /// Whether a random walk mixes in a test's time.
    pub small: bool,
}

type Density = dyn Fn(&[f64], &mut [f64]) -> f64 + Sync;

pub struct Reference {
    pub names: Vec<String>,
    pub chains: usize,
    /// Draws × parameters.
    pub draws: Vec<Vec<f64>>,
}

impl Model {
    /// The density of one chain.
    pub fn density(&self) -> impl LogDensity + '_ {
        FnDensity::new(self.dim, |w: &[f64], gradient: &mut [f64]| (self.density)(w, gradient))
    }
}

fn reference(folder: &Path, name: &str) -> Reference {
    let file = std::fs::File::open(folder.join(format!("posteriordb/reference_draws/{name}.csv.gz"))).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut lines = text.lines();
    let names = lines.next().unwrap().split(',').skip(2).map(str::to_owned).collect();
    let rows: Vec<Vec<f64>> = lines.map(|l| l.split(',').map(|v| v.parse().unwrap()).collect()).collect();
    let chains = rows.iter().map(|r| r[0] as usize).max().unwrap();
    Reference { names, chains, draws: rows.into_iter().map(|r| r[2..].to_vec()).collect() }
}

fn data(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join(format!("posteriordb/data/{name}.json"))).unwrap())
        .unwrap()
}

fn numbers(data: &Value, name: &str) -> Vec<f64> {
    data[name].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// −ln(1 + (x/scale)²), a half-Cauchy up to a constant, and its derivative in ln x.
fn half_cauchy(x: f64, scale: f64) -> (f64, f64) {
    let square = (x / scale).powi(2);
    (-square.ln_1p(), -2.0 * square / (1.0 + square))
}

/// yⱼ ~ N(μ + τ tⱼ, σⱼ), tⱼ ~ N(0, 1), μ ~ N(0, 5), τ ~ half-Cauchy(5). Moved: t, μ, ln τ.
fn eight_schools(folder: &Path) -> Model {
    let data = data(folder, "eight_schools");
    let (y, sigma) = (numbers(&data, "y"), numbers(&data, "sigma"));
    let density = move |w: &[f64], g: &mut [f64]| {
        let (mu, tau) = (w[8], w[9].exp());
        let (prior, d_prior) = half_cauchy(tau, 5.0);
        let mut value = prior + w[9] - mu * mu / 50.0;
        (g[8], g[9]) = (-mu / 25.0, d_prior + 1.0);
        for j in 0..8 {
            let pull = (y[j] - mu - tau * w[j]) / (sigma[j] * sigma[j]);
            value -= 0.5 * (pull * sigma[j]).powi(2) + 0.5 * w[j] * w[j];
            g[j] = tau * pull - w[j];
            g[8] += pull;
            g[9] += tau * w[j] * pull;
        }
        value
    };
    let report = |w: &[f64]| {
        let tau = w[9].exp();
        let mut all: Vec<f64> = w[..8].iter().map(|t| w[8] + tau * t).collect();
        all.extend([w[8], tau]);
        all
    };
    let reference = reference(folder, "eight_schools-eight_schools_noncentered");
    Model { name: "eight_schools", dim: 10, density: Box::new(density), report, reference, small: true }
}

/// y ~ N(Xβ, σ) with the columns of X given, a normal prior on β (infinitely wide: none) and a prior on σ by value and d/d ln σ.
fn linear(
    x: Vec<Vec<f64>>,
    y: Vec<f64>,
    prior_std: f64,
    sigma_prior: fn(f64) -> (f64, f64),
) -> impl Fn(&[f64], &mut [f64]) -> f64 {
    move |w, g| {
        let columns = x.len();
        let sigma = w[columns].exp();
        let precision = 1.0 / (sigma * sigma);
        let (prior, d_prior) = sigma_prior(sigma);
        let mut squares = 0.0;
        g.fill(0.0);
        for (i, y) in y.iter().enumerate() {
            let residual = y - (0..columns).map(|c| w[c] * x[c][i]).sum::<f64>();
            squares += residual * residual;
            (0..columns).for_each(|c| g[c] += precision * residual * x[c][i]);
        }
        let shrink = 1.0 / (prior_std * prior_std);
        (0..columns).for_each(|c| g[c] -= shrink * w[c]);
        g[columns] = precision * squares - y.len() as f64 + d_prior + 1.0;
        let of_weights: f64 = w[..columns].iter().map(|b| -0.5 * shrink * b * b).sum();
        -0.5 * precision * squares - y.len() as f64 * w[columns] + prior + w[columns] + of_weights
    }
}

fn exp_last(w: &[f64]) -> Vec<f64> {
    let mut all = w.to_vec();
    if let Some(last) = all.last_mut() {
        *last = last.exp();
    }
    all
}

/// kid_score ~ N(b₁ + b₂ mom_hs + b₃ mom_iq, s), s ~ half-Cauchy(2.5), flat b. Moved: b, ln s.
fn kidscore(folder: &Path) -> Model {
    let data = data(folder, "kidiq");
    let (y, hs, iq) = (numbers(&data, "kid_score"), numbers(&data, "mom_hs"), numbers(&data, "mom_iq"));
    let x = vec![vec![1.0; y.len()], hs, iq];
    Model {
        name: "kidscore_momhsiq",
        dim: 4,
        density: Box::new(linear(x, y, f64::INFINITY, |s| half_cauchy(s, 2.5))),
        report: exp_last,
        reference: reference(folder, "kidiq-kidscore_momhsiq"),
        small: true,
    }
}

/// y ~ N(Xb, s), b ~ N(0, 10), s ~ half-normal(10). Moved: b, ln s.
fn regression(folder: &Path, name: &'static str) -> Model {
    let data = data(folder, name);
    let y = numbers(&data, "y");
    let rows: Vec<Vec<f64>> = data["X"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect())
        .collect();
    let x = (0..5).map(|c| rows.iter().map(|r| r[c]).collect()).collect();
    let half_normal = |s: f64| (-0.5 * (s / 10.0).powi(2), -(s / 10.0).powi(2));
    Model {
        name,
        dim: 6,
        density: Box::new(linear(x, y, 10.0, half_normal)),
        report: exp_last,
        reference: reference(folder, &format!("{name}-blr")),
        small: name == "sblri",
    }
}

/// y ~ N(0, K), K = α² exp(−d²/2ρ²) + σ I (σ, not its square), ρ ~ Γ(25, 4), α ~ half-normal(2), σ ~ half-normal(1). Moved: the logarithms.
fn gaussian_process(folder: &Path) -> Model {
    let data = data(folder, "gp_pois_regr");
    let (x, y) = (numbers(&data, "x"), numbers(&data, "y"));
    let n = y.len();
    let density = move |w: &[f64], g: &mut [f64]| {
        let (rho, alpha, sigma) = (w[0].exp(), w[1].exp(), w[2].exp());
        let mut covariance = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                let d = (x[i] - x[j]) / rho;
                covariance[i * n + j] = alpha * alpha * (-0.5 * d * d).exp() + if i == j { sigma } else { 0.0 };
            }
        }
        let Ok(cholesky) = Cholesky::new(&covariance, n) else { return f64::NAN };
        let mut solved = y.clone();
        cholesky.solve(&mut solved);
        let inverse = cholesky.inverse();
        let fit: f64 = y.iter().zip(&solved).map(|(a, b)| a * b).sum();
        let priors = 25.0 * w[0] - 4.0 * rho - alpha * alpha / 8.0 + w[1] - sigma * sigma / 2.0 + w[2];
        // d log N / dK = ½(K⁻¹yyᵀK⁻¹ − K⁻¹)
        let (mut d_rho, mut d_alpha, mut d_sigma) = (0.0, 0.0, 0.0);
        for i in 0..n {
            for j in 0..n {
                let slope = 0.5 * (solved[i] * solved[j] - inverse[i * n + j]);
                let kernel = covariance[i * n + j] - if i == j { sigma } else { 0.0 };
                d_rho += slope * kernel * ((x[i] - x[j]) / rho).powi(2);
                d_alpha += slope * 2.0 * kernel;
                d_sigma += if i == j { slope * sigma } else { 0.0 };
            }
        }
        g[0] = d_rho + 25.0 - 4.0 * rho;
        g[1] = d_alpha - alpha * alpha / 4.0 + 1.0;
        g[2] = d_sigma - sigma * sigma + 1.0;
        -0.5 * fit - 0.5 * cholesky.log_det() + priors
    };
    Model {
        name: "gp_regr",
        dim: 3,
        density: Box::new(density),
        report: |w| w.iter().map(|v| v.exp()).collect(),
        reference: reference(folder, "gp_pois_regr-gp_regr"),
        small: true,
    }
}

/// All of them, from the folder of `POSTERIOR_DATA`; nothing where it is not set.
pub fn models() -> Vec<Model> {
    let Some(folder) = std::env::var_os("POSTERIOR_DATA") else {
        eprintln!("skipped: POSTERIOR_DATA is not set");
        return Vec::new();
    };
    let folder = Path::new(&folder);
    vec![
        eight_schools(folder),
        kidscore(folder),
        regression(folder, "sblri"),
        regression(folder, "sblrc"),
        gaussian_process(folder),
    ]
}
