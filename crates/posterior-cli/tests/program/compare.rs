//! Comparisons: what is done is kept, what fails stays in the table, the numbers follow from the splits and nothing else.

use crate::common::{folder, run, succeed};
use serde_json::Value;
use std::path::Path;

const SHORT: &[&str] = &["--network", "6", "--set", "epochs=20", "--draws", "10", "--json"];

fn compare(dir: &Path, flags: &[&str]) -> Value {
    let args = [&["compare", "houses.csv", "--target", "price"], SHORT, flags].concat();
    serde_json::from_str(&succeed(dir, &args).stdout).unwrap()
}

/// Without what differs from run to run.
fn steady(mut value: Value) -> Value {
    for key in ["fits_taken_from_state", "state", "report"] {
        value[key].take();
    }
    for row in value["rows"].as_array_mut().unwrap() {
        for key in ["seconds", "predict_seconds", "memory_bytes"] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key}: {row}");
            row[key].take();
        }
    }
    value
}

fn row<'a>(value: &'a Value, method: &str) -> &'a Value {
    value["rows"].as_array().unwrap().iter().find(|r| r["method"] == method).unwrap()
}

/// The scores of a method in the state folder, split by split.
fn kept(dir: &Path, method: &str, score: &str) -> Vec<f64> {
    let mut all: Vec<(String, f64)> = std::fs::read_dir(dir.join("compare.state"))
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.path().extension().is_some_and(|x| x == "json"))
        .map(|e| (e.file_name().to_string_lossy().into_owned(), std::fs::read(e.path()).unwrap()))
        .filter(|(name, _)| name.starts_with(&format!("{method}-")))
        .map(|(name, bytes)| {
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            (name, value["done"]["scores"][score].as_f64().unwrap())
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.into_iter().map(|(_, v)| v).collect()
}

#[test]
fn an_interrupted_comparison_goes_on() {
    let dir = folder();
    let d = dir.path();
    let first = compare(d, &["--methods", "map", "--folds", "3"]);
    assert_eq!(first["fits_taken_from_state"], 0);
    let both = ["--methods", "map,mean-field", "--folds", "3", "--reference", "mean-field"];
    let whole = compare(d, &both);
    // With a reference a cell holds more: it is another one.
    assert_eq!(whole["fits_taken_from_state"], 0);
    assert_eq!(compare(d, &both)["fits_taken_from_state"], 6);
    // Other splits are other fits, though they have the same numbers.
    assert_eq!(compare(d, &["--methods", "map", "--folds", "4"])["fits_taken_from_state"], 0);
    assert_eq!(compare(d, &["--methods", "map", "--folds", "3", "--seed", "1"])["fits_taken_from_state"], 0);
    // As if it had been stopped: one fit of each method is lost, and with it not the reference's model.
    let folder = d.join("compare.state");
    let lost = |method: &str, ending: &str| {
        let names = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path());
        let mut names: Vec<_> = names.filter(|p| p.extension().is_some_and(|e| e == ending)).collect();
        names.sort();
        let found = names
            .into_iter()
            .rev()
            .find(|p| p.file_name().unwrap().to_string_lossy().starts_with(&format!("{method}-2")));
        std::fs::remove_file(found.unwrap()).unwrap();
    };
    lost("map", "json");
    lost("mean-field", "json");
    let again = compare(d, &both);
    assert!([4, 5].contains(&again["fits_taken_from_state"].as_u64().unwrap()), "{again}");
    assert_eq!(steady(again), steady(whole.clone()));
    // A file cut short counts as not there.
    for entry in std::fs::read_dir(&folder).unwrap() {
        std::fs::write(entry.unwrap().path(), "{").unwrap();
    }
    let anew = compare(d, &both);
    assert_eq!(anew["fits_taken_from_state"], 0);
    assert_eq!(steady(anew), steady(whole));
}

#[test]
fn numbers_do_not_depend_on_threads_and_follow_from_the_splits() {
    let dir = folder();
    let d = dir.path();
    let flags = ["--methods", "map,mc-dropout,mean-field", "--folds", "3"];
    let one = compare(d, &[&flags[..], &["--threads", "1"]].concat());
    let two = compare(d, &[&flags[..], &["--threads", "2", "--state", "other"]].concat());
    assert_eq!(steady(one.clone()), steady(two));
    for method in ["map", "mc-dropout", "mean-field"] {
        for score in ["rmse", "crps", "log_likelihood"] {
            let values = kept(d, method, score);
            let best = kept(d, one["best"].as_str().unwrap(), score);
            let (mean, error) = estimate(&values);
            let (difference, paired) = estimate(&values.iter().zip(&best).map(|(a, b)| a - b).collect::<Vec<_>>());
            let row = row(&one, method);
            let close =
                |got: &Value, expected: f64| (got.as_f64().unwrap() - expected).abs() < 1e-9 * (1.0 + expected.abs());
            assert!(
                close(&row[score], mean) && close(&row["standard_errors"][score], error),
                "{method} {score}: {row}"
            );
            assert!(close(&row["differences_to_best"][score], difference), "{method} {score}: {row}");
            assert!(close(&row["paired_standard_errors"][score], paired), "{method} {score}: {row}");
        }
    }
    let ranks: f64 = one["rows"].as_array().unwrap().iter().map(|r| r["rank"].as_f64().unwrap()).sum();
    assert!((ranks - 6.0).abs() < 1e-12, "1 + 2 + 3 on every split: {ranks}");
}

fn estimate(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt())
}

