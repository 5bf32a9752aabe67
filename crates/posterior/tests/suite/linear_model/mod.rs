//! A linear model with known noise: its posterior, and the best diagonal Gaussian for any β, in closed form.

use posterior::data::{Dataset, Values};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::problem::Problem;
use posterior::rng::{Key, Stream};
use posterior::settings::Value;

pub const NOISE: f64 = 0.5;
pub const INPUTS: usize = 3;
/// Three weights and a bias.
pub const DIM: usize = INPUTS + 1;

/// y = x·w + bias + noise with correlated inputs.
pub struct Linear {
    pub problem: Problem,
    /// XᵀX/σ², the bias as a column of ones.
    pub curvature: [[f64; DIM]; DIM],
    /// Xᵀy/σ²
    pub pull: [f64; DIM],
    /// s
    prior_std: f64,
}

impl Linear {
    /// With the prior N(0, s²) on every weight and the bias.
    pub fn new(rows: usize, prior_std: f64) -> Linear {
        let prior = Choice::named("normal")
            .with("weight_std", Value::Float(prior_std))
            .with("bias_std", Value::Float(prior_std));
        Linear { prior_std, ..Linear::with_prior(rows, prior.with("scaling", Value::Text("none".into()))) }
    }

    /// With any prior; no closed optimum.
    pub fn with_prior(rows: usize, prior: Choice) -> Linear {
        let mut stream = Stream::new(Key::new(1));
        let (mut x, mut y) = (Vec::new(), Vec::new());
        let (mut curvature, mut pull) = ([[0.0; DIM]; DIM], [0.0; DIM]);
        for _ in 0..rows {
            let shared = stream.normal();
            let mut row: Vec<f64> = (0..INPUTS).map(|_| 0.6 * shared + 0.8 * stream.normal()).collect();
            let f: f64 = row.iter().enumerate().map(|(i, v)| v * (i as f64 - 1.0) * 0.5).sum::<f64>() + 0.3;
            let target = f + NOISE * stream.normal();
            x.extend(&row);
            y.push(target);
            row.push(1.0);
            for i in 0..DIM {
                pull[i] += row[i] * target / (NOISE * NOISE);
                (0..DIM).for_each(|j| curvature[i][j] += row[i] * row[j] / (NOISE * NOISE));
            }
        }
        let recipe = Recipe {
            network: NetworkSpec::parse("linear", Activation::Tanh).unwrap(),
            likelihood: Choice::named("gaussian")
                .with("noise", Value::Text("fixed".into()))
                .with("noise_std", Value::Float(NOISE)),
            prior,
            ..Recipe::default()
        };
        let shape = Shape::Flat(INPUTS);
        let resolved = recipe.resolve_for(shape, Outcome::Real, 1).unwrap();
        let problem = resolved.problem(Dataset::new(Values::F64(x.into()), shape, y, 1)).unwrap();
        Linear { problem, curvature, pull, prior_std: f64::NAN }
    }

    /// Λ = XᵀX/σ² + βI/s², the posterior's precision for β = 1.
    pub fn precision(&self, beta: f64) -> [[f64; DIM]; DIM] {
        let mut precision = self.curvature;
        (0..DIM).for_each(|i| precision[i][i] += beta / (self.prior_std * self.prior_std));
        precision
    }

    /// Mean Λ⁻¹Xᵀy/σ² and variances β/Λᵢᵢ of the diagonal Gaussian that maximises E_q[log p(D | w)] − β·KL.
    pub fn optimum(&self, beta: f64) -> ([f64; DIM], [f64; DIM]) {
        let (mut a, mut mean) = (self.precision(beta), self.pull);
        let variances = std::array::from_fn(|i| beta / a[i][i]);
        for i in 0..DIM {
            for j in i + 1..DIM {
                let factor = a[j][i] / a[i][i];
                (i..DIM).for_each(|k| a[j][k] -= factor * a[i][k]);
                mean[j] -= factor * mean[i];
            }
        }
        for i in (0..DIM).rev() {
            let rest: f64 = (i + 1..DIM).map(|k| a[i][k] * mean[k]).sum();
            mean[i] = (mean[i] - rest) / a[i][i];
        }
        (mean, variances)
    }
}

/// Fits with a method of the table.
pub fn fit(problem: &Problem, method: &str, settings: &[(&str, Value)]) -> posterior::inference::Fit {
    let settings: Vec<(String, Value)> = settings.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    let method = posterior::inference::find(method).unwrap().configure(&settings).unwrap();
    method.fit(problem, Key::new(3), &mut posterior::inference::Silent).unwrap()
}
