//! From a data file to JSON, command by command, against files kept in `tests/golden`; `UPDATE_GOLDEN=1` writes them anew.

use crate::common::{folder, kept, program, run, succeed};
use serde_json::Value;
use std::path::Path;

/// How far numbers may be apart: relative, absolute. Vector and scalar code round differently and training amplifies it.
#[derive(Clone, Copy)]
struct Tolerance(f64, f64);

const USUAL: Tolerance = Tolerance(1e-3, 1e-4);
/// Keys whose values differ from run to run or from machine to machine.
const IGNORED: &[&str] = &[
    "seconds",
    "seconds_before",
    "seconds_after",
    "predict_seconds",
    "bytes",
    "bytes_before",
    "bytes_after",
    "memory_bytes",
    "model_bytes",
    "fits_taken_from_state",
    "model",
    "report",
    "file",
];

fn compare(at: &str, got: &Value, expected: &Value, tolerance: Tolerance) {
    match (got, expected) {
        (Value::Object(g), Value::Object(e)) => {
            let keys =
                |m: &serde_json::Map<String, Value>| m.keys().cloned().collect::<std::collections::BTreeSet<_>>();
            assert_eq!(keys(g), keys(e), "keys at {at}");
            for (key, value) in g.iter().filter(|(key, _)| !IGNORED.contains(&key.as_str())) {
                compare(&format!("{at}.{key}"), value, &e[key], tolerance);
            }
        }
        (Value::Array(g), Value::Array(e)) => {
            assert_eq!(g.len(), e.len(), "length at {at}");
            g.iter().zip(e).enumerate().for_each(|(i, (g, e))| compare(&format!("{at}[{i}]"), g, e, tolerance));
        }
        (Value::Number(g), Value::Number(e)) if g.is_f64() && e.is_f64() => {
            let (g, e) = (g.as_f64().unwrap(), e.as_f64().unwrap());
            assert!((g - e).abs() <= tolerance.0 * e.abs() + tolerance.1, "{at}: {g}, expected {e}");
        }
        _ => assert_eq!(got, expected, "{at}"),
    }
}

/// Runs a command with `--json --quiet --seed 1` and compares what it prints.
fn golden(dir: &Path, name: &str, args: &[&str], tolerance: Tolerance) {
    let run = succeed(dir, &[args, &["--json", "--quiet", "--seed", "1"]].concat());
    assert_eq!(run.stderr, "", "{name}");
    let got: Value = serde_json::from_str(&run.stdout).unwrap();
    let path = kept("golden").join(format!("{name}.json"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, format!("{got:#}\n")).unwrap();
        return;
    }
    let text = std::fs::read_to_string(&path).expect("UPDATE_GOLDEN=1 writes the file");
    let expected = serde_json::from_str(&text).unwrap();
    compare(name, &got, &expected, tolerance);
    // Without the vector instructions of this machine: the tolerance must be wide enough for others.
    let all = [args, &["--json", "--quiet", "--seed", "1"]].concat();
    let portable = program(dir, &all).env("POSTERIOR_PORTABLE", "1").output().unwrap();
    compare(&format!("{name}, portable"), &serde_json::from_slice(&portable.stdout).unwrap(), &expected, tolerance);
}

pub const SHORT: &[&str] = &["--network", "8", "--set", "epochs=30"];