#[test]
fn what_fails_stays_in_the_table() {
    let dir = folder();
    let d = dir.path();
    let rows = std::fs::read_to_string(d.join("houses.csv")).unwrap();
    let head = rows.lines().next().unwrap();
    let column = head.split(',').position(|c| c == "district").unwrap();
    // Only rows 5 and 6 are in the far east: a model that has not seen the class cannot be judged on it.
    let changed: Vec<String> = rows
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let cells = line
                .split(',')
                .enumerate()
                .map(|(c, cell)| if [6, 7].contains(&i) && c == column { "far-east" } else { cell });
            cells.collect::<Vec<_>>().join(",")
        })
        .collect();
    std::fs::write(d.join("houses.csv"), changed.join("\n")).unwrap();
    std::fs::write(d.join("rows.txt"), "0 1 2 3\n4,5,6,7\n\n8 9 10 11\n").unwrap();
    let args = ["compare", "houses.csv", "--target", "district", "--methods", "map", "--test-rows", "rows.txt"];
    let json = succeed(d, &[&args[..], SHORT].concat()).stdout;
    let got: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((got["splits"].as_u64(), &got["test_rows"]), (Some(3), &serde_json::json!([4, 4, 4])));
    let map = row(&got, "map");
    assert_eq!(map["splits_done"], 2);
    assert_eq!(map["failures"][0]["split"], 1);
    let why = map["failures"][0]["why"].as_str().unwrap();
    assert!(why.contains("'far-east' was not seen in training") && why.contains("line 7"), "{why}");
    let text = succeed(d, &[&args[..], &SHORT[..6], &["--report", "c.html"]].concat());
    assert!(text.stdout.contains("2/3") && text.stdout.contains("not done: map, split 1: "), "{}", text.stdout);
    assert!(text.stderr.contains("3 of 3 fits are taken from compare.state"), "{}", text.stderr);
    assert!(std::fs::read_to_string(d.join("c.html")).unwrap().contains("far-east"));
}

#[test]
fn a_budget_is_kept() {
    let dir = folder();
    let d = dir.path();
    let long = ["compare", "houses.csv", "--target", "price", "--methods", "map,mean-field", "--network", "300,300"];
    let long = [&long[..], &["--set", "epochs=1000000", "--json"]].concat();
    let start = std::time::Instant::now();
    let stopped = run(d, &[&long[..], &["--folds", "2", "--budget", "0.5"]].concat());
    assert_eq!(stopped.code, Some(2), "{}", stopped.stdout);
    assert!(stopped.stderr.contains("no method got through: not done within the budget"), "{}", stopped.stderr);
    // Half a second, and room for a busy machine.
    assert!(start.elapsed().as_secs() < 30);
    // What was done before is told beside what was not.
    compare(d, &["--methods", "map", "--folds", "2"]);
    let args = [&["compare", "houses.csv", "--target", "price", "--methods", "map,mean-field", "--folds", "2"], SHORT]
        .concat();
    let json = succeed(d, &[&args[..], &["--budget", "0.000001"]].concat()).stdout;
    let got: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (row(&got, "map")["splits_done"].as_u64(), row(&got, "mean-field")["splits_done"].as_u64()),
        (Some(2), Some(0))
    );
    assert_eq!(row(&got, "mean-field")["failures"][1]["why"], "not done within the budget");
    assert!(row(&got, "mean-field")["rank"].is_null() && row(&got, "mean-field")["seconds"].is_null());
}

#[test]
fn classes_and_a_reference() {
    let dir = folder();
    let args = [
        "compare",
        "birds.csv",
        "--target",
        "species",
        "--methods",
        "map,mean-field",
        "--reference",
        "map",
        "--folds",
        "2",
    ];
    let json = succeed(dir.path(), &[&args[..], SHORT].concat()).stdout;
    let got: Value = serde_json::from_str(&json).unwrap();
    let mean_field = row(&got, "mean-field");
    for key in ["accuracy", "brier", "ece", "auroc", "agreement", "total_variation"] {
        assert!((0.0..=2.0).contains(&mean_field[key].as_f64().unwrap()), "{key}: {mean_field}");
    }
    assert!(mean_field["wasserstein"].is_null() && row(&got, "map")["agreement"].is_null());
    assert!(mean_field["total_variation"].as_f64().unwrap() > 0.0);
}

/// Ten draws cannot be believed; two thousand of a linear model can, whose posterior is a normal but for the noise.
#[test]
fn a_reference_is_judged_before_others_are_measured_by_it() {
    let dir = folder();
    let d = dir.path();
    let of = |draws: &str, flags: &[&str]| {
        let settings = ["--network", "linear", "--set", "epochs=20", "--set", draws];
        let args =
            ["compare", "houses.csv", "--target", "price", "--methods", "map", "--reference", "hmc", "--folds", "2"];
        succeed(d, &[&args[..], &settings, &["--quiet"], flags].concat()).stdout
    };
    let json = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let short = json(of("draws=10", &["--json"]));
    assert_eq!((&short["reference_trusted"], &short["reference_verdicts"][1]["split"]), (&false.into(), &1.into()));
    let sentence = short["reference_verdicts"][0]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("Do not trust: "), "{sentence}");
    let text = of("draws=10", &["--report", "c.html"]);
    assert!(text.contains("reference: distances to hmc on split") && text.contains("Do not trust"), "{text}");
    assert!(std::fs::read_to_string(d.join("c.html")).unwrap().contains("Distances to hmc on split"));
    let long = json(of("draws=2000", &["--json"]));
    assert_eq!(long["reference_trusted"], true, "{}", long["reference_verdicts"]);
    assert!(of("draws=2000", &[]).contains("reference: the predictions of hmc can be trusted on 2 splits"));
}
