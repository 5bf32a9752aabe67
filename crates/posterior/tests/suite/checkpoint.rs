//! Every method can be interrupted at any moment and resumed: the model has the bits of a fit in one go.

use posterior::data::{Column, Dataset, EncodeOptions, Table, Values};
use posterior::family::{FullCovariance, LowRank, ScoreFunction};
use posterior::inference::{
    BlackBoxTrainer, Checkpoint, ESTIMATORS, FamilyTrainer, Flow, IvonOptions, IvonTrainer, METHODS, MeanFieldTrainer,
    MomentsTrainer, Observer, PointTrainer, Progress, Silent, StepPlan, Stepper, SwagTrainer,
};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::problem::{Problem, Rows};
use posterior::rng::Key;
use posterior::settings::Value;
use posterior::snapshot::Stateful;
use posterior::{ErrorKind, artifact};
use std::path::Path;

/// Asks for the state at every look, and keeps the bytes of the checkpoint as they are then: any of them might be the file that a killed process leaves. Stops
/// at a look of a number.
struct Watch {
    checkpoint: Checkpoint,
    looks: usize,
    stop_at: usize,
    left: Vec<Vec<u8>>,
}

impl Watch {
    fn new(checkpoint: Checkpoint) -> Watch {
        Watch { checkpoint, looks: 0, stop_at: usize::MAX, left: Vec::new() }
    }
}

impl Observer for Watch {
    fn progress(&mut self, _: &Progress) -> Flow {
        self.looks += 1;
        self.left.push(self.checkpoint.to_bytes().unwrap());
        self.checkpoint.request();
        if self.looks >= self.stop_at { Flow::Stop } else { Flow::Continue }
    }
    fn warn(&mut self, _: &str) {}
    fn checkpoint(&mut self) -> Option<Checkpoint> {
        Some(self.checkpoint.clone())
    }
}

fn table() -> Table {
    let x: Vec<f64> = (0..60).map(|i| f64::from(i) * 0.1 - 3.0).collect();
    let z: Vec<f64> = (0..60).map(|i| f64::from(i * 7 % 11)).collect();
    let y = x.iter().zip(&z).map(|(x, z)| x.sin() + 0.1 * z).collect();
    let column = |name: &str, v: Vec<f64>| (name.to_owned(), Column::Number(v));
    Table::from_columns(vec![column("x", x), column("z", z), column("y", y)]).unwrap()
}

/// The method with settings that make its fit short, as far as it has them.
fn short(method: &str, more: &[(&str, Value)]) -> Choice {
    let has = |name: &str| METHODS.iter().any(|m| m.name == method && m.settings.iter().any(|s| s.name == name));
    let text = |t: &str| Value::Text(t.to_owned());
    let mut all = vec![
        ("epochs", Value::Int(9)),
        ("swag_epochs", Value::Int(4)),
        ("vi_epochs", Value::Int(4)),
        ("members", Value::Int(3)),
        ("batch_size", Value::Int(16)),
        ("patience", Value::Int(2)),
        ("online", Value::Int(2)),
        ("polish", Value::Int(5)),
    ];
    if has("chains") {
        all.extend([("chains", Value::Int(3)), ("draws", Value::Int(4)), ("thin", Value::Int(2))]);
        all.extend([("warmup", Value::Int(40)), ("max_steps", Value::Int(8)), ("max_depth", Value::Int(3))]);
        all.extend([
            ("length", Value::Float(0.3)),
            ("start", text(if method == "hmc" { "tempered" } else { "modes" })),
        ]);
        all.push(("steps", Value::Int(if method == "annealing" { 30 } else { 0 })));
    }
    if method == "importance" {
        all.push(("draws", Value::Int(2500)));
    }
    all.extend(more.iter().cloned());
    all.into_iter().filter(|(name, _)| has(name)).fold(Choice::named(method), |c, (name, value)| c.with(name, value))
}

fn recipe(method: Choice) -> Recipe {
    Recipe { network: NetworkSpec::parse("5", Activation::Tanh).unwrap(), method, ..Recipe::default() }
}

