//! Calibration after the fit: guaranteed coverage over many repeats, a known temperature, and the model file.

use posterior::apply::calibrate::Calibration;
use posterior::artifact;
use posterior::data::{Column, EncodeOptions, Table};
use posterior::inference::Silent;
use posterior::likelihood::{Likelihood, Outcome, find};
use posterior::model::{Choice, Model, Recipe};
use posterior::predict::{Predictive, TargetScale};
use posterior::rng::{Key, Stream};
use posterior::settings::{Settings, Value};
use std::path::Path;
use std::sync::Arc;

fn likelihood(name: &str, width: usize) -> Arc<dyn Likelihood> {
    let entry = find(name).unwrap();
    (entry.build)(&Settings::resolve(entry.settings, &[], name).unwrap(), width).unwrap()
}

const HELD_BACK: usize = 60;
const NEW: usize = 100;
const REPEATS: usize = 200;

/// The mean coverage over the repeats is ⌈(n+1)·level⌉/(n+1); a repeat scatters as a beta-binomial, p(1 − p)(1/(n + 2) + 1/m) at most.
fn check_coverage(what: &str, level: f64, covered: &[f64]) {
    let n = HELD_BACK as f64;
    let expected = ((n + 1.0) * level).ceil() / (n + 1.0);
    let mean = covered.iter().sum::<f64>() / REPEATS as f64;
    let p = expected * (1.0 - expected);
    let error = (p * (1.0 / (n + 2.0) + 1.0 / NEW as f64) / REPEATS as f64).sqrt();
    assert!((mean - expected).abs() < 4.0 * error, "{what} at {level}: {mean}, expected {expected} ± {error}");
}

/// A model whose mean and noise are wrong, on rows whose scatter depends on the row: the intervals cover all the same.
#[test]
fn intervals_cover_whatever_the_model() {
    let levels = [0.5, 0.8, 0.9];
    let mut covered = vec![Vec::new(); levels.len()];
    for repeat in 0..REPEATS {
        let mut stream = Stream::new(Key::new(repeat as u64));
        let rows = |n: usize, stream: &mut Stream| {
            let x: Vec<f64> = (0..n).map(|_| stream.normal()).collect();
            let y: Vec<f64> = x.iter().map(|x| 5.0 + x * x + (0.2 + x.abs()) * stream.normal()).collect();
            let f = (0..2).flat_map(|s| x.iter().map(move |x| (0.3 * x + 0.2 * s as f64) as f32)).collect();
            let scale = TargetScale { targets: vec![(5.0, 1.0)] };
            (Predictive::new(likelihood("gaussian", 1), f, vec![-2.0, -1.0], 2, n, scale), y)
        };
        let (held_back, y) = rows(HELD_BACK, &mut stream);
        let calibration = Calibration::fit(&held_back, &y, Outcome::Real).unwrap();
        let (new, y) = rows(NEW, &mut stream);
        let real = new.real();
        for (level, covered) in levels.iter().zip(&mut covered) {
            let threshold = calibration.threshold(*level).unwrap();
            let inside = (0..NEW).filter(|n| {
                let (low, high) = Calibration::interval(threshold, &real, *n, Outcome::Real);
                low <= y[*n] && y[*n] <= high
            });
            covered.push(inside.count() as f64 / NEW as f64);
        }
    }
    levels.iter().zip(&covered).for_each(|(level, covered)| check_coverage("intervals", *level, covered));
}

/// Probabilities that are far too sure: the sets cover all the same. The most probable class is in every set, so they may cover more.
#[test]
fn sets_cover_whatever_the_model() {
    let level = 0.8;
    let (mut by_threshold, mut by_set) = (Vec::new(), Vec::new());
    for repeat in 0..REPEATS {
        let mut stream = Stream::new(Key::new(1000 + repeat as u64));
        let l = likelihood("categorical", 4);
        let rows = |n: usize, stream: &mut Stream| {
            let truth: Vec<f64> = (0..4 * n).map(|_| stream.normal()).collect();
            let mut y = vec![0.0; n];
            (0..n).for_each(|i| l.sample(&truth[4 * i..4 * i + 4], &[], stream, &mut y[i..i + 1]));
            let f = truth.iter().map(|t| (4.0 * t) as f32).collect();
            (Predictive::new(l.clone(), f, vec![], 1, n, TargetScale::default()), y)
        };
        let (held_back, y) = rows(HELD_BACK, &mut stream);
        let calibration = Calibration::fit(&held_back, &y, Outcome::Class).unwrap();
        let (new, y) = rows(NEW, &mut stream);
        let (classes, threshold) = (new.classes(), calibration.threshold(level).unwrap());
        let part = |inside: &dyn Fn(usize) -> bool| (0..NEW).filter(|n| inside(*n)).count() as f64 / NEW as f64;
        by_threshold.push(part(&|n| 1.0 - classes.row(n)[y[n] as usize] <= threshold));
        by_set.push(part(&|n| Calibration::set(threshold, &classes, n).contains(&(y[n] as usize))));
        assert!((0..NEW).all(|n| !Calibration::set(threshold, &classes, n).is_empty()));
    }
    check_coverage("sets", level, &by_threshold);
    assert!(by_set.iter().zip(&by_threshold).all(|(set, threshold)| set >= threshold));
}

