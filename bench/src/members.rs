//! S members of an ensemble side by side, against S fits of one network one after another: on one thread, and on as many as the ensemble has.

use crate::timing::measure;
use posterior::data::{Dataset, Values};
use posterior::inference::{Method, Silent, find};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::problem::Problem;
use posterior::rng::{Key, Stream, fill_normals};
use posterior::settings::Value;
use std::hint::black_box;

const MEMBERS: u64 = 10;

fn problem(network: &str, inputs: usize, classes: usize, rows: usize) -> Problem {
    let shape = Shape::Flat(inputs);
    let mut x = vec![0.0f32; rows * inputs];
    fill_normals(Key::new(1), &mut x);
    let mut stream = Stream::new(Key::new(2));
    let y = (0..rows).map(|_| if classes == 0 { stream.normal() } else { stream.below(classes as u64) as f64 });
    let recipe = Recipe {
        network: NetworkSpec::parse(network, Activation::Relu).expect("a network"),
        method: Choice::named("ensemble"),
        ..Recipe::default()
    };
    let (outcome, width) = if classes == 0 { (Outcome::Real, 1) } else { (Outcome::Class, classes) };
    let resolved = recipe.resolve_for(shape, outcome, width).expect("a recipe");
    resolved.problem(Dataset::new(Values::F32(x.into()), shape, y.collect(), 1)).expect("a problem")
}

fn method(name: &str, epochs: i64, members: bool) -> Box<dyn Method> {
    let mut settings = vec![("epochs".to_owned(), Value::Int(epochs))];
    if members {
        settings.push(("members".to_owned(), Value::Int(MEMBERS as i64)));
    }
    find(name).and_then(|m| m.configure(&settings)).expect("a method")
}

pub fn run(threads: usize) {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    for (name, network, inputs, classes, rows, epochs) in
        [("8-50-1", "50", 8, 0, 1000, 50), ("784-400-400-10", "400,400", 784, 10, 2560, 1)]
    {
        let problem = problem(network, inputs, classes, rows);
        let (map, ensemble) = (method("map", epochs, false), method("ensemble", epochs, true));
        let in_sequence = || {
            for k in 0..MEMBERS {
                black_box(map.fit(&problem, Key::new(k), &mut Silent).expect("a fit"));
            }
        };
        let who = format!("posterior-{threads}t");
        measure("posterior-1t", &format!("members_{name}_in_sequence"), || one.install(in_sequence));
        measure(&who, &format!("members_{name}_in_sequence"), in_sequence);
        measure(&who, &format!("members_{name}_side_by_side"), || {
            black_box(ensemble.fit(&problem, Key::new(0), &mut Silent).expect("a fit"));
        });
    }
}