fn fit(recipe: &Recipe, observer: &mut dyn Observer) -> posterior::Result<Vec<u8>> {
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let mut model = Model::fit(recipe, &table(), &options, 3, observer)?;
    model.summary.seconds = 0.0;
    artifact::to_bytes(&model)
}

fn read(bytes: &[u8]) -> Checkpoint {
    Checkpoint::from_bytes(bytes, Path::new("c")).unwrap()
}

/// In one go; from what a killed process may have left; and stopped in order, time and again.
fn holds(name: &str, recipe: &Recipe) {
    let whole = fit(recipe, &mut Silent).unwrap();
    let mut watch = Watch::new(Checkpoint::new());
    assert!(fit(recipe, &mut watch).unwrap() == whole, "{name}: asking for states changes the fit");
    let left = watch.left;
    for at in [0, 1, left.len() / 3, left.len() / 2, left.len() * 3 / 4, left.len().saturating_sub(1)] {
        let Some(bytes) = left.get(at) else { continue };
        let again = fit(recipe, &mut Watch::new(read(bytes))).unwrap();
        assert!(again == whole, "{name}: killed after look {at} of {}", left.len());
    }
    let (checkpoint, mut rounds) = (Checkpoint::new(), 0);
    let again = loop {
        let mut watch = Watch { stop_at: 5 + rounds, ..Watch::new(checkpoint.clone()) };
        match fit(recipe, &mut watch) {
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted) => rounds += 1,
            // Chains that are stopped after their first draw give what they have.
            Ok(bytes) if watch.looks >= watch.stop_at && bytes != whole => rounds += 1,
            done => break done.unwrap(),
        }
        assert!(rounds < 1000, "{name} does not come to its end");
    };
    assert!(again == whole, "{name}: stopped {rounds} times");
    // At its end, nothing is left to do.
    let mut idle = Watch::new(read(&checkpoint.to_bytes().unwrap()));
    assert!(fit(recipe, &mut idle).unwrap() == whole, "{name}: resumed at its end");
}

#[test]
fn every_method_is_resumed_with_the_same_bits() {
    for method in METHODS {
        let mut recipe = recipe(short(method.name, &[]));
        if method.name == "linear" {
            recipe.network = NetworkSpec::default();
        }
        holds(method.name, &recipe);
    }
}

/// Settings under which a fit has more state, or more stages.
#[test]
fn so_are_their_variants() {
    let text = |t: &str| Value::Text(t.to_owned());
    let cases: [(&str, &[(&str, Value)]); 10] = [
        ("mean-field", &[("initial_mean", text("map")), ("estimator", text("direct")), ("samples", Value::Int(2))]),
        ("mean-field", &[("estimator", text("flipout"))]),
        ("low-rank", &[("samples", Value::Int(2))]),
        ("ivon", &[("samples", Value::Int(2))]),
        ("swag", &[("members", Value::Int(1))]),
        ("ensemble", &[("anchored", Value::Bool(true)), ("leave_out", Value::Float(0.2))]),
        ("sgld", &[("schedule", text("cyclical")), ("cycles", Value::Int(2))]),
        ("sghmc", &[("preconditioner", text("none")), ("learning_rate", Value::Float(1e-4))]),
        ("hmc", &[("start", text("annealing"))]),
        ("importance", &[("proposal", text("mixture"))]),
    ];
    for (method, more) in cases {
        holds(&format!("{method} {more:?}"), &recipe(short(method, more)));
    }
    // Chains of nuts-rs are kept where a segment begins, after 0, 50 and 100 transitions.
    for method in ["nuts", "mclmc"] {
        let recipe = recipe(short(method, &[("draws", Value::Int(70))]));
        holds(&format!("long {method}"), &recipe);
        let mut watch = Watch::new(Checkpoint::new());
        fit(&recipe, &mut watch).unwrap();
        let inside = |bytes: &[u8]| bytes.windows(18).any(|w| w == b"chain.chain.scales");
        assert!(watch.left.iter().any(|bytes| inside(bytes)), "{method} is never kept on its way");
    }
    // A prior that is not normal is differentiated at draws, and its part of the KL is averaged.
    for method in ["mean-field", "ivon", "low-rank", "bbvi", "moments", "sgld"] {
        let other = Recipe { prior: Choice::named("laplace"), ..recipe(short(method, &[])) };
        holds(&format!("{method} with a Laplace prior"), &other);
    }
}