/// Puts the first 30 rows of a file into `first.csv` and the rest into `second.csv`.
fn halves(dir: &Path, name: &str) {
    let text = std::fs::read_to_string(dir.join(name)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(dir.join("first.csv"), lines[..31].join("\n")).unwrap();
    std::fs::write(dir.join("second.csv"), [&lines[..1], &lines[31..]].concat().join("\n")).unwrap();
}

#[test]
fn regression() {
    let dir = folder();
    let d = dir.path();
    let fit = [&["fit", "houses.csv", "--target", "price", "--method", "mean-field", "--out", "m.st"], SHORT].concat();
    golden(d, "houses-fit", &fit, USUAL);
    golden(d, "houses-inspect", &["inspect", "m.st"], USUAL);
    golden(d, "houses-predict", &["predict", "m.st", "houses.csv", "--interval", "0.8", "--draws", "20"], USUAL);
    golden(d, "houses-evaluate", &["evaluate", "m.st", "houses.csv", "--draws", "20"], USUAL);
    let compress = ["compress", "m.st", "--keep", "0.25", "--data", "houses.csv", "--draws", "20", "--out", "c.st"];
    golden(d, "houses-compress", &compress, USUAL);
    golden(d, "houses-sparse-inspect", &["inspect", "c.st"], USUAL);
    golden(d, "houses-diagnose", &["diagnose", "m.st", "houses.csv", "--draws", "500"], USUAL);
    golden(d, "houses-draws", &["draws", "m.st", "--draws", "20", "--out", "d.parquet"], USUAL);
    halves(d, "houses.csv");
    golden(d, "houses-calibrate", &["calibrate", "m.st", "second.csv", "--draws", "20", "--out", "k.st"], USUAL);
    golden(d, "houses-conformal", &["predict", "k.st", "first.csv", "--draws", "20"], USUAL);
    golden(d, "houses-attack", &["attack", "m.st", "houses.csv", "--epsilon", "0.1,0.5", "--draws", "20"], USUAL);
    golden(d, "houses-ood", &["ood", "m.st", "houses.csv", "adversarial-0.5.csv", "--draws", "20"], USUAL);
    let compare = [
        "compare",
        "houses.csv",
        "--target",
        "price",
        "--methods",
        "map,mean-field",
        "--folds",
        "3",
        "--reference",
        "mean-field",
    ];
    golden(d, "houses-compare", &[&compare[..], SHORT, &["--draws", "20"]].concat(), USUAL);
    golden(d, "houses-prior", &["prior", "houses.csv", "--target", "price", "--draws", "3", "--network", "8"], USUAL);
}

/// Weights of their own need no rows to be judged.
#[test]
fn importance() {
    let dir = folder();
    let d = dir.path();
    let fit =
        ["fit", "houses.csv", "--target", "price", "--network", "linear", "--method", "importance", "--out", "m.st"];
    succeed(
        d,
        &[&fit[..], &["--seed", "1", "-q", "--set", "epochs=4000", "--set", "proposal=full-covariance"]].concat(),
    );
    // Thousands of steps amplify rounding: no kept numbers, but what must hold of them.
    let json: Value = serde_json::from_str(&succeed(d, &["diagnose", "m.st", "--json"]).stdout).unwrap();
    assert_eq!((json["trust"].as_str(), json["weights"]["draws"].as_u64()), (Some("all"), Some(2000)));
    assert!(json["weights"]["pareto_k"].as_f64().unwrap() < 0.6 && json["weights"]["ess"].as_f64().unwrap() > 400.0);
    let said = succeed(d, &["diagnose", "m.st"]).stdout;
    assert!(said.contains("Pareto-k") && said.lines().last().unwrap().starts_with("Trust: k = "), "{said}");
    // From the prior of a network nothing comes: the answer is no.
    let far = ["--network", "8", "--set", "proposal=prior", "--set", "draws=500", "--out", "far.st"];
    let fit = [&["fit", "houses.csv", "--target", "price", "--method", "importance"], &far[..]].concat();
    let heard = succeed(d, &fit).stderr;
    assert!(heard.starts_with("note: k = ") && heard.contains("mean nothing"), "{heard}");
    let no = run(d, &["diagnose", "far.st"]);
    assert_eq!((no.code, no.stderr.as_str()), (Some(1), ""));
    assert!(no.stdout.lines().last().unwrap().starts_with("Do not trust: k = "), "{}", no.stdout);
    let json = run(d, &["diagnose", "far.st", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["trust"], "nothing");
}

/// A line is easy: chains that agree are trusted, with a file and without, and their draws can be taken elsewhere.
#[test]
fn chains_are_judged_and_written() {
    let dir = folder();
    let d = dir.path();
    let rows: String = (0..40).map(|i| format!("{i},{}\n", 2 * i + i * 7 % 11)).collect();
    std::fs::write(d.join("line.csv"), format!("x,y\n{rows}")).unwrap();
    let fit = ["fit", "line.csv", "--target", "y", "--network", "linear", "--method", "hmc", "--out", "m.st", "-q"];
    succeed(d, &[&fit[..], &["--set", "draws=1000", "--set", "chains=4"]].concat());
    for args in [&["diagnose", "m.st"][..], &["diagnose", "m.st", "line.csv"]] {
        let said = succeed(d, args).stdout;
        assert!(said.contains("4 chains, 1 000 draws each") && said.contains("E-BFMI"), "{said}");
        assert!(said.lines().last().unwrap().starts_with("Trust: 4 chains agree"), "{said}");
    }
    let json: Value = serde_json::from_str(&succeed(d, &["diagnose", "m.st", "--json"]).stdout).unwrap();
    let (chains, predictions) = (&json["chains"], &json["chains"]["predictions"]);
    assert_eq!((json["trust"].as_str(), chains["rows"].as_u64()), (Some("all"), Some(40)));
    assert!(
        predictions["r_hat"].as_f64().unwrap() < 1.05 && predictions["ess_tail"].as_f64().unwrap() > 100.0,
        "{json}"
    );
    assert_eq!(predictions["quantities"], 41, "a function at 40 rows, and the noise");
    let names: Vec<_> = chains["weights"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["0.weight", "0.bias", "log_noise"]);
    let written = succeed(d, &["draws", "m.st", "--out", "d.parquet"]).stdout;
    assert!(written.starts_with("4 000 draws of 4 chains in d.parquet"), "{written}");
    let table = posterior::data::Table::read(&d.join("d.parquet"), &Default::default()).unwrap();
    assert_eq!((table.rows(), table.column_names().nth(4)), (4000, Some("0.weight[0,0]")));
}

/// Exact answers on this machine, in the time that is promised for it; the tolerances are the library's own.
#[test]
fn the_selftest() {
    let dir = folder();
    let start = std::time::Instant::now();
    let got: Value = serde_json::from_str(&succeed(dir.path(), &["selftest", "--json"]).stdout).unwrap();
    // Twenty seconds are promised of an optimised program on a machine that does nothing else; tests share theirs.
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
    assert_eq!(got["agrees"], true);
    let rows = got["rows"].as_array().unwrap();
    assert!(rows.iter().any(|r| r["method"] == "full-covariance") && rows.iter().all(|r| r["agrees"] == true), "{got}");
    let keys: Vec<_> = rows[0].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "agrees",
        "covariance_error",
        "covariance_tolerance",
        "ess",
        "fault",
        "mean_error",
        "mean_tolerance",
        "method",
        "seconds",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn classification() {
    let dir = folder();
    let d = dir.path();
    let fit = [&["fit", "birds.csv", "--target", "species", "--out", "m.st", "--method", "map"], SHORT].concat();
    golden(d, "birds-fit", &fit, USUAL);
    golden(d, "birds-inspect", &["inspect", "m.st"], USUAL);
    golden(d, "birds-predict", &["predict", "m.st", "birds.csv", "--draws", "20"], USUAL);
    golden(d, "birds-evaluate", &["evaluate", "m.st", "birds.csv", "--draws", "20"], USUAL);
    halves(d, "birds.csv");
    golden(d, "birds-calibrate", &["calibrate", "m.st", "second.csv", "--draws", "20", "--out", "k.st"], USUAL);
    golden(d, "birds-conformal", &["predict", "k.st", "first.csv", "--draws", "20"], USUAL);
    golden(d, "birds-attack", &["attack", "m.st", "birds.csv", "--attack", "pgd", "--epsilon", "0.5"], USUAL);
    golden(d, "birds-ood", &["ood", "m.st", "birds.csv", "adversarial.csv"], USUAL);
    let compare = ["compare", "birds.csv", "--target", "species", "--methods", "map", "--folds", "2"];
    golden(d, "birds-compare", &[&compare[..], SHORT].concat(), USUAL);
}

#[test]
fn without_data() {
    let dir = folder();
    golden(dir.path(), "prior", &["prior", "--network", "10", "--draws", "2"], USUAL);
    assert!(std::fs::read_to_string(dir.path().join("prior.svg")).unwrap().starts_with("<svg"));
    golden(dir.path(), "methods", &["methods"], USUAL);
    golden(dir.path(), "method", &["methods", "mean-field"], USUAL);
}

#[test]
fn selection() {
    let dir = folder();
    let select = ["select", "houses.csv", "--target", "price", "--over", "degree=1,2", "--over", "prior.bias_std=1,3"];
    golden(dir.path(), "houses-select", &select, USUAL);
    assert!(std::fs::read_to_string(dir.path().join("select.html")).unwrap().contains("<svg"));
}

/// The exact model through every command.
#[test]
fn linear_model() {
    let dir = folder();
    let d = dir.path();
    let fit = ["fit", "houses.csv", "--target", "price", "--method", "linear", "--set", "degree=2", "--out", "m.st"];
    golden(d, "linear-fit", &fit, USUAL);
    golden(d, "linear-inspect", &["inspect", "m.st"], USUAL);
    golden(d, "linear-predict", &["predict", "m.st", "houses.csv", "--draws", "20"], USUAL);
    golden(d, "linear-evaluate", &["evaluate", "m.st", "houses.csv", "--draws", "20"], USUAL);
}

/// Thousands of steps amplify rounding, so the tour is held to what it claims instead of to kept numbers.
#[test]
fn the_tour() {
    let dir = folder();
    let run = succeed(dir.path(), &["demo", "--json", "--quiet"]);
    let got: Value = serde_json::from_str(&run.stdout).unwrap();
    let (map, mean_field) = (&got["rows"][0], &got["rows"][1]);
    assert_eq!((map["method"].as_str(), mean_field["method"].as_str()), (Some("map"), Some("mean-field")));
    let std = |row: &Value, place: &str| row["places"][format!("std_epistemic {place}")].as_f64().unwrap();
    for place in ["in the gap", "outside"] {
        assert_eq!(std(map, place), 0.0);
        assert!(std(mean_field, place) > 2.5 * std(mean_field, "on the data"), "{mean_field}");
    }
    for row in [map, mean_field] {
        // The noise has standard deviation 0.1: no fit can do better, and both do nearly as well where the data are.
        assert!((0.09..0.13).contains(&row["scores"]["rmse"].as_f64().unwrap()), "{row}");
        assert!((0.85..0.99).contains(&row["scores"]["coverage_90"].as_f64().unwrap()), "{row}");
    }
    let report = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert_eq!(report.matches("<svg").count(), 2);
    assert!(
        !report.contains("http://") || report.matches("http://").count() == report.matches("http://www.w3.org").count()
    );
}

#[test]
fn the_tour_of_divergences() {
    let dir = folder();
    golden(dir.path(), "demo-kl", &["demo", "kl"], USUAL);
    let page = std::fs::read_to_string(dir.path().join("kl.html")).unwrap();
    assert_eq!((page.matches("<svg").count(), page.matches("class='line reverse' d='M").count()), (2, 4 + 4));
    let links = page.matches("http").count();
    assert_eq!(links, page.matches("http://www.w3.org").count() + page.matches("http-equiv").count());
    let said = succeed(dir.path(), &["demo", "kl", "--out", "other.html"]).stdout;
    assert!(said.contains("two peaks  reverse") && said.contains("banana     forward") && said.contains("other.html"));
    assert!(dir.path().join("other.html").exists() && !dir.path().join("report.html").exists());
    assert_eq!(succeed(dir.path(), &["demo", "kl", "-q"]).stdout, "");
}

#[test]
fn compressed_models_are_small_and_predict() {
    let dir = folder();
    let d = dir.path();
    let fit = [
        "fit",
        "birds.csv",
        "--target",
        "species",
        "--network",
        "200,200",
        "--method",
        "mean-field",
        "--set",
        "epochs=3",
        "--out",
        "m",
        "-q",
    ];
    succeed(d, &fit);
    let size = |name: &str| std::fs::metadata(d.join(name)).unwrap().len();
    let said = succeed(d, &["compress", "m", "--keep", "0.05", "--data", "birds.csv", "--out", "c"]);
    for part in [
        "0.weight",
        "pruned %",
        "Predictions for 60 rows differ by at most",
        "in probability",
        "accuracy",
        "model in c",
    ] {
        assert!(said.stdout.contains(part), "{part}\n{}", said.stdout);
    }
    let sparse = succeed(d, &["inspect", "c"]).stdout;
    assert!(sparse.contains("sparse, 41 603 parameters, 2 463 of them not 0") && sparse.contains("kept"), "{sparse}");
    assert_eq!(succeed(d, &["predict", "c", "birds.csv"]).stdout.lines().count(), 61);
    // Means alone, rows without their target, the usual threshold and the usual place.
    let rows = std::fs::read_to_string(d.join("birds.csv")).unwrap();
    let column = rows.lines().next().unwrap().split(',').position(|c| c == "species").unwrap();
    let drop =
        |line: &str| line.split(',').enumerate().filter(|c| c.0 != column).map(|c| c.1).collect::<Vec<_>>().join(",");
    std::fs::write(d.join("inputs.csv"), rows.lines().map(|l| drop(l) + "\n").collect::<String>()).unwrap();
    let said =
        succeed(d, &["compress", "m", "--keep", "0.05", "--mean-only", "--data", "inputs.csv", "--out", "p"]).stdout;
    assert!(said.contains("Predictions for 60 rows differ") && !said.contains("accuracy"), "{said}");
    assert!(succeed(d, &["inspect", "p"]).stdout.contains("means alone"));
    // 8 bytes for each of 41 603 parameters against 9 and 5 for each of 2 463, and a manifest of 2 kB.
    assert!(
        size("m") > 13 * size("c") && size("c") > size("p") + 4 * 2463,
        "{} {} {}",
        size("m"),
        size("c"),
        size("p")
    );
    let said = succeed(d, &["compress", "m", "--threshold", "-60"]);
    assert!(said.stderr.starts_with("note: all 600 weights of 0.weight were pruned"), "{}", said.stderr);
    assert!(d.join("compressed.safetensors").exists() && said.stdout.contains("made-up rows"));
}