/// Outcomes drawn at temperature 2.5. The information about ln T in n rows is n·E[Var_p(f/T)], here above 0.4 n: 4000 rows know ln T to
/// 0.025, and four of these are 10 %.
#[test]
fn a_known_temperature_is_found() {
    let mut stream = Stream::new(Key::new(4));
    let l = likelihood("categorical", 3);
    let f: Vec<f32> = (0..3 * 4000).map(|_| 4.0 * stream.normal() as f32).collect();
    let mut y = vec![0.0; 4000];
    for n in 0..4000 {
        let row: Vec<f64> = f[3 * n..3 * n + 3].iter().map(|v| f64::from(*v) / 2.5).collect();
        l.sample(&row, &[], &mut stream, &mut y[n..n + 1]);
    }
    let predictive = Predictive::new(l, f, vec![], 1, 4000, TargetScale::default());
    let calibration = Calibration::fit(&predictive, &y, Outcome::Class).unwrap();
    let found = calibration.temperature.unwrap();
    assert!((found / 2.5 - 1.0).abs() < 0.1, "{found}");
    let score = |t: f64| predictive.clone().tempered(t).log_likelihood(&y).iter().sum::<f64>();
    assert!(score(found) >= score(2.5) && score(found) > score(found * 1.01) && score(found) > score(found / 1.01));
}

#[test]
fn ranks_and_limits() {
    let rows = |n: usize| {
        let y: Vec<f64> = (1..=n).map(|i| i as f64).collect();
        let p = Predictive::new(likelihood("gaussian", 1), vec![0.0; n], vec![0.0], 1, n, TargetScale::default());
        Calibration::fit(&p, &y, Outcome::Real).unwrap()
    };
    let nine = rows(9); // scores 1 … 9
    let close = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-6);
    assert!(close(nine.threshold(0.9), 9.0) && close(nine.threshold(0.5), 5.0) && close(nine.threshold(0.01), 1.0));
    assert_eq!(nine.threshold(0.91), None);
    assert_eq!(nine.highest_level(), 0.9);
    // Beyond a thousand rows, every second score is kept: the next one up is taken.
    let many = rows(2000);
    assert!(close(many.threshold(0.5), 1002.0), "{:?}", many.threshold(0.5)); // rank 1001, kept 1002
    assert!(close(many.threshold(0.9995), 2000.0) && many.threshold(0.9999).is_none());
    let p = Predictive::new(likelihood("gaussian", 1), vec![0.0], vec![0.0], 1, 1, TargetScale::default());
    assert!(Calibration::fit(&p, &[1.0], Outcome::Real).unwrap_err().to_string().contains("1 rows cannot calibrate"));
    let mut counts = p.real();
    (counts.mean[0], counts.aleatoric[0]) = (3.2, 4.0);
    assert_eq!(Calibration::interval(1.0, &counts, 0, Outcome::Count), (2.0, 5.0));
    assert_eq!(Calibration::interval(9.0, &counts, 0, Outcome::Count), (0.0, 21.0));
}

fn fitted() -> Model {
    let x: Vec<f64> = (0..40).map(|i| i as f64).collect();
    let y = x.iter().map(|x| Some(if (x * 7.0) % 11.0 > 5.0 { "a" } else { "b" }.to_owned())).collect();
    let table = Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), Column::Text(y))]).unwrap();
    let recipe = Recipe { method: Choice::named("map").with("epochs", Value::Int(2)), ..Recipe::default() };
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let mut model = Model::fit(&recipe, &table, &options, 1, &mut Silent).unwrap();
    let rows = model.encoder.encode(&table, true).unwrap();
    let calibration =
        Calibration::fit(&model.predict(&rows.data.x, &model.how(1)).unwrap(), &rows.data.y, Outcome::Class).unwrap();
    assert!(model.calibration.replace(calibration).is_none());
    model
}

#[test]
fn the_model_file_keeps_it_and_checks_it() {
    let model = fitted();
    let bytes = artifact::to_bytes(&model).unwrap();
    let path = Path::new("m");
    let read = artifact::from_bytes(&bytes, path).unwrap();
    assert_eq!(read.calibration, model.calibration);
    // A file from before there was calibration has no such entry.
    let plain = Model { calibration: None, ..model.clone() };
    let old = artifact::to_bytes(&plain).unwrap();
    assert!(!String::from_utf8_lossy(&old).contains("calibration"));
    assert_eq!(artifact::from_bytes(&old, path).unwrap().calibration, None);
    let mut broken = model.clone();
    broken.calibration.as_mut().unwrap().temperature = Some(-1.0);
    let error = artifact::from_bytes(&artifact::to_bytes(&broken).unwrap(), path).unwrap_err().to_string();
    assert!(error.contains("calibration contradicts itself") && error.lines().count() == 1, "{error}");
    broken.calibration.as_mut().unwrap().rows = 7;
    assert!(artifact::from_bytes(&artifact::to_bytes(&broken).unwrap(), path).is_err());
}
