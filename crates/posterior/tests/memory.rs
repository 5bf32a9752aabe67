//! Memory is asked for before it is held: methods against the peak of a fit, model files against their length.

use posterior::ErrorKind;
use posterior::artifact;
use posterior::data::{Column, Dataset, EncodeOptions, Table, Values};
use posterior::inference::{METHODS, MethodEntry, Silent, check_memory};
use posterior::likelihood::Outcome;
use posterior::memory::with_limit;
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::rng::Key;
use posterior::settings::{Allowed, Setting, Value};
use serde_json::{Value as Json, json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

/// What is counted is that of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

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

/// Methods that the test passes over.
const UNMEASURED: [&str; 4] = ["linear", "sgld", "sghmc", "importance"];

/// Few steps: state is made at the start, and is what counts.
const SHORT: &[(&str, i64)] = &[
    ("epochs", 2),
    ("draws", 8),
    ("warmup", 8),
    ("samples", 2),
    ("swag_epochs", 25),
    ("max_depth", 2),
    ("steps", 4),
    ("vi_epochs", 2),
];

/// Whether the fit of a network by a method is refused at a part of what it was seen to hold and allowed at 8 times as much.
fn judged(entry: &MethodEntry, network: &str, rows: usize, part: f64) -> Result<(), String> {
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
    let fit = || check_memory(&*method, &problem).and_then(|()| method.fit(&problem, Key::new(1), &mut Silent));
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    fit().map_err(|e| e.to_string())?;
    let held = (MOST.load(Ordering::Relaxed) - before) as u64;
    let per_parameter = held as f64 / problem.dim() as f64 / 4.0;
    let stated = method.bytes(&problem) as f64 / held as f64;
    println!(
        "{:20} {:6} parameters, {rows:4} rows: {held:9} bytes, {per_parameter:6.1} numbers each; stated {stated:.2}",
        entry.name,
        problem.dim()
    );
    match with_limit((held as f64 * part) as u64, fit) {
        Err(e) if matches!(e.kind(), ErrorKind::Memory { .. }) => {}
        other => return Err(format!("allowed {part} of what it holds: {other:?}")),
    }
    with_limit(held * 8, fit).map(|_| ()).map_err(|e| format!("refused 8 times what it holds: {e}"))
}

#[test]
fn methods_ask_for_what_they_hold() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut wrong = Vec::new();
    for entry in METHODS {
        // Samplers take long on a network whose state can be told from fixed costs, and linear has no network.
        if entry.configure(&[]).unwrap().sampler().is_some() || UNMEASURED.contains(&entry.name) {
            continue;
        }
        // Matrices are asked for by their own count, which leaves out what the factorisations of other crates need in passing.
        let square = ["full-covariance", "laplace"].contains(&entry.name);
        let (network, part) = if square { ("20,20", 0.6) } else { ("300,300", 0.9) };
        if let Err(what) = pool.install(|| judged(entry, network, 40, part)) {
            wrong.push(format!("{} on {network}: {}", entry.name, what.chars().take(200).collect::<String>()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A model file whose recipe has these layers, in front of images of `pixels` × 1.
fn with_layers(model: &[u8], layers: &Json, pixels: usize) -> Vec<u8> {
    let length = u64::from_le_bytes(model[..8].try_into().unwrap()) as usize;
    let mut header: Json = serde_json::from_slice(&model[8..8 + length]).unwrap();
    let mut manifest: Json = serde_json::from_str(header["__metadata__"]["posterior"].as_str().unwrap()).unwrap();
    let scale = json!({ "mean": 0.0, "std": 1.0 });
    manifest["encoder"]["inputs"] =
        json!({ "images": { "channels": 1, "height": pixels, "width": 1, "scale": scale } });
    manifest["recipe"]["network"]["layers"] = layers.clone();
    header["__metadata__"]["posterior"] = json!(manifest.to_string());
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &model[8 + length..]].concat()
}

/// However much memory there is: what a recipe asks for is not made before there are rows for it.
#[test]
fn loading_takes_what_the_files_length_justifies() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let x: Vec<f64> = (0..20).map(f64::from).collect();
    let y = Column::Number(x.iter().map(|v| v.sin()).collect());
    let table = Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), y)]).unwrap();
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let method = Choice::named("map").with("epochs", Value::Int(1));
    let recipe = Recipe { network: NetworkSpec::parse("2", Activation::Tanh).unwrap(), method, ..Recipe::default() };
    let model = artifact::to_bytes(&Model::fit(&recipe, &table, &options, 0, &mut Silent).unwrap()).unwrap();
    for (layers, pixels) in [
        (json!([{ "kind": "random-features", "count": 65536, "length_scale": 1.0 }]), 1 << 28),
        (json!([{ "kind": "random-features", "count": 65536, "length_scale": 1.0 }]), 1 << 8),
        (json!([{ "kind": "fourier", "frequencies": 1, "period": 1.0 }]), 1 << 15),
        (json!([{ "kind": "polynomial", "degree": 1 }]), (1 << 16) - 1),
        (json!([{ "kind": "polynomial", "degree": 8 }]), 10),
        (json!([{ "kind": "dense", "units": 1 << 20 }, { "kind": "dense", "units": 1 << 12 }]), 1 << 12),
        (json!([{ "kind": "conv", "channels": 1 << 20, "kernel": 1 }]), 1 << 20),
        (json!([{ "kind": "residual", "layers": [{ "kind": "polynomial", "degree": 1 }] }]), (1 << 16) - 1),
    ] {
        let file = with_layers(&model, &layers, pixels);
        let before = NOW.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let begun = Instant::now();
        let refused = with_limit(u64::MAX - 1, || artifact::from_bytes(&file, "m".as_ref())).unwrap_err();
        let held = (MOST.load(Ordering::Relaxed) - before) as usize;
        // JSON is read into trees of some ten times its length.
        assert!(held < 20 * file.len(), "{layers}: {held} bytes for a file of {}: {refused}", file.len());
        // Far more than a parse takes, far less than 2³² steps.
        assert!(begun.elapsed() < Duration::from_secs(2), "{layers}: {:?}", begun.elapsed());
    }
}
