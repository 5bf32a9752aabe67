//! A fit driven by hand, kept half-way and resumed with the same bits. `cargo run --release -p posterior --example checkpoint`
//!
//! A trainer is a `Stepper`: whoever drives it decides about batches, rates and when to stop. Random numbers are named by (key, step), so that the step
//! number and the snapshot are all there is to keep. Whole fits by any method are kept by an observer with a `Checkpoint`, as `posterior fit --checkpoint` does.

use posterior::data::Batches;
use posterior::inference::{MeanFieldTrainer, StepPlan, Stepper};
use posterior::likelihood::Outcome;
use posterior::prelude::*;
use posterior::problem::Rows;
use posterior::snapshot::Stateful;

const STEPS: u64 = 400;

fn run(trainer: &mut dyn Stepper, batches: &mut Batches, steps: std::ops::Range<u64>) {
    batches.seek(steps.start);
    for step in steps {
        let plan = StepPlan { step, rate: 0.01, beta: (step as f64 / 100.0).min(1.0) };
        trainer.step(Rows::Batch(batches.next()), plan);
    }
}

/// The same fit in one go and in two.
pub fn main() -> posterior::Result<()> {
    let x: Vec<f64> = (0..100).map(|i| f64::from(i) / 50.0 - 1.0).collect();
    let y: Vec<f64> = x.iter().map(|x| (3.0 * x).sin()).collect();
    let data = Dataset::from_arrays(x, Shape::Flat(1), y)?;
    let recipe = Recipe { network: NetworkSpec::parse("10", Activation::Tanh)?, ..Recipe::default() };
    let problem = recipe.resolve_for(data.shape, Outcome::Real, 1)?.problem(data)?;

    let (key, batch) = (Key::new(1), 25);
    let (mean, std) = (problem.initial(key.derive(1)), vec![0.1; problem.dim()]);
    let make = || MeanFieldTrainer::new(&problem, &mean, &std, 1, batch, key);
    let mut batches = Batches::new(problem.data().rows, batch, key.derive(2));

    let mut whole = make();
    run(&mut whole, &mut batches, 0..STEPS);

    let mut first = make();
    run(&mut first, &mut batches, 0..STEPS / 2);
    let kept = first.snapshot()?;
    drop(first);
    let mut second = make();
    second.resume(&kept)?;
    run(&mut second, &mut batches, STEPS / 2..STEPS);

    assert!(whole.moments() == second.moments(), "the same bits");
    println!(
        "{} arrays kept after {} steps; resumed, the fit ends with the same bits",
        kept.arrays().count(),
        STEPS / 2
    );
    Ok(())
}
