//! Gaussian processes through the front door: fitted by name, saved, loaded, scored, diagnosed, attacked; golden numbers of an independent implementation.

use super::gp_golden::GOLDEN;
use posterior::apply::attack::{Attack, PerturbationBudget, perturb};
use posterior::artifact;
use posterior::data::{Column, EncodeOptions, Encoder, ReadOptions, Table};
use posterior::diagnose::Diagnosis;
use posterior::gp::{Kernel, log_marginal};
use posterior::inference::Silent;
use posterior::memory;
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::{Activation, NetworkSpec};
use posterior::predict::Outputs;
use posterior::rng::{Key, Stream};
use posterior::settings::Value;
use posterior::{Error, Result};
use std::path::Path;

fn table(rows: usize) -> Table {
    let mut s = Stream::new(Key::new(7));
    let x: Vec<f64> = (0..rows).map(|_| 10.0 + 3.0 * s.normal()).collect();
    let z: Vec<f64> = (0..rows).map(|_| s.normal()).collect();
    let kind: Vec<Option<String>> = (0..rows).map(|_| Some(["red", "blue"][s.below(2) as usize].to_owned())).collect();
    let y = (0..rows)
        .map(|i| {
            50.0 + 4.0 * (x[i] / 2.0).sin() + z[i] + f64::from(kind[i].as_deref() == Some("red")) + 0.3 * s.normal()
        })
        .collect();
    Table::from_columns(vec![
        ("x".into(), Column::Number(x)),
        ("z".into(), Column::Number(z)),
        ("kind".into(), Column::Text(kind)),
        ("y".into(), Column::Number(y)),
    ])
    .unwrap()
}

fn fit_on(table: &Table, method: Choice) -> Result<Model> {
    let recipe = Recipe { method, ..Recipe::default() };
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    Model::fit(&recipe, table, &options, 1, &mut Silent)
}

fn gp(kernel: &str) -> Choice {
    Choice::named("gp").with("kernel", Value::Text(kernel.to_owned()))
}

#[test]
fn a_gaussian_process_goes_the_whole_way() {
    let data = table(80);
    let model = fit_on(&data, gp("matern52(ard, columns=[x, z]) + hamming")).unwrap();
    let rows = model.encoder.encode(&data, true).unwrap();
    let p = model.predict(&rows.data.x, &model.how(50)).unwrap();
    assert!(matches!(p.outputs(), Outputs::Gaussian(_)), "a closed form stays one");
    let (total, epistemic, aleatoric) = p.real().std(3);
    assert!((total.powi(2) - epistemic.powi(2) - aleatoric.powi(2)).abs() < 1e-9 && epistemic > 0.0);
    // The noise it was made with.
    assert!((aleatoric - 0.3).abs() < 0.1, "{aleatoric}");
    let bytes = artifact::to_bytes(&model).unwrap();
    let back = artifact::from_bytes(&bytes, Path::new("m")).unwrap();
    assert_eq!((back.fitted.kind(), back.fitted.log_evidence()), ("gp", model.fitted.log_evidence()));
    assert_eq!(back.predict(&rows.data.x, &back.how(50)).unwrap().outputs(), p.outputs());
    // Without the training rows: they are in the file.
    let diagnosis = Diagnosis::new(&back, None, 100, Key::new(2)).unwrap();
    let left_out = diagnosis.leave_one_out.unwrap();
    assert!(left_out.rmse > 0.3 && left_out.rmse < 0.8 && left_out.rows == 80, "{left_out:?}");
    assert!(diagnosis.verdict.is_yes(), "{}", diagnosis.verdict.sentence());
    let reach = PerturbationBudget::new(&back.encoder, &rows.data);
    let moved = perturb(&*back.fitted, &rows.data, &reach, Attack::Fgsm, 0.5, 10, Key::new(1)).unwrap();
    assert_ne!(moved.to::<f64>(), rows.data.x.to::<f64>());
    let again = fit_on(&data, gp("matern52(ard, columns=[x, z]) + hamming")).unwrap();
    assert_eq!(again.predict(&rows.data.x, &again.how(50)).unwrap().outputs(), p.outputs());
    assert_eq!(again.fitted.log_evidence(), model.fitted.log_evidence(), "the same key gives the same bits");
}

