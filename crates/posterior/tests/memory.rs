//! What every method says it will hold is what it holds: the statement that memory is asked for, against the peak of a fit.

use posterior::data::{Dataset, Values};
use posterior::inference::{METHODS, MethodEntry, Silent};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::rng::Key;
use posterior::settings::{Allowed, Setting, Value};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;
static NOW: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

fn add(bytes: isize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Few steps: state is made at the start, and is what counts.
const SHORT: &[(&str, i64)] = &[
    ("epochs", 2),
    ("draws", 8),
    ("warmup", 8),
    ("samples", 2),
    ("leapfrog_steps", 2),
    ("swag_epochs", 25),
    ("collect_epochs", 25),
    ("max_depth", 2),
    ("sweeps", 2),
];

/// Bytes stated, and bytes held at most, by a fit of a network that the method can afford.
fn measured(entry: &MethodEntry, network: &str, rows: usize) -> (u128, u128) {
    let mut method = Choice::named(entry.name);
    let takes = |name: &str, value: i64| {
        let fits = |s: &Setting| matches!(s.allowed, Allowed::Int(low, high) if (low..=high).contains(&value));
        entry.settings.iter().any(|s| s.name == name && fits(s))
    };
    for (name, value) in SHORT.iter().filter(|(name, value)| takes(name, *value)) {
        method = method.with(name, Value::Int(*value));
    }
    let network = NetworkSpec::parse(network, Activation::Tanh).unwrap();
    let recipe = Recipe { network, method, ..Recipe::default() };
    let resolved = recipe.resolve_for(Shape::Flat(8), Outcome::Real, 1).unwrap();
    let x = (0..rows * 8).map(|i| ((i * 37 % 101) as f32 / 50.0) - 1.0).collect::<Vec<_>>();
    let y = (0..rows).map(|i| ((i * 13 % 29) as f64 / 14.0) - 1.0).collect();
    let method = resolved.method().unwrap();
    let problem = resolved.problem(Dataset::new(Values::F32(x.into()), Shape::Flat(8), y, 1)).unwrap();
    let stated = method.bytes(&problem);
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let fit = method.fit(&problem, Key::new(1), &mut Silent);
    let held = MOST.load(Ordering::Relaxed) - before;
    if let Err(e) = fit {
        panic!("{}: {e}", entry.name);
    }
    (stated, held as u128)
}

#[test]
fn methods_hold_what_they_say() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut wrong = Vec::new();
    for entry in METHODS {
        // Wide: the state counts. Narrow with many rows: the passes count.
        let square = ["full-covariance", "laplace", "linear"].contains(&entry.name);
        let wide = if square { "20,20" } else { "300,300" };
        for (network, rows) in [(wide, 40), ("8", 3000)] {
            let (stated, held) = pool.install(|| measured(entry, network, rows));
            let ratio = stated as f64 / held as f64;
            println!("{:20} {network:8} stated {:10} held {:10} ratio {ratio:.2}", entry.name, stated, held);
            if !(0.9..=4.0).contains(&ratio) {
                wrong.push((entry.name, network, ratio));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
