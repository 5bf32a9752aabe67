//! Several real targets at once: each is what it would be on its own, and what is told of all is their sum, mean or largest.

use posterior::apply::calibrate::Calibration;
use posterior::apply::detect::uncertainty_scores;
use posterior::artifact;
use posterior::data::{Column, EncodeOptions, Encoder, Table, Task};
use posterior::inference::Silent;
use posterior::likelihood::{Likelihood, Outcome, find};
use posterior::model::{Choice, Model, Recipe};
use posterior::predict::{Predictive, TargetScale};
use posterior::rng::{Key, Stream};
use posterior::score::{METRICS, Scored, rate};
use posterior::settings::{Settings, Value};
use std::path::Path;
use std::sync::Arc;

const ROWS: usize = 40;

/// Two inputs, three targets in units far apart, a text column.
fn table() -> Table {
    let mut stream = Stream::new(Key::new(3));
    let mut column = |f: &dyn Fn(usize, f64) -> f64| (0..ROWS).map(|i| f(i, stream.normal())).collect::<Vec<f64>>();
    let u = column(&|_, e| 3.0 + 2.0 * e);
    let v = column(&|_, e| e);
    let a = column(&|i, e| 100.0 + 4.0 * u[i] - 7.0 * v[i] + 2.0 * e);
    let b = column(&|i, e| 1e-3 * (u[i] * v[i] + 0.5 * e));
    let c = column(&|i, e| -1e6 * v[i] + 3e5 * e);
    let columns = [("u", u), ("v", v), ("a", a), ("b", b), ("c", c)];
    let mut all: Vec<(String, Column)> = columns.map(|(n, v)| (n.to_owned(), Column::Number(v))).into();
    let words = (0..ROWS).map(|i| Some(["x", "y"][i % 2].to_owned())).collect();
    all.push(("word".into(), Column::Text(words)));
    Table::from_columns(all).unwrap()
}

/// What is predicted, and with the rest of the table left out.
fn options(targets: &[&str]) -> EncodeOptions {
    let ignore = ["a", "b", "c", "word"].iter().filter(|n| !targets.contains(n)).map(|n| (*n).to_owned()).collect();
    let also = targets[1..].iter().map(|n| (*n).to_owned()).collect();
    EncodeOptions { target: targets[0].into(), also, ignore, ..EncodeOptions::default() }
}

fn fit(method: Choice, likelihood: Choice, targets: &[&str]) -> Model {
    let recipe = Recipe { method, likelihood, ..Recipe::default() };
    Model::fit(&recipe, &table(), &options(targets), 1, &mut Silent).unwrap()
}

fn exact(targets: &[&str]) -> Model {
    let noise = Choice::named("gaussian").with("noise", Value::Text("fixed".into()));
    fit(Choice::named("linear").with("learn_prior", Value::Bool(false)), noise, targets)
}

fn outcomes(model: &Model) -> (Predictive, Vec<f64>) {
    let rows = model.encoder.encode(&table(), true).unwrap().data;
    let y = model.encoder.decode_target(&rows.y);
    (model.predict(&rows.x, &model.how(50)).unwrap(), y)
}

/// Exact inference with fixed noise: the posterior of several targets is a product, so that predictions are those of fits of each, the joint log-likelihood
/// and the evidence are sums, and another order of the targets is another order of the predictions. To rounding of double precision.
#[test]
fn linear_of_several_targets_is_as_many_fits() {
    let all = ["a", "b", "c"];
    let (joint, y) = outcomes(&exact(&all));
    let (real, quantiles) = (joint.real(), joint.quantiles(&[0.1, 0.5]));
    let (crps, pit) = (joint.crps(&y), joint.pit(&y));
    let (logs, by_target) = (joint.log_likelihood(&y), joint.target_log_likelihood(&y).unwrap());
    let mut sum = vec![0.0; ROWS];
    let mut evidence = 0.0;
    for (t, name) in all.iter().enumerate() {
        let model = exact(&[name]);
        let (own, own_y) = outcomes(&model);
        let (own_real, own_quantiles) = (own.real(), own.quantiles(&[0.1, 0.5]));
        let (own_crps, own_pit, own_logs) = (own.crps(&own_y), own.pit(&own_y), own.log_likelihood(&own_y));
        evidence += model.fitted.log_evidence().unwrap();
        for n in 0..ROWS {
            let (i, std) = (3 * n + t, own_real.std(n).0);
            let near = |a: f64, b: f64, unit: f64| assert!((a - b).abs() < 1e-10 * unit, "{name} {n}: {a} {b}");
            near(y[i], own_y[n], own_y[n].abs());
            near(real.mean[i], own_real.mean[n], std + own_real.mean[n].abs());
            near(real.std(i).1, own_real.std(n).1, std);
            near(real.std(i).2, own_real.std(n).2, std);
            (0..2).for_each(|l| near(quantiles[2 * i + l], own_quantiles[2 * n + l], std + own_real.mean[n].abs()));
            near(crps[i], own_crps[n], std);
            near(pit[i].0, own_pit[n].0, 1.0);
            near(by_target[i], own_logs[n], 10.0);
            sum[n] += own_logs[n];
        }
    }
    assert!(logs.iter().zip(&sum).all(|(a, b)| (a - b).abs() < 1e-9), "{logs:?} {sum:?}");
    assert!((exact(&all).fitted.log_evidence().unwrap() - evidence).abs() < 1e-8);
    let (turned, _) = outcomes(&exact(&["c", "a", "b"]));
    let turned = turned.real();
    for n in 0..ROWS {
        for (t, at) in [(0, 1), (1, 2), (2, 0)] {
            let (a, b) = (real.mean[3 * n + t], turned.mean[3 * n + at]);
            assert!((a - b).abs() <= 1e-10 * a.abs().max(real.std(3 * n + t).0));
        }
    }
}

