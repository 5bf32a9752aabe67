//! A method of your own, by name. `cargo run --release -p posterior --example own_method`
//!
//! Unadjusted Langevin: w ← w + ½ε ∇log p(w, D) + √ε ξ, after which every so many steps a draw is kept. Roberts & Tweedie (1996), Bernoulli 2. `examples/extension`
//! has a larger one, with the conformance suite as its test.

use posterior::inference::{Fit, FitSummary, MethodEntry, register_method};
use posterior::nn::Mode;
use posterior::posterior::{MixturePosterior, PointPosterior};
use posterior::prelude::*;
use posterior::problem::Rows;
use posterior::rng::Stream;
use posterior::settings::{Allowed, Default as Preset, Setting, Settings};

const STEP: Setting =
    Setting { name: "step", help: "ε", default: Preset::Float(1e-3), allowed: Allowed::Above(0.0, 1.0) };

#[derive(Debug)]
struct Langevin(Settings);

impl Method for Langevin {
    fn name(&self) -> &'static str {
        "langevin"
    }
    fn settings(&self) -> &Settings {
        &self.0
    }
    fn fit(&self, problem: &Problem, key: Key, _: &mut dyn Observer) -> posterior::Result<Fit> {
        let (step, mut stream, mut draws) = (self.0.float("step")?, Stream::new(key), Vec::new());
        let mut density = problem.density::<f64>(problem.whole("langevin")?.rows);
        let mut w: Vec<f64> = problem.initial(key).iter().map(|w| f64::from(*w)).collect();
        let mut g = vec![0.0; w.len()];
        for t in 1..=6000 {
            density.log_joint(&w, Rows::All, Mode::Plain, Some(&mut g));
            w.iter_mut().zip(&g).for_each(|(w, g)| *w += 0.5 * step * g + step.sqrt() * stream.normal());
            if t > 2000 && t % 100 == 0 {
                let kept = w.iter().map(|w| *w as f32).collect();
                draws.push(Box::new(PointPosterior::new(kept)) as Box<dyn Posterior>);
            }
        }
        let summary = FitSummary { steps: 6000, ..FitSummary::default() };
        Ok(Fit { posterior: Box::new(MixturePosterior::new(draws, None)), summary })
    }
}

/// Registers the method and fits by it.
pub fn main() -> posterior::Result<()> {
    let (summary, gives) = ("unadjusted Langevin dynamics", "draws of a chain with a bias of the order of ε");
    let build = |settings| Box::new(Langevin(settings)) as Box<dyn Method>;
    register_method(MethodEntry { name: "langevin", summary, gives, settings: &[STEP], build })?;
    let recipe = Recipe::from_toml("[method]\nname = \"langevin\"\nstep = 5e-4\n[network]\nlayers = []\n")?;
    let x: Vec<f64> = (0..50).map(|i| f64::from(i) / 25.0 - 1.0).collect();
    let y = x.iter().enumerate().map(|(i, x)| 0.7 * x + 0.3 * (i as f64 * 2.3).sin()).collect::<Vec<f64>>();
    let data = Dataset::from_arrays(x, Shape::Flat(1), y)?;
    let resolved = recipe.resolve_for(data.shape, Outcome::Real, 1)?;
    let fit = resolved.method()?.fit(&resolved.clone().problem(data)?, Key::new(1), &mut Silent)?;
    let slopes: Vec<f64> = (0..40).map(|s| f64::from(fit.posterior.draw(Key::new(s)).w[0])).collect();
    let mean = slopes.iter().sum::<f64>() / 40.0;
    assert!((mean - 0.7).abs() < 0.3, "slope {mean}, and 0.7 was put in");
    Ok(())
}
