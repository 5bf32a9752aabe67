//! Predictive of 100 weight draws from a mean-field Gaussian for 10 000 rows, through the library's predictor; and by moments.

use crate::timing::measure;
use posterior::data::Values;
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::MeanFieldPosterior;
use posterior::predict::{MomentsPredictor, NetworkPredictor, Predictor, TargetScale};
use posterior::problem::full_layout;
use posterior::rng::{Key, fill_normals};
use posterior::settings::Value;
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

pub fn run(threads: usize) {
    let who = &format!("posterior-{threads}t");
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
