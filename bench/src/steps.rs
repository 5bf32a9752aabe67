//! Training steps W1–W4 through the library's public path: a problem, and a method's step.

use crate::timing::measure;
use posterior::data::{Dataset, Values};
use posterior::family::LowRank;
use posterior::inference::{
    ESTIMATORS, FamilyTrainer, IvonOptions, IvonTrainer, MeanFieldTrainer, MomentsTrainer, PointTrainer, StepPlan,
    StochasticTrainer,
};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, Mode, NetworkSpec, Shape};
use posterior::problem::{Problem, Rows};
use posterior::rng::{Key, Stream, fill_normals};
use posterior::settings::Value;
use std::hint::black_box;

/// Made-up rows: standard normal inputs, targets normal or of ten classes.
fn problem(network: &str, activation: Activation, shape: Shape, rows: usize, classes: usize, noise: f64) -> Problem {
    let mut x = vec![0.0f32; rows * shape.len()];
    fill_normals(Key::new(1), &mut x);
    let mut stream = Stream::new(Key::new(2));
    let y: Vec<f64> = match classes {
        0 => (0..rows).map(|_| stream.normal()).collect(),
        n => (0..rows).map(|_| stream.below(n as u64) as f64).collect(),
    };
    let mut recipe = Recipe {
        network: NetworkSpec::parse(network, activation).expect("a network"),
        prior: Choice::default().with("scaling", Value::Text("none".into())),
        ..Recipe::default()
    };
    let (outcome, width) = if classes == 0 { (Outcome::Real, 1) } else { (Outcome::Class, classes) };
    if classes == 0 {
        recipe.likelihood =
            Choice::named("gaussian").with("noise", Value::Text("fixed".into())).with("noise_std", Value::Float(noise));
    }
    let resolved = recipe.resolve_for(shape, outcome, width).expect("a recipe");
    resolved.problem(Dataset::new(Values::F32(x.into()), shape, y, 1)).expect("a problem")
}

/// A plain step (maximum likelihood), a Bayes-by-Backprop step and, of a dense network, one by moments; full batch.
fn plain_and_bayes(who: &str, names: [&str; 2], problem: &Problem) {
    let rows = problem.data().rows;
    let plan = |step| StepPlan { step, rate: 1e-3, beta: 1.0 };
    let mut step = 0;
    let mut plain = PointTrainer::new(problem, false, rows, Key::new(3));
    measure(who, names[0], || {
        black_box(plain.step(Rows::All, plan(step)));
        step += 1;
    });
    let mean = problem.initial(Key::new(4));
    let std = vec![0.05; mean.len()];
    let mut bayes = MeanFieldTrainer::new(problem, &mean, &std, 1, rows, Key::new(3));
    measure(who, names[1], || {
        black_box(bayes.step(Rows::All, plan(step)));
        step += 1;
    });
}

/// Steps of other methods: the estimators with noise by row, MC dropout, variational online Newton; full batch.
fn others(who: &str, workload: &str, problem: &Problem) {
    let rows = problem.data().rows;
    let plan = |step| StepPlan { step, rate: 1e-3, beta: 1.0 };
    let mean = problem.initial(Key::new(4));
    let std = vec![0.05; mean.len()];
    let mut step = 0;
    for (name, estimator) in &ESTIMATORS[1..] {
        let mut q = MeanFieldTrainer::new(problem, &mean, &std, 1, rows, Key::new(3)).with_estimator(*estimator);
        measure(who, &format!("{workload}_{name}"), || {
            black_box(q.step(Rows::All, plan(step)));
            step += 1;
        });
    }
    if let Ok(mut moments) = MomentsTrainer::new(problem, &mean, &std, rows, Key::new(3)) {
        measure(who, &format!("{workload}_moments"), || {
            black_box(moments.step(Rows::All, plan(step)));
            step += 1;
        });
    }
    let dropping = problem.with_dropout(0.0, 0.5).expect("a rate");
    let mut dropout = PointTrainer::new(&dropping, true, rows, Key::new(3));
    measure(who, &format!("{workload}_mc-dropout"), || {
        black_box(dropout.step(Rows::All, plan(step)));
        step += 1;
    });
    for (name, friction) in [("sgld", None), ("sghmc", Some(0.1))] {
        let mut noisy = StochasticTrainer::new(problem, mean.clone(), rows, friction, true, false, Key::new(3));
        measure(who, &format!("{workload}_{name}"), || {
            black_box(noisy.step(Rows::All, step, 1e-4, 1.0));
            step += 1;
        });
    }
    let options = IvonOptions { hessian_init: 1.0, beta1: 0.9, beta2: 0.99, learning_rate: 1e-3 };
    let mut ivon = IvonTrainer::new(problem, &mean, options, 1, rows, Key::new(3));
    measure(who, &format!("{workload}_ivon"), || {
        black_box(ivon.step(Rows::All, plan(step)));
        step += 1;
    });
}

/// A variational step whose covariance has five correlated directions, full batch.
fn low_rank(who: &str, name: &str, problem: &Problem) {
    let rows = problem.data().rows;
    let mean = problem.initial(Key::new(4));
    let std = vec![0.05; mean.len()];
    let family = LowRank::new(&mean, &std, 5, 1, Key::new(5));
    let mut trainer = FamilyTrainer::new(problem, family, 1, rows, Key::new(3));
    let mut step = 0;
    measure(who, name, || {
        black_box(trainer.step(Rows::All, StepPlan { step, rate: 1e-3, beta: 1.0 }));
        step += 1;
    });
}

pub fn run(threads: usize) {
    let who = &format!("posterior-{threads}t");
    for rows in [32, 128] {
        let small = problem("50", Activation::Relu, Shape::Flat(8), rows, 0, 1.0);
        plain_and_bayes(who, [&format!("W1a_b{rows}"), &format!("W1b_b{rows}")], &small);
    }
    let digits = problem("400,400", Activation::Relu, Shape::Flat(784), 128, 10, 1.0);
    plain_and_bayes(who, ["W2a", "W2b"], &digits);
    others(who, "W2", &digits);
    low_rank(who, "W2_low-rank", &digits);
    let image = Shape::Image { channels: 1, height: 28, width: 28 };
    let digits = problem("lenet-5", Activation::Relu, image, 128, 10, 1.0);
    plain_and_bayes(who, ["W3a", "W3b"], &digits);
    others(who, "W3", &digits);

    let boston = problem("50", Activation::Tanh, Shape::Flat(13), 500, 0, 0.1);
    let w32: Vec<f32> = boston.initial(Key::new(4));
    let w64: Vec<f64> = w32.iter().map(|v| f64::from(*v)).collect();
    let (mut g32, mut g64) = (vec![0.0; w32.len()], vec![0.0; w64.len()]);
    let mut single = boston.density::<f32>(500);
    measure(who, "W4_f32", || {
        black_box(single.log_joint(&w32, Rows::All, Mode::Plain, Some(&mut g32)));
    });
    let mut double = boston.density::<f64>(500);
    measure(who, "W4_f64", || {
        black_box(double.log_joint(&w64, Rows::All, Mode::Plain, Some(&mut g64)));
    });
}