/// Weights are removed in training after 500 steps at the earliest.
#[test]
fn removed_weights_stay_removed() {
    let more = [("epochs", Value::Int(300)), ("patience", Value::Int(0)), ("threshold", Value::Float(-1.0))];
    let recipe = recipe(short("sparse-dropout", &more));
    let whole = fit(&recipe, &mut Silent).unwrap();
    let checkpoint = Checkpoint::new();
    let mut watch = Watch { stop_at: 290, ..Watch::new(checkpoint.clone()) };
    assert!(fit(&recipe, &mut watch).is_err());
    assert!(fit(&recipe, &mut Watch::new(checkpoint)).unwrap() == whole);
}

fn problem(prior: &str) -> Problem {
    let recipe = Recipe {
        network: NetworkSpec::parse("6", Activation::Tanh).unwrap(),
        prior: Choice::named(prior),
        ..Recipe::default()
    };
    let x: Vec<f64> = (0..50).map(|i| f64::from(i) * 0.1).collect();
    let y = x.iter().map(|x| x.sin()).collect();
    let resolved = recipe.resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap();
    resolved.problem(Dataset::new(Values::F64(x.into()), Shape::Flat(1), y, 1)).unwrap()
}

/// Every public trainer, driven by hand: after any step, another one made in the same way goes on from its snapshot.
#[test]
fn trainers_are_driven_by_hand() {
    const STEPS: u64 = 12;
    let rows: Vec<u32> = (0..20).collect();
    let run = |trainer: &mut dyn Stepper, steps: std::ops::Range<u64>| -> Vec<f64> {
        steps.map(|step| trainer.step(Rows::Batch(&rows), StepPlan { step, rate: 0.01, beta: 0.7 })).collect()
    };
    for prior in ["normal", "laplace"] {
        let problem = problem(prior);
        let (mean, std) = (problem.initial(Key::new(2)), vec![0.05; problem.dim()]);
        let (p, key) = (&problem, Key::new(1));
        type Make<'m> = Box<dyn Fn() -> Box<dyn Stepper + 'm> + 'm>;
        let mut makes: Vec<Make<'_>> = vec![
            Box::new(|| Box::new(PointTrainer::new(p, true, 20, key))),
            Box::new(|| Box::new(SwagTrainer::new(p, &mean, 3, 20, key))),
            Box::new(|| Box::new(MomentsTrainer::new(p, &mean, &std, 20, key).unwrap())),
        ];
        for samples in 1..=2 {
            let (mean, std) = (&mean, &std);
            for (_, estimator) in ESTIMATORS {
                makes.push(Box::new(move || {
                    Box::new(MeanFieldTrainer::new(p, mean, std, samples, 20, key).with_estimator(*estimator))
                }));
            }
            let options = IvonOptions { hessian_init: 1.0, beta1: 0.9, beta2: 0.99, learning_rate: 0.01 };
            makes.push(Box::new(move || Box::new(IvonTrainer::new(p, mean, options, samples, 20, key))));
            let score = ScoreFunction { control_variate: true };
            makes.push(Box::new(move || Box::new(BlackBoxTrainer::new(p, mean, std, score, samples, 20, key))));
            makes.push(Box::new(move || {
                Box::new(FamilyTrainer::new(p, LowRank::new(mean, std, 2, samples, key), samples, 20, key))
            }));
            makes.push(Box::new(move || {
                Box::new(FamilyTrainer::new(p, FullCovariance::new(mean, std, samples), samples, 20, key))
            }));
        }
        for make in &makes {
            let mut whole = make();
            let values = run(&mut *whole, 0..STEPS);
            let end = whole.snapshot().unwrap();
            for at in 0..=STEPS {
                let mut first = make();
                run(&mut *first, 0..at);
                let mut second = make();
                second.resume(&first.snapshot().unwrap()).unwrap();
                assert_eq!(run(&mut *second, at..STEPS), values[at as usize..], "{} after {at}", whole.kind());
                assert!(second.snapshot().unwrap() == end, "{} after {at}", whole.kind());
            }
            // Had any part been left out, that would have been seen: but for what the next step writes over.
            let (fresh, mut first) = (make().snapshot().unwrap(), make());
            run(&mut *first, 0..STEPS / 2);
            let kept = first.snapshot().unwrap();
            for ((name, array), (_, at_start)) in kept.arrays().zip(fresh.arrays()) {
                let mut without = kept.clone();
                without.insert(name, at_start.clone());
                let mut second = make();
                second.resume(&without).unwrap();
                let same = run(&mut *second, STEPS / 2..STEPS) == values[STEPS as usize / 2..];
                let seen = !same || second.snapshot().unwrap() != end;
                let written_over =
                    array == at_start || ["kl.last", "step", "point.step", "family.beta"].contains(&name);
                assert!(seen || written_over, "{}: '{name}' makes no difference", whole.kind());
            }
            // Of another number of parameters: an error, not a panic.
            let other = PointTrainer::new(p, true, 20, key).snapshot().unwrap();
            if whole.kind() != "point" {
                assert!(make().resume(&other).unwrap_err().to_string().contains("the snapshot holds no '"));
            }
        }
    }
}