fn likelihood(name: &str, width: usize) -> Arc<dyn Likelihood> {
    let entry = find(name).unwrap();
    (entry.build)(&Settings::resolve(entry.settings, &[], name).unwrap(), width).unwrap()
}

/// Outputs of S draws of two targets, and the same target by target.
fn drawn(name: &str) -> (Predictive, [Predictive; 2], Vec<f64>) {
    const S: usize = 7;
    let (both, one) = (likelihood(name, 2), likelihood(name, 1));
    let (k, noises) = (both.outputs(), both.blocks().iter().map(|b| b.shape.iter().product::<usize>()).sum::<usize>());
    let mut stream = Stream::new(Key::new(5));
    let f: Vec<f32> = (0..S * ROWS * k).map(|_| stream.normal() as f32).collect();
    let noise: Vec<f32> = (0..S * noises).map(|_| -1.0 + 0.3 * stream.normal() as f32).collect();
    let scales = [(10.0, 3.0), (-2.0, 0.01)];
    let y = (0..2 * ROWS).map(|i| scales[i % 2].0 + scales[i % 2].1 * stream.normal()).collect();
    let own = [0, 1].map(|t| {
        let f = f.chunks(k).flat_map(|row| row.iter().skip(t).step_by(2).copied()).collect();
        let noise = noise.iter().skip(t).step_by(2).copied().collect();
        Predictive::new(one.clone(), f, noise, S, ROWS, TargetScale { targets: vec![scales[t]] })
    });
    let scale = TargetScale { targets: scales.into() };
    (Predictive::new(both, f, noise, S, ROWS, scale), own, y)
}

/// Draws of every real-valued likelihood: moments, quantiles, CRPS, places and densities of a target are those of its own outputs, bit for bit.
#[test]
fn a_target_is_read_from_its_own_outputs() {
    for name in ["gaussian", "student-t", "heteroscedastic"] {
        let (both, own, y) = drawn(name);
        let (real, levels) = (both.real(), [0.05, 0.7]);
        let (quantiles, crps, pit) = (both.quantiles(&levels), both.crps(&y), both.pit(&y));
        let logs = both.target_log_likelihood(&y).unwrap();
        for (t, own) in own.iter().enumerate() {
            let own_y: Vec<f64> = y.iter().skip(t).step_by(2).copied().collect();
            let pick = |v: &[f64]| v.iter().skip(t).step_by(2).copied().collect::<Vec<f64>>();
            assert_eq!(pick(&real.mean), own.real().mean, "{name}");
            assert_eq!(pick(&real.epistemic), own.real().epistemic, "{name}");
            assert_eq!(pick(&real.aleatoric), own.real().aleatoric, "{name}");
            let of_target: Vec<f64> = quantiles.chunks(2).skip(t).step_by(2).flatten().copied().collect();
            assert_eq!(of_target, own.quantiles(&levels), "{name}");
            assert_eq!(pick(&crps), own.crps(&own_y), "{name}");
            assert_eq!(pit.iter().skip(t).step_by(2).copied().collect::<Vec<_>>(), own.pit(&own_y), "{name}");
            assert_eq!(pick(&logs), own.log_likelihood(&own_y), "{name}");
        }
        // Scores: every target alone is itself; of all, errors are in standard deviations and the rows are as many as rows.
        let scored = Scored::new(&both, &y, Outcome::Real);
        assert_eq!((scored.rows(), scored.targets()), (ROWS, 2));
        let mut squares = 0.0;
        for (t, own) in own.iter().enumerate() {
            let own_y: Vec<f64> = y.iter().skip(t).step_by(2).copied().collect();
            let alone = Scored::new(own, &own_y, Outcome::Real);
            let of = scored.of_target(t);
            for m in METRICS {
                assert_eq!(m.score(&of), m.score(&alone), "{name} {}", m.name);
            }
            let errors = |s: &Scored| rate(s, Key::new(1)).iter().map(|r| r.standard_error).collect::<Vec<_>>();
            assert_eq!(errors(&of), errors(&alone), "{name}");
            let rmse = posterior::score::find("rmse").unwrap().score(&alone).unwrap() / [3.0, 0.01][t];
            squares += 0.5 * rmse * rmse;
        }
        let rmse = posterior::score::find("rmse").unwrap().score(&scored).unwrap();
        assert!((rmse - squares.sqrt()).abs() < 1e-12 * rmse, "{name}: {rmse}");
        let joint = both.log_likelihood(&y).iter().sum::<f64>() / ROWS as f64;
        let told = posterior::score::find("log_likelihood").unwrap().score(&scored).unwrap();
        assert!((told - joint).abs() < 1e-12 * joint.abs(), "{name}: {told} {joint}");
    }
}

