//! A training step allocates nothing. `gemm` packs its operands into memory of its own, which is told apart.

use posterior::data::{Dataset, Values};
use posterior::family::{FullCovariance, LowRank, ScoreFunction};
use posterior::inference::{
    BlackBoxTrainer, ESTIMATORS, FamilyTrainer, IvonOptions, IvonTrainer, MeanFieldTrainer, MomentsTrainer,
    PointTrainer, StepPlan, SwagTrainer,
};
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
        // The pool's threads alone: the test harness prints when a test takes long.
        if !inside_gemm() && rayon::current_thread_index().is_some() {
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

/// Paths that part and join again, and an input that is the index of a category.
const GRAPH: &str = r#"layers = [{ kind = "graph", nodes = [
    { name = "x", kind = "select", columns = [0, 1, 2], from = ["input"] }, { kind = "select", columns = [3], from = ["input"] },
    { name = "c", kind = "embedding", categories = 4, size = 3 }, { name = "both", kind = "concat", from = ["x", "c"] },
    { kind = "dense", units = 6, activation = "gelu" }, { name = "inner", kind = "dropout", rate = 0.1 }, { name = "sum", kind = "add", from = ["both", "inner"] },
    { name = "normed", kind = "group-norm", groups = 2 }, { kind = "concat", from = ["sum", "normed", "both"] }] }]"#;

fn problem(network: &str, shape: Shape, rows: usize, classes: usize, prior: &str) -> Problem {
    let recipe = Recipe {
        network: match network {
            "graph" => toml::from_str(GRAPH).unwrap(),
            _ => NetworkSpec::parse(network, Activation::Relu).unwrap(),
        },
        prior: Choice::named(prior),
        ..Recipe::default()
    };
    let (outcome, width) = if classes == 0 { (Outcome::Real, 1) } else { (Outcome::Class, classes) };
    let x = vec![0.5f32; rows * shape.len()];
    let y = (0..rows).map(|i| (i % classes.max(2)) as f64).collect();
    let resolved = recipe.resolve_for(shape, outcome, width).unwrap();
    resolved.problem(Dataset::new(Values::F32(x.into()), shape, y, 1)).unwrap()
}

/// Allocations of 20 steps, after some steps to fill lazily made buffers of other crates: the fewest of up to five counts, since
/// the pool's idle threads allocate once in a while, and a step that allocates does so every time.
fn allocations(mut step: impl FnMut(u64)) -> usize {
    (0..5).for_each(&mut step);
    let mut fewest = usize::MAX;
    for window in 0..5 {
        let before = COUNT.load(Ordering::Relaxed);
        (5 + 20 * window..25 + 20 * window).for_each(&mut step);
        fewest = fewest.min(COUNT.load(Ordering::Relaxed) - before);
        if fewest == 0 {
            break;
        }
    }
    fewest
}

#[test]
fn a_step_allocates_nothing() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let counted = pool.install(|| allocations(|_| drop(std::hint::black_box(vec![1u8]))));
    assert!(counted >= 20, "the counter counts");
    let image = Shape::Image { channels: 1, height: 28, width: 28 };
    let plan = |step| StepPlan { step, rate: 1e-3, beta: 1.0 };
    for (network, shape, rows, classes, prior) in [
        ("50", Shape::Flat(8), 32, 0, "normal"),
        ("50", Shape::Flat(8), 1000, 0, "laplace"),
        ("200,200", Shape::Flat(300), 128, 10, "normal"),
        ("200,200", Shape::Flat(300), 128, 10, "scale-mixture"),
        ("lenet-5", image, 64, 10, "normal"),
        ("graph", Shape::Flat(4), 32, 0, "normal"),
    ] {
        let problem = problem(network, shape, rows, classes, prior);
        let batch: Vec<u32> = (0..rows as u32 / 2).collect();
        for rows in [Rows::All, Rows::Batch(&batch)] {
            // Rows::Batch needs the gather buffers, which exist when a batch is smaller than the data.
            let size = if matches!(rows, Rows::All) { problem.data().rows } else { batch.len() };
            pool.install(|| {
                macro_rules! expect_none {
                    ($what:expr, $trainer:expr) => {
                        let mut trainer = $trainer;
                        let n = allocations(|t| {
                            trainer.step(rows, plan(t));
                        });
                        assert_eq!(n, 0, "{} {network} {prior}", $what);
                    };
                }
                let key = Key::new(1);
                expect_none!("map", PointTrainer::new(&problem, true, size, key));
                let mean = problem.initial(Key::new(2));
                // Steps with a snapshot after each other one.
                let mut swag = SwagTrainer::new(&problem, &mean, 3, size.div_ceil(2), key);
                let n = allocations(|t| {
                    swag.step(plan(t));
                });
                assert_eq!(n, 0, "swag {network} {prior}");
                let std = vec![0.05; mean.len()];
                if let Ok(trainer) = MomentsTrainer::new(&problem, &mean, &std, size, key) {
                    expect_none!("moments", trainer);
                }
                // What several draws add is the same for all networks: the large one need not show it.
                for samples in if network == "lenet-5" { 1..=1 } else { 1..=2 } {
                    let what = |name: &str| format!("{name}, {samples} samples,");
                    for (name, estimator) in ESTIMATORS {
                        let trainer = MeanFieldTrainer::new(&problem, &mean, &std, samples, size, key);
                        expect_none!(what(name), trainer.with_estimator(*estimator));
                    }
                    let options = IvonOptions { hessian_init: 1.0, beta1: 0.9, beta2: 0.99, learning_rate: 1e-3 };
                    expect_none!(what("ivon"), IvonTrainer::new(&problem, &mean, options, samples, size, key));
                    let score = ScoreFunction { control_variate: true };
                    let trainer = BlackBoxTrainer::new(&problem, &mean, &std, score, samples, size, key);
                    expect_none!(what("bbvi"), trainer);
                    let low = LowRank::new(&mean, &std, 2, samples, key);
                    expect_none!(what("low-rank"), FamilyTrainer::new(&problem, low, samples, size, key));
                    // Larger networks have too many parameters for a full covariance.
                    if mean.len() < 1000 {
                        let full = FullCovariance::new(&mean, &std, samples);
                        expect_none!(what("full-covariance"), FamilyTrainer::new(&problem, full, samples, size, key));
                    }
                }
            });
        }
    }
}
