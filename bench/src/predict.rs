//! Predictive of 100 weight draws from a mean-field Gaussian for 10 000 rows, through the library's predictor; and by moments. Then
//! what is asked of such a mixture: quantiles of 10 000 rows at the two ends of an interval, CRPS of 1000 rows.

use crate::timing::measure;
use posterior::data::Values;
use posterior::likelihood::{Outcome, find};
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::MeanFieldPosterior;
use posterior::predict::{MomentsPredictor, NetworkPredictor, Predictive, Predictor, TargetScale};
use posterior::problem::full_layout;
use posterior::rng::{Key, fill_normals};
use posterior::settings::{Settings, Value};
use std::hint::black_box;
use std::sync::Arc;

const DRAWS: usize = 100;
const ROWS: usize = 10_000;

fn predictor(network: &str, activation: Activation, shape: Shape, classes: usize) -> NetworkPredictor {
    let mut recipe =
        Recipe { network: NetworkSpec::parse(network, activation).expect("a network"), ..Recipe::default() };
    let (outcome, width) = if classes == 0 { (Outcome::Real, 1) } else { (Outcome::Class, classes) };
    if classes == 0 {
        recipe.likelihood = Choice::named("gaussian").with("noise", Value::Text("fixed".into()));
    }
    let resolved = recipe.resolve_for(shape, outcome, width).expect("a recipe");
    let dim = full_layout(&*resolved.network, &*resolved.likelihood).len();
    let mut mean = vec![0.0f32; dim];
    fill_normals(Key::new(1), &mut mean);
    mean.iter_mut().for_each(|m| *m *= 0.05);
    NetworkPredictor {
        network: resolved.network,
        likelihood: resolved.likelihood,
        posterior: Arc::new(MeanFieldPosterior::new(mean, vec![0.05; dim], None)),
        draws: DRAWS,
        key: Key::new(2),
        scale: TargetScale::default(),
    }
}

/// The same posterior by moments.
fn by_moments(p: &NetworkPredictor) -> MomentsPredictor {
    MomentsPredictor::new(&*p.network, p.likelihood.clone(), &*p.posterior, DRAWS, p.scale.clone())
        .expect("dense layers")
}

fn inputs(width: usize) -> Values {
    let mut x = vec![0.0f32; ROWS * width];
    fill_normals(Key::new(3), &mut x);
    Values::F32(x.into())
}

/// Draws that spread about as far as the noise, with a noise scale of their own each.
fn mixture(likelihood: &str, rows: usize, draws: usize) -> Predictive {
    let entry = find(likelihood).expect("a likelihood");
    let settings = Settings::resolve(entry.settings, &[], likelihood).expect("its defaults");
    let likelihood = (entry.build)(&settings, 1).expect("a likelihood of one target");
    let outputs = likelihood.outputs();
    let mut f = vec![0.0f32; draws * rows * outputs];
    fill_normals(Key::new(4), &mut f);
    let mut centres = vec![0.0f32; rows * outputs];
    fill_normals(Key::new(5), &mut centres);
    f.chunks_exact_mut(rows * outputs).for_each(|f| f.iter_mut().zip(&centres).for_each(|(f, c)| *f = 0.3 * *f + c));
    let mut noise = vec![0.0f32; draws * likelihood.blocks().iter().map(|b| b.len()).sum::<usize>()];
    fill_normals(Key::new(6), &mut noise);
    noise.iter_mut().for_each(|s| *s = 0.05 * *s - 1.0);
    Predictive::new(likelihood, f, noise, draws, rows, TargetScale::default())
}

fn queries(who: &str) {
    for name in ["gaussian", "heteroscedastic", "student-t", "poisson"] {
        let predictive = mixture(name, ROWS, DRAWS);
        measure(who, &format!("quantiles_{name}_{ROWS}x{DRAWS}"), || {
            black_box(predictive.quantiles(&[0.05, 0.95]));
        });
        for draws in [DRAWS, 2 * DRAWS] {
            let predictive = mixture(name, ROWS / 10, draws);
            let y: Vec<f64> = (0..ROWS / 10).map(|n| (n % 5) as f64).collect();
            measure(who, &format!("crps_{name}_{}x{draws}", ROWS / 10), || {
                black_box(predictive.crps(&y));
            });
        }
    }
}

pub fn run(threads: usize) {
    let who = &format!("posterior-{threads}t");
    queries(who);
    let (x, large) = (inputs(784), predictor("400,400", Activation::Relu, Shape::Flat(784), 10));
    // The peer names its lines by rows per pass; here that is the predictor's own business, so one line stands for all.
    let best_of_peer = ["mc_784-400-400-10_b1000", "mc_784-400-400-10_b10000"];
    for name in best_of_peer {
        measure(who, name, || {
            black_box(large.predict(&x).classes());
        });
    }
    let moments = by_moments(&large);
    measure(who, "moments_784-400-400-10", || {
        black_box(moments.predict(&x).classes());
    });
    measure(who, "moments_784-400-400-10_outputs", || {
        black_box(moments.moments(&x));
    });
    let (x, small) = (inputs(8), predictor("50", Activation::Tanh, Shape::Flat(8), 0));
    for name in ["mc_8-50-1_b1000", "mc_8-50-1_b2500", "mc_8-50-1_b10000", "mc_8-50-1_bmm_b250", "mc_8-50-1_bmm_b1000"]
    {
        measure(who, name, || {
            black_box(small.predict(&x).real());
        });
    }
    let moments = by_moments(&small);
    measure(who, "moments_8-50-1", || {
        black_box(moments.predict(&x).real());
    });
    measure(who, "moments_8-50-1_outputs", || {
        black_box(moments.moments(&x));
    });
}