/// The unit of a target does not matter to doubt; conformal intervals hold all targets of a row at once.
#[test]
fn doubt_and_conformal_scores_are_those_of_rows() {
    let (both, own, y) = drawn("gaussian");
    let of = uncertainty_scores(&both, Outcome::Real);
    let each = own.map(|p| (p.real(), [3.0, 0.01]));
    for n in 0..ROWS {
        let square = |t: usize| (each[t].0.std(n).0 / each[t].1[t]).powi(2);
        let total = (0.5 * (square(0) + square(1))).sqrt();
        assert!((of[0].values[n] - total).abs() < 1e-12 * total);
    }
    assert!(of.iter().all(|d| d.values.len() == ROWS));
    let calibration = Calibration::fit(&both, &y, Outcome::Real).unwrap();
    assert_eq!(calibration.rows, ROWS);
    let (threshold, real) = (calibration.threshold(0.8).unwrap(), both.real());
    let holds = |n: usize| {
        (0..2).all(|t| {
            let (low, high) = Calibration::interval(threshold, &real, 2 * n + t, Outcome::Real);
            low <= y[2 * n + t] && y[2 * n + t] <= high
        })
    };
    // The ⌈41·0.8⌉-th smallest of 40 scores that differ: 33 rows are inside.
    assert_eq!((0..ROWS).filter(|n| holds(*n)).count(), 33);
}

/// Fits by every kind of likelihood and several methods, a model file, and the same numbers from it.
#[test]
fn several_targets_are_fitted_kept_and_loaded() {
    let methods = ["mean-field", "map", "laplace", "last-layer", "ensemble"].map(|name| {
        let named = Choice::named(name);
        if name == "last-layer" { named } else { named.with("epochs", Value::Int(3)) }
    });
    for (i, method) in methods.into_iter().enumerate() {
        let likelihood = ["gaussian", "student-t", "gaussian", "gaussian", "heteroscedastic"][i];
        let model = fit(method, Choice::named(likelihood), &["a", "c"]);
        let file = artifact::from_bytes(&artifact::to_bytes(&model).unwrap(), Path::new("m")).unwrap();
        assert_eq!(file.encoder, model.encoder);
        let ((p, y), (q, _)) = (outcomes(&model), outcomes(&file));
        assert_eq!(p.log_likelihood(&y), q.log_likelihood(&y), "{likelihood}");
        assert_eq!(p.real().mean.len(), 2 * ROWS);
        let scored = Scored::new(&p, &y, Outcome::Real);
        assert!(rate(&scored, Key::new(0)).iter().all(|r| r.value.as_ref().is_ok_and(|v| v.is_finite())));
    }
}

#[test]
fn targets_that_do_not_go_together_get_one_sentence() {
    let refused = |options: EncodeOptions| Encoder::fit(&table(), &options).unwrap_err().to_string();
    assert_eq!(refused(options(&["a", "b", "a"])), "the target 'a' is named twice; name every target once");
    assert_eq!(
        refused(options(&["a", "word"])),
        "column 'word': several targets must all be real numbers, and this one holds classes; predict it on its own"
    );
    assert!(refused(options(&["a", "bb"])).starts_with("there is no column 'bb'"));
    let counts = EncodeOptions { task: Task::Count, ..options(&["a", "b"]) };
    assert_eq!(
        refused(counts),
        "several targets must all be real numbers, and counts are asked for; predict every target on its own"
    );
    let ignored = EncodeOptions { ignore: vec!["b".into()], ..options(&["a", "b"]) };
    assert!(refused(ignored).starts_with("the target 'b' is also to be ignored"));
}