/// `constant + linear` at the scales of `linear`'s prior is `linear`.
#[test]
fn constant_and_linear_are_bayesian_linear_regression() {
    let data = table(60);
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let fixed = |method: Choice| Recipe {
        method,
        likelihood: Choice::named("gaussian")
            .with("noise", Value::Text("fixed".into()))
            .with("noise_std", Value::Float(0.4)),
        ..Recipe::default()
    };
    let linear = Choice::named("linear").with("learn_prior", Value::Bool(false));
    let linear = Model::fit(&fixed(linear), &data, &options, 0, &mut Silent).unwrap();
    let prior = &linear.recipe.prior.settings;
    let std = |name: &str| match prior.get(name) {
        Some(Value::Float(v)) => *v,
        other => panic!("{name}: {other:?}"),
    };
    let inputs = linear.encoder.input_shape().len() as f64;
    let scaled = matches!(prior.get("scaling"), Some(Value::Text(s)) if s != "none");
    let weight = std("weight_std").powi(2) / if scaled { inputs } else { 1.0 };
    let text = format!("constant(variance={}) + linear(variance={weight})", std("bias_std").powi(2));
    let process = Model::fit(&fixed(gp(&text)), &data, &options, 0, &mut Silent).unwrap();
    let rows = linear.encoder.encode(&data, true).unwrap().data;
    let (a, b) = (linear.predict(&rows.x, &linear.how(1)).unwrap(), process.predict(&rows.x, &process.how(1)).unwrap());
    let (Outputs::Gaussian(a), Outputs::Gaussian(b)) = (a.outputs(), b.outputs()) else { panic!("closed forms") };
    // Two routes in double precision; the model file's noise is single in one of them, and exact here.
    for (a, b) in a.mean.iter().zip(&b.mean).chain(a.covariance.iter().zip(&b.covariance)) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }
    let (a, b) = (linear.fitted.log_evidence().unwrap(), process.fitted.log_evidence().unwrap());
    assert!((a - b).abs() < 1e-8 * a.abs(), "{a} {b}");
}

fn message(result: Result<Model>) -> String {
    result.err().map(|e: Error| e.to_string()).unwrap_or_default()
}

#[test]
fn bad_input_gets_a_sentence() {
    let data = table(20);
    assert!(message(fit_on(&data, gp("mattern52"))).contains("at character 1: there is no kernel 'mattern52'"));
    assert!(message(fit_on(&data, gp("periodic(columns=x, period=0)"))).contains("the period cannot be 0"));
    assert!(message(fit_on(&data, gp("rbf(columns=nosuch)"))).contains("there is no input column 'nosuch'"));
    let student = Recipe { method: gp("rbf"), likelihood: Choice::named("heteroscedastic"), ..Recipe::default() };
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    assert!(message(Model::fit(&student, &data, &options, 0, &mut Silent)).contains("no way to the mode"));
    let network = NetworkSpec::parse("20", Activation::Tanh).unwrap();
    let with_network = Recipe { method: gp("rbf"), network, ..Recipe::default() };
    assert!(message(Model::fit(&with_network, &data, &options, 0, &mut Silent)).contains("'gp' has no network"));
    let many = memory::with_limit(1 << 20, || message(fit_on(&table(600), gp("rbf"))));
    assert!(many.contains("an exact Gaussian process of 600 rows takes"), "{many}");
}

