//! A training step allocates nothing. `gemm` packs its operands into memory of its own, which is told apart.

use posterior::data::{Dataset, Values};
use posterior::inference::{MeanFieldTrainer, MomentsTrainer, PointTrainer, StepPlan};
use posterior::likelihood::Outcome;
use posterior::math::matmul::allocation::inside_gemm;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::problem::{Problem, Rows};
use posterior::rng::Key;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;
static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !inside_gemm() {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn problem(network: &str, shape: Shape, rows: usize, classes: usize, prior: &str) -> Problem {
    let recipe = Recipe {
        network: NetworkSpec::parse(network, Activation::Relu).unwrap(),
        prior: Choice::named(prior),
        ..Recipe::default()
    };
    let (outcome, width) = if classes == 0 { (Outcome::Real, 1) } else { (Outcome::Class, classes) };
    let x = vec![0.5f32; rows * shape.len()];
    let y = (0..rows).map(|i| (i % classes.max(2)) as f64).collect();
    let resolved = recipe.resolve_for(shape, outcome, width).unwrap();
    resolved.problem(Dataset::new(Values::F32(x.into()), shape, y, 1)).unwrap()
}

/// Allocations of 20 steps, after some steps to fill lazily made buffers of other crates.
fn allocations(mut step: impl FnMut(u64)) -> usize {
    (0..5).for_each(&mut step);
    let before = COUNT.load(Ordering::Relaxed);
    (5..25).for_each(&mut step);
    COUNT.load(Ordering::Relaxed) - before
}

#[test]
fn a_step_allocates_nothing() {
    assert!(allocations(|_| drop(std::hint::black_box(vec![1u8]))) >= 20, "the counter counts");
    let image = Shape::Image { channels: 1, height: 28, width: 28 };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let plan = |step| StepPlan { step, rate: 1e-3, beta: 1.0 };
    for (network, shape, rows, classes, prior) in [
        ("50", Shape::Flat(8), 32, 0, "normal"),
        ("50", Shape::Flat(8), 1000, 0, "laplace"),
        ("200,200", Shape::Flat(300), 128, 10, "normal"),
        ("200,200", Shape::Flat(300), 128, 10, "scale-mixture"),
        ("lenet-5", image, 64, 10, "normal"),
    ] {
        let problem = problem(network, shape, rows, classes, prior);
        let batch: Vec<u32> = (0..rows as u32 / 2).collect();
        for rows in [Rows::All, Rows::Batch(&batch)] {
            pool.install(|| {
                let mut map = PointTrainer::new(&problem, true, problem.data().rows, Key::new(1));
                // Rows::Batch needs the gather buffers, which exist when a batch is smaller than the data.
                if matches!(rows, Rows::Batch(_)) {
                    map = PointTrainer::new(&problem, true, batch.len(), Key::new(1));
                }
                let n = allocations(|t| {
                    map.step(rows, plan(t));
                });
                assert_eq!(n, 0, "map {network} {prior}");
                let mean = problem.initial(Key::new(2));
                let std = vec![0.05; mean.len()];
                let size = if matches!(rows, Rows::All) { problem.data().rows } else { batch.len() };
                if let Ok(mut q) = MomentsTrainer::new(&problem, &mean, &std, size, Key::new(1)) {
                    let n = allocations(|t| {
                        q.step(rows, plan(t));
                    });
                    assert_eq!(n, 0, "moments {network} {prior}");
                }
                for samples in [1, 3] {
                    let mut q = MeanFieldTrainer::new(&problem, &mean, &std, samples, size, Key::new(1));
                    let n = allocations(|t| {
                        q.step(rows, plan(t));
                    });
                    assert_eq!(n, 0, "mean-field {network} {prior} with {samples} samples");
                }
            });
        }
    }
}
