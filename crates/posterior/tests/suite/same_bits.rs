//! The same seed gives the same bits on 1, 2 and 4 threads, for every method, on networks that are split in different ways.

use posterior::ErrorKind;
use posterior::data::{Dataset, Values};
use posterior::inference::{METHODS, Silent};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::Tensor;
use posterior::predict::{NetworkPredictor, Predictor, TargetScale};
use posterior::rng::{Key, Stream, fill_normals};
use posterior::settings::Value;
use std::sync::Arc;

struct Case {
    name: &'static str,
    network: NetworkSpec,
    shape: Shape,
    rows: usize,
    batch: i64,
    classes: usize,
    prior: &'static str,
}

fn cases() -> Vec<Case> {
    let image = Shape::Image { channels: 1, height: 12, width: 12 };
    let conv = r#"layers = [{ kind = "conv", channels = 6, kernel = 3, activation = "relu" }, { kind = "max-pool", size = 2 },
                            { kind = "dropout", rate = 0.2 }, { kind = "dense", units = 64, activation = "relu" }]"#;
    let graph = r#"layers = [{ kind = "graph", nodes = [
        { name = "fine", kind = "conv", channels = 3, kernel = 3, padding = 1, activation = "relu" }, { kind = "max-pool", size = 2 },
        { kind = "conv", channels = 4, kernel = 3, padding = 1 }, { kind = "group-norm", groups = 2 }, { kind = "activation", activation = "tanh" },
        { name = "up", kind = "upsample", factor = 2, interpolation = "bilinear" }, { kind = "concat", from = ["fine", "up"] },
        { kind = "avg-pool", size = 3 }] }]"#;
    let parse = |t: &str| NetworkSpec::parse(t, Activation::Tanh).unwrap();
    vec![
        // Chunks of a small network are dealt to teams.
        Case {
            name: "small",
            network: parse("30"),
            shape: Shape::Flat(5),
            rows: 700,
            batch: 600,
            classes: 0,
            prior: "normal",
        },
        // A large one's products use the threads.
        Case {
            name: "wide",
            network: parse("300,300"),
            shape: Shape::Flat(40),
            rows: 300,
            batch: 256,
            classes: 4,
            prior: "scale-mixture",
        },
        Case {
            name: "conv",
            network: toml::from_str(conv).unwrap(),
            shape: image,
            rows: 150,
            batch: 128,
            classes: 3,
            prior: "normal",
        },
        // Paths that part and join again.
        Case {
            name: "graph",
            network: toml::from_str(graph).unwrap(),
            shape: image,
            rows: 70,
            batch: 64,
            classes: 3,
            prior: "normal",
        },
    ]
}

/// The method with settings that make its fit short, as far as it has them.
fn short(method: &str, case: &Case) -> Choice {
    let has = |name: &str| METHODS.iter().any(|m| m.name == method && m.settings.iter().any(|s| s.name == name));
    let mut all = vec![
        ("epochs", Value::Int(3)),
        ("swag_epochs", Value::Int(3)),
        ("members", Value::Int(3)),
        ("batch_size", Value::Int(case.batch)),
    ];
    if has("chains") {
        // Short MAP fits take long on the large networks.
        let start = match (case.name, method) {
            ("small", "hmc") => "tempered",
            ("small", _) => "modes",
            _ => "prior",
        };
        all.extend([("chains", Value::Int(3)), ("draws", Value::Int(3)), ("thin", Value::Int(2))]);
        all.extend([("warmup", Value::Int(4)), ("max_steps", Value::Int(4)), ("max_depth", Value::Int(3))]);
        all.extend([("length", Value::Float(0.3)), ("start", Value::Text(start.into()))]);
    }
    if method == "importance" {
        all.push(("draws", Value::Int(30)));
    }
    if method == "annealing" {
        all.push(("steps", Value::Int(20)));
    }
    all.into_iter().filter(|(name, _)| has(name)).fold(Choice::named(method), |c, (name, value)| c.with(name, value))
}

/// Chains use the threads in one way: one of them is enough on the large networks.
const SMALL_ONLY: [&str; 5] = ["full-covariance", "nuts", "mclmc", "metropolis", "annealing"];

/// Nothing where the method says, in one sentence, that it is not for this case.
fn fit(case: &Case, method: &str, threads: usize) -> Option<(Vec<Tensor>, Vec<f32>)> {
    let mut x = vec![0.0f32; case.rows * case.shape.len()];
    fill_normals(Key::new(1), &mut x);
    let mut stream = Stream::new(Key::new(2));
    let y = (0..case.rows)
        .map(|_| if case.classes == 0 { stream.normal() } else { stream.below(case.classes as u64) as f64 })
        .collect();
    let recipe = Recipe {
        network: case.network.clone(),
        prior: Choice::named(case.prior),
        method: short(method, case),
        ..Recipe::default()
    };
    let (outcome, width) = if case.classes == 0 { (Outcome::Real, 1) } else { (Outcome::Class, case.classes) };
    let resolved = recipe.resolve_for(case.shape, outcome, width).unwrap();
    let (method, values) = (resolved.method().unwrap(), Values::F32(x.into()));
    let (network, likelihood) = (resolved.network.clone(), resolved.likelihood.clone());
    let problem = resolved.problem(Dataset::new(values.clone(), case.shape, y, 1)).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let fit = match method.fit(&problem, Key::new(7), &mut Silent) {
            Err(e) if matches!(e.kind(), ErrorKind::Setting { .. }) => return None,
            fit => fit.unwrap(),
        };
        let tensors = fit.posterior.tensors();
        let posterior: Arc<dyn posterior::posterior::Posterior> = fit.posterior.into();
        let (key, scale) = (Key::new(7), TargetScale::default());
        let predictive = NetworkPredictor { network, likelihood, posterior, draws: 3, key, scale }.predict(&values);
        let outputs = (0..predictive.draws()).flat_map(|s| predictive.draw(s).unwrap().to_vec()).collect();
        Some((tensors, outputs))
    })
}

#[test]
fn one_two_and_four_threads_agree() {
    for case in cases() {
        // A full covariance has P² numbers: it refuses the wide network, and takes its time over the other.
        for method in METHODS.iter().filter(|m| !SMALL_ONLY.contains(&m.name) || case.name == "small") {
            let one = fit(&case, method.name, 1);
            // A prior that is not normal is not for every method; moments are for dense layers alone, and linear has no hidden ones.
            let may_refuse = case.name == "wide"
                || (["conv", "graph"].contains(&case.name) && method.name == "moments")
                || method.name == "linear";
            assert!(one.is_some() || may_refuse, "{} refuses {}", method.name, case.name);
            for threads in [2, 4] {
                assert!(one == fit(&case, method.name, threads), "{} {} on {threads} threads", case.name, method.name);
            }
        }
    }
}