/// Duplicate rows, a constant column, five rows: a finite answer, and no variance below 0. Two rows are refused where a table is read.
#[test]
fn degenerate_tables_are_fitted() {
    let data = table(20);
    let doubled = data.select(&(0..40).map(|i| i / 2).collect::<Vec<_>>());
    let five = data.select(&[0, 1, 2, 3, 4]);
    let line = |of: fn(f64) -> f64| Column::Number((0..12).map(|i| of(f64::from(i))).collect());
    let columns = vec![("x".into(), line(|i| i)), ("c".into(), line(|_| 3.0)), ("y".into(), line(f64::sin))];
    let constant = Table::from_columns(columns).unwrap();
    for (name, table) in [("doubled", &doubled), ("five", &five), ("constant", &constant)] {
        let model = fit_on(table, Choice::named("gp")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let rows = model.encoder.encode(table, true).unwrap().data;
        let p = model.predict(&rows.x, &model.how(1)).unwrap();
        let Outputs::Gaussian(g) = p.outputs() else { panic!("closed form") };
        assert!(g.mean.iter().all(|v| v.is_finite()) && g.covariance.iter().all(|v| *v >= 0.0), "{name}");
    }
    assert!(message(fit_on(&data.select(&[0, 1]), Choice::named("gp"))).contains("there are 2 rows"));
}

/// Every way to condition on rows predicts much the same on easy data, and comes back from its file with the same bits.
#[test]
fn sparse_nearest_and_sampled_models_go_through_a_file() {
    let data = table(120);
    let text = |v: &str| Value::Text(v.to_owned());
    let exact = fit_on(&data, Choice::named("gp").with("parameters", text("optimised"))).unwrap();
    let rows = exact.encoder.encode(&data, true).unwrap().data;
    let mean = |model: &Model| model.predict(&rows.x, &model.how(1)).unwrap().real().mean;
    let (expected, unit) = (mean(&exact), exact.encoder.target_scale().1);
    for (name, choice) in [
        ("sparse", Choice::named("gp").with("inference", text("sparse")).with("inducing", Value::Int(60))),
        ("nearest", Choice::named("gp").with("inference", text("nearest")).with("neighbours", Value::Int(40))),
        ("sampled", Choice::named("gp").with("parameters", text("sampled")).with("draws", Value::Int(5))),
    ] {
        let model = fit_on(&data, choice).unwrap_or_else(|e| panic!("{name}: {e}"));
        let got = mean(&model);
        let error = got.iter().zip(&expected).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / got.len() as f64;
        // Far below the noise, which is a tenth of the targets' standard deviation.
        assert!(error.sqrt() < 0.06 * unit, "{name}: {}", error.sqrt() / unit);
        let back = artifact::from_bytes(&artifact::to_bytes(&model).unwrap(), Path::new("m")).unwrap();
        let outputs = |m: &Model| m.predict(&rows.x, &m.how(1)).unwrap().outputs().clone();
        assert_eq!(outputs(&back), outputs(&model), "{name}");
        assert_eq!(back.fitted.describe(), model.fitted.describe());
    }
    let both = Choice::named("gp").with("inference", text("sparse")).with("parameters", text("sampled"));
    assert!(message(fit_on(&data, both)).contains("integrated out with exact inference alone"));
}

/// A file with any of its tensors cut, or with numbers that cannot be, is an error.
#[test]
fn hostile_files_are_errors() {
    let model = fit_on(&table(30), Choice::named("gp").with("steps", Value::Int(0))).unwrap();
    let bytes = artifact::to_bytes(&model).unwrap();
    for at in (0..bytes.len()).step_by(bytes.len() / 300) {
        for flip in [0xff, 0x80, 0x01] {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            if let Ok(model) = artifact::from_bytes(&changed, Path::new("m")) {
                let x = posterior::data::Values::from(vec![0.5f64; model.fitted.input().len()]);
                let Ok(p) = model.predict(&x, &model.how(1)) else { continue };
                let Outputs::Gaussian(g) = p.outputs() else { panic!("closed form") };
                assert!(!g.mean[0].is_nan() && g.covariance[0] >= 0.0);
            }
        }
    }
}

/// Boston, split 0, lengthscales 1, 1.25, …: NumPy and scikit-learn, which agree to 1e-12.
#[test]
fn golden_numbers_of_an_independent_implementation() {
    let Some(folder) = std::env::var_os("POSTERIOR_DATA") else {
        eprintln!("skipped: POSTERIOR_DATA is not set");
        return;
    };
    let folder = Path::new(&folder).join("uci/boston");
    let all = Table::read(&folder.join("data.csv"), &ReadOptions::default()).unwrap();
    let lines = std::fs::read_to_string(folder.join("test_rows.csv")).unwrap();
    let test: Vec<usize> = lines.lines().next().unwrap().split(',').map(|r| r.trim().parse().unwrap()).collect();
    let (sorted, train): (Vec<usize>, Vec<usize>) = (0..all.rows()).partition(|r| test.contains(r));
    let train = all.select(&train);
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let encoder = Encoder::fit(&train, &options).unwrap().encoder;
    let rows = encoder.encode(&train, true).unwrap().data;
    let x = rows.x.to::<f64>();
    for golden in &GOLDEN {
        let scales: Vec<String> = (0..13).map(|j| (1.0 + 0.25 * f64::from(j)).to_string()).collect();
        let text = format!("{}(ard, variance=1.5, lengthscale=[{}])", golden.kernel, scales.join(", "));
        let kernel = Kernel::parse(&text, &encoder.inputs).unwrap();
        let mut log = kernel.start();
        log.push(0.1f64.ln());
        let mut gradient = vec![0.0; log.len()];
        let value = log_marginal(&kernel, &x, &rows.y, &log, Some(&mut gradient)).unwrap();
        assert!((value / golden.lml - 1.0).abs() < 1e-8, "{}: {value}", golden.kernel);
        let scale = golden.gradient.iter().fold(1.0f64, |m, g| m.max(g.abs()));
        for (got, expected) in gradient.iter().zip(&golden.gradient) {
            assert!((got - expected).abs() < 1e-8 * scale, "{}: {got} {expected}", golden.kernel);
        }
        let recipe = Recipe {
            method: gp(&text),
            likelihood: Choice::named("gaussian")
                .with("noise", Value::Text("fixed".into()))
                .with("noise_std", Value::Float(0.1f64.sqrt())),
            ..Recipe::default()
        };
        let model = Model::fit(&recipe, &train, &options, 0, &mut Silent).unwrap();
        let held = model.encoder.encode(&all.select(&sorted), true).unwrap().data;
        let p = model.predict(&held.x, &model.how(1)).unwrap();
        let Outputs::Gaussian(g) = p.outputs() else { panic!("closed form") };
        for i in 0..3 {
            assert!((g.mean[i] - golden.mean[i]).abs() < 1e-8 && (g.covariance[i] - golden.variance[i]).abs() < 1e-8);
        }
        let out: f64 = model.fitted.leave_one_out().unwrap().log_density().iter().sum();
        assert!((out / golden.loo - 1.0).abs() < 1e-8, "{}: {out}", golden.kernel);
    }
}
