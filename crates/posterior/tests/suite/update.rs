//! Learning on: for `linear` one file after the other is all at once, in any order; evidence adds up; surprise is uniform where the model holds.

use posterior::data::{Column, EncodeOptions, Table};
use posterior::decide::{surprise, update};
use posterior::inference::Silent;
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::NetworkSpec;
use posterior::posterior::ExactGaussian;
use posterior::rng::{Key, Stream};
use posterior::settings::Value;

fn rows(n: usize, seed: u64, shift: f64) -> Table {
    let mut stream = Stream::new(Key::new(seed));
    let a: Vec<f64> = (0..n).map(|_| stream.normal()).collect();
    let b: Vec<f64> = (0..n).map(|_| stream.normal()).collect();
    let y = a.iter().zip(&b).map(|(a, b)| shift + 1.5 * a - b + 0.5 * stream.normal()).collect();
    table(a, b, y)
}

fn table(a: Vec<f64>, b: Vec<f64>, y: Vec<f64>) -> Table {
    let column = |name: &str, v| (name.to_owned(), Column::Number(v));
    Table::from_columns(vec![column("a", a), column("b", b), column("y", y)]).unwrap()
}

fn joined(tables: &[&Table]) -> Table {
    let all = |name: &str| {
        let of = |t: &&Table| match t.get(name) {
            Some(Column::Number(v)) => v.clone(),
            _ => panic!("numbers"),
        };
        tables.iter().flat_map(of).collect()
    };
    table(all("a"), all("b"), all("y"))
}

fn recipe() -> Recipe {
    let noise =
        Choice::named("gaussian").with("noise", Value::Text("fixed".into())).with("noise_std", Value::Float(0.3));
    let method = Choice::named("linear").with("learn_prior", Value::Bool(false)).with("degree", Value::Int(2));
    Recipe { network: NetworkSpec::default(), likelihood: noise, method, ..Recipe::default() }
}

fn exact(model: &Model) -> ExactGaussian {
    model.fitted.as_network().unwrap().posterior.as_blocks().unwrap().exact().unwrap().clone()
}

fn covariance(e: &ExactGaussian) -> Vec<f64> {
    let n = e.mean.len();
    let one = |i: usize, j: usize| (0..n).map(|k| e.root[i * n + k] * e.root[j * n + k]).sum::<f64>();
    (0..n * n).map(|i| one(i / n, i % n)).collect()
}

#[test]
fn one_file_after_the_other_is_all_at_once() {
    let (first, a, b) = (rows(20, 1, 0.0), rows(15, 2, 0.3), rows(9, 3, 0.0));
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let start = Model::fit(&recipe(), &first, &options, 0, &mut Silent).unwrap();
    let after = |tables: [&Table; 2]| {
        let one = update(&start, tables[0], 0, &mut Silent).unwrap();
        let two = update(&one.model, tables[1], 0, &mut Silent).unwrap();
        (two.model, one.log_predictive.unwrap() + two.log_predictive.unwrap())
    };
    // The scales of the first file, as an update has them.
    let whole = Model::fit_from(&start, &recipe(), &joined(&[&first, &a, &b]), 0, &mut Silent).unwrap();
    let expected = (exact(&whole), covariance(&exact(&whole)), whole.fitted.log_evidence().unwrap());
    for tables in [[&a, &b], [&b, &a]] {
        let (model, predictive) = after(tables);
        let found = exact(&model);
        // Rounding of 44 rows in a matrix whose condition is below 1e3.
        assert!(found.mean.iter().zip(&expected.0.mean).all(|(f, e)| (f - e).abs() < 1e-10));
        assert!(covariance(&found).iter().zip(&expected.1).all(|(f, e)| (f - e).abs() < 1e-10));
        assert!((start.fitted.log_evidence().unwrap() + predictive - expected.2).abs() < 1e-9 * expected.2.abs());
        assert!((model.fitted.log_evidence().unwrap() - expected.2).abs() < 1e-9 * expected.2.abs());
        assert_eq!(model.rows, 44);
    }
}

/// p-values of rows from the model itself are uniform: their mean over 40 files lies within four standard errors of a half. Shifted rows are found.
#[test]
fn surprise_is_uniform_where_the_model_holds() {
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let mut recipe = recipe();
    recipe.likelihood = Choice::named("gaussian");
    let model = Model::fit(&recipe, &rows(400, 1, 0.0), &options, 0, &mut Silent).unwrap();
    let p = |table: &Table| {
        let data = model.encoder.encode(table, true).unwrap().data;
        surprise(&model, &data, 100, Key::new(5)).unwrap().p_value
    };
    let all: Vec<f64> = (0..40).map(|seed| p(&rows(30, 100 + seed, 0.0))).collect();
    let mean = all.iter().sum::<f64>() / 40.0;
    // Four standard errors of a uniform's mean, and a tenth for the noise that 400 rows tell to 4 % only.
    assert!((mean - 0.5).abs() < 4.0 * (1.0 / 12.0f64 / 40.0).sqrt() + 0.1, "{mean}");
    assert!(p(&rows(30, 200, 1.5)) < 0.01);
}

/// A mean-field network goes on from its posterior, and a point cannot.
#[test]
fn networks_go_on_from_independent_gaussians() {
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let fit = |method: &str| {
        let spec = NetworkSpec { layers: Vec::new() };
        let mut recipe = Recipe { network: spec, ..Recipe::default() };
        recipe.method = Choice::named(method).with("epochs", Value::Int(300));
        recipe.likelihood = Choice::named("gaussian");
        Model::fit(&recipe, &rows(40, 1, 0.0), &options, 0, &mut Silent).unwrap()
    };
    let before = fit("mean-field");
    let after = update(&before, &rows(200, 2, 0.0), 0, &mut Silent).unwrap();
    assert_eq!((after.rows, after.model.rows), (200, 240));
    let test = rows(100, 9, 0.0);
    let std = |m: &Model| {
        let x = m.encoder.encode(&test, false).unwrap().data.x;
        let real = m.predict(&x, &m.how(200)).unwrap().real();
        real.epistemic.iter().sum::<f64>()
    };
    // Six times the rows: the function is known better, if not by all of √6 in an approximation.
    assert!(std(&after.model) < 0.6 * std(&before), "{} {}", std(&after.model), std(&before));
    let said = update(&fit("map"), &rows(10, 2, 0.0), 0, &mut Silent).unwrap_err().to_string();
    assert!(said.contains("cannot be the next prior"), "{said}");
}
