//! Stein variational gradient descent: particles that climb the log joint and keep away from each other.
//!
//! φ(wᵢ) = 1/n Σⱼ [k(wⱼ, wᵢ) ∇log p(wⱼ, D) + 2(wᵢ − wⱼ)/h · k(wⱼ, wᵢ)], k(a, b) = exp(−|a − b|²/h), h the median squared distance over ln n; steps
//! by Adagrad. Liu & Wang (2016), NeurIPS 29. Cost of a step: n gradients over all rows and n²P. Known bias: few particles are too close together.

use posterior::inference::{Fit, FitSummary, Flow, Method, MethodEntry, Observer, Progress};
use posterior::nn::Mode;
use posterior::posterior::{MixturePosterior, PointPosterior, Posterior};
use posterior::problem::{Problem, Rows};
use posterior::rng::Key;
use posterior::settings::{Allowed, Default as Preset, Setting, Settings};
use posterior::{Error, ErrorKind, Result};

const PARTICLES: Setting =
    Setting { name: "particles", help: "how many", default: Preset::Int(10), allowed: Allowed::Int(2, 1000) };
const STEPS: Setting =
    Setting { name: "steps", help: "over all rows", default: Preset::Int(500), allowed: Allowed::Int(1, 1_000_000) };
const RATE: Setting =
    Setting { name: "rate", help: "size of a step", default: Preset::Float(0.03), allowed: Allowed::Above(0.0, 1.0) };

/// `[method] name = "stein"`
pub const ENTRY: MethodEntry = MethodEntry {
    name: "stein",
    summary: "Stein variational gradient descent: particles that repel each other",
    gives: "one of some particles",
    settings: &[PARTICLES, STEPS, RATE],
    build: |settings| Box::new(Stein { settings }),
};

#[derive(Debug)]
struct Stein {
    settings: Settings,
}

impl Method for Stein {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let (n, dim, steps) = (self.settings.count("particles")?, problem.dim(), self.settings.count("steps")?);
        let rate = self.settings.float("rate")?;
        let rows = problem.whole(ENTRY.name)?.rows;
        let mut density = problem.density::<f64>(rows);
        let start = |i| problem.initial(key.derive(i as u64)).into_iter().map(f64::from).collect::<Vec<f64>>();
        let mut w: Vec<Vec<f64>> = (0..n).map(start).collect();
        let (mut gradients, mut scales) = (vec![vec![0.0; dim]; n], vec![vec![0.0; dim]; n]);
        for step in 0..steps {
            let each = w.iter().zip(&mut gradients);
            let total: f64 = each.map(|(w, g)| density.log_joint(w, Rows::All, Mode::Plain, Some(g))).sum();
            let objective = total / n as f64;
            if !objective.is_finite() {
                return Err(Error::numerical(format!("the log joint is {objective}"), "lower the setting 'rate'"));
            }
            let forces = forces(&w, &gradients);
            for ((w, scale), force) in w.iter_mut().zip(&mut scales).zip(&forces) {
                for i in 0..dim {
                    scale[i] = if step == 0 { force[i] * force[i] } else { 0.9 * scale[i] + 0.1 * force[i] * force[i] };
                    w[i] += rate * force[i] / (1e-6 + scale[i].sqrt());
                }
            }
            let (step, steps) = (step as u64 + 1, steps as u64);
            let progress = Progress { step, steps, epoch: step as usize, epochs: steps as usize, objective };
            if observer.progress(&progress) == Flow::Stop {
                return Err(ErrorKind::Interrupted.into());
            }
        }
        let point = |w: Vec<f64>| -> Box<dyn Posterior> {
            Box::new(PointPosterior::new(w.into_iter().map(|w| w as f32).collect()))
        };
        let posterior = Box::new(MixturePosterior::new(w.into_iter().map(point).collect(), None));
        let summary = FitSummary { steps: steps as u64, epochs: steps, ..FitSummary::default() };
        Ok(Fit { posterior, summary })
    }
}

fn forces(w: &[Vec<f64>], gradients: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = w.len();
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let mut all: Vec<f64> =
        (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| distance(&w[i], &w[j])).collect();
    all.sort_by(f64::total_cmp);
    let h = (all[all.len() / 2] / (n as f64).ln()).max(1e-12);
    let force = |i: usize| {
        let mut force = vec![0.0; w[i].len()];
        for j in 0..n {
            let k = (-distance(&w[i], &w[j]) / h).exp() / n as f64;
            for (p, force) in force.iter_mut().enumerate() {
                *force += k * (gradients[j][p] + 2.0 / h * (w[i][p] - w[j][p]));
            }
        }
        force
    };
    (0..n).map(force).collect()
}
