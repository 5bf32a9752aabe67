//! Logistic noise: outliers cost |z|, where under normal noise they cost z²/2.
//!
//! log p(y|f) = −|z| − 2 ln(1 + e^{−|z|}) − ln s, z = (y − f)/s; d/df = tanh(z/2)/s; −d²/df² = 2σ(z)σ(−z)/s². Variance π²s²/3. The scale is a
//! parameter, moved as ln s. Balakrishnan (1992), Handbook of the Logistic Distribution. Cost: one exponential and one logarithm for each target.

use posterior::likelihood::{Likelihood, LikelihoodEntry, LikelihoodGradient, LikelihoodOps, Outcome};
use posterior::nn::{BlockSpec, Role};
use posterior::rng::Stream;
use posterior::settings::{Allowed, Default, Setting, Settings};
use posterior::{Error, Real};
use std::f64::consts::PI;
use std::sync::Arc;

const START: Setting = Setting {
    name: "scale",
    help: "where the scale of the noise starts, in standard deviations of the target",
    default: Default::Float(0.3),
    allowed: Allowed::Float(1e-3, 1e3),
};

/// `[likelihood] name = "logistic"`
pub const ENTRY: LikelihoodEntry = LikelihoodEntry {
    name: "logistic",
    summary: "real outcomes with logistic noise",
    settings: &[START],
    outcome: Outcome::Real,
    build: |settings, width| match width {
        0 => Err(Error::setting("there is no target", "name at least one")),
        targets => Ok(Arc::new(Logistic { settings: settings.clone(), start: settings.float("scale")?.ln(), targets })),
    },
};

#[derive(Debug)]
struct Logistic {
    settings: Settings,
    /// ln s where a fit starts.
    start: f64,
    targets: usize,
}

impl<R: Real> LikelihoodOps<R> for Logistic {
    fn log_prob(
        &self,
        f: &[R],
        y: &[R],
        noise: &[R],
        weights: Option<&[R]>,
        scale: f64,
        mut gradient: Option<LikelihoodGradient<'_, R>>,
    ) -> f64 {
        let mut sum = 0.0;
        for (i, (f, y)) in f.iter().zip(y).enumerate() {
            let (row, target) = (i / self.targets, i % self.targets);
            let (weight, log_s) = (weights.map_or(1.0, |w| w[row].f64()), noise[target].f64());
            let inverse = (-log_s).exp();
            let z = (y.f64() - f.f64()) * inverse;
            sum += weight * density(z, log_s);
            if let Some(gradient) = &mut gradient {
                let slope = scale * weight * (0.5 * z).tanh();
                gradient.d_f[i] = R::of(slope * inverse);
                gradient.d_noise[target] += slope * z - scale * weight;
            }
        }
        scale * sum
    }
}

fn density(z: f64, log_s: f64) -> f64 {
    -z.abs() - 2.0 * (-z.abs()).exp().ln_1p() - log_s
}

/// 1/(1 + e^{−z})
fn sigmoid(z: f64) -> f64 {
    0.5 + 0.5 * (0.5 * z).tanh()
}

impl Likelihood for Logistic {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
    fn settings(&self) -> &Settings {
        &self.settings
    }
    fn outcome(&self) -> Outcome {
        Outcome::Real
    }
    fn targets(&self) -> usize {
        self.targets
    }
    fn outputs(&self) -> usize {
        self.targets
    }
    fn blocks(&self) -> Vec<BlockSpec> {
        vec![BlockSpec::new("log_scale", vec![self.targets], Role::Noise, 1)]
    }
    fn noise_prior(&self) -> (f64, f64) {
        (-1.0, 1.0)
    }
    fn initial_noise(&self) -> f64 {
        self.start
    }
    fn log_prob_row(&self, f: &[f64], y: &[f64], noise: &[f64]) -> f64 {
        (0..self.targets).map(|t| density((y[t] - f[t]) * (-noise[t]).exp(), noise[t])).sum()
    }
    fn hessian_row(&self, f: &[f64], y: &[f64], noise: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for t in 0..self.targets {
            let inverse = (-noise[t]).exp();
            let z = (y[t] - f[t]) * inverse;
            out[t * self.targets + t] = 2.0 * sigmoid(z) * sigmoid(-z) * inverse * inverse;
        }
    }
    fn moments(&self, f: &[f64], noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        mean.copy_from_slice(f);
        variance.iter_mut().zip(noise).for_each(|(v, log_s)| *v = (PI * log_s.exp()).powi(2) / 3.0);
    }
    fn cdf(&self, target: usize, value: f64, f: &[f64], noise: &[f64]) -> f64 {
        sigmoid((value - f[target]) * (-noise[target]).exp())
    }
    fn probabilities(&self, _f: &[f64], _out: &mut [f64]) {}
    fn sample(&self, f: &[f64], noise: &[f64], stream: &mut Stream, y: &mut [f64]) {
        for t in 0..self.targets {
            let u = stream.uniform();
            y[t] = f[t] + noise[t].exp() * (u / (1.0 - u)).ln();
        }
    }
}