#[test]
fn another_fits_checkpoint_is_refused_and_kept() {
    let mean_field = recipe(short("mean-field", &[]));
    let checkpoint = Checkpoint::new();
    let mut watch = Watch { stop_at: 5, ..Watch::new(checkpoint.clone()) };
    fit(&mean_field, &mut watch).unwrap_err();
    let bytes = checkpoint.to_bytes().unwrap();
    let told = |recipe: &Recipe, seed: u64, table: &Table| {
        let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
        let read = read(&bytes);
        let error = Model::fit(recipe, table, &options, seed, &mut Watch::new(read.clone())).unwrap_err().to_string();
        assert!(read.to_bytes().unwrap() == bytes, "the checkpoint is as it was");
        error
    };
    let same = "; resume with the same data and settings, or begin anew";
    let other = recipe(short("mean-field", &[("samples", Value::Int(2))]));
    let what = "c: this is the checkpoint of a fit with another model, likelihood, prior or method, or other settings";
    assert_eq!(told(&other, 3, &table()), format!("{what}{same}"));
    assert_eq!(told(&recipe(short("map", &[])), 3, &table()), format!("{what}{same}"));
    let what = "c: this is the checkpoint of a fit with another seed";
    assert_eq!(told(&mean_field, 4, &table()), format!("{what}{same}"));
    let fewer = table().select(&(0..59).collect::<Vec<_>>());
    assert_eq!(told(&mean_field, 3, &fewer), format!("c: this is the checkpoint of a fit with other data{same}"));
}

#[test]
fn a_damaged_checkpoint_is_an_error() {
    let recipe = recipe(short("map", &[]));
    let checkpoint = Checkpoint::new();
    fit(&recipe, &mut Watch { stop_at: 5, ..Watch::new(checkpoint.clone()) }).unwrap_err();
    let bytes = checkpoint.to_bytes().unwrap();
    let told = |bytes: &[u8]| Checkpoint::from_bytes(bytes, Path::new("c")).err().map(|e| e.to_string());
    assert_eq!(told(&bytes), None);
    for cut in (0..bytes.len()).step_by(7) {
        let error = told(&bytes[..cut]).unwrap_or_else(|| panic!("cut to {cut} bytes it is read"));
        assert!(error.starts_with("c: ") && !error.contains('\n'), "{error}");
    }
    for at in (0..bytes.len()).step_by(5) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let around = &damaged[at.saturating_sub(20)..(at + 20).min(damaged.len())];
        assert!(told(&damaged).is_some(), "byte {at} is not looked at: {}", String::from_utf8_lossy(around));
    }
    assert!(told(b"").unwrap().starts_with("c: the file is empty"));
    assert!(told(b"a,b\n1,2\n").unwrap().starts_with("c: this is not a checkpoint"));
    let model = fit(&recipe, &mut Silent).unwrap();
    assert!(told(&model).unwrap().starts_with("c: this file holds a 'posterior model', not a checkpoint"));
}
