//! `fit --method gp` through the program: every command on its model file, and what is refused.

use crate::common::{folder, run, succeed};
use serde_json::Value;
use std::path::Path;

fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&succeed(dir, &[args, &["--json", "--quiet"]].concat()).stdout).unwrap()
}

const FIT: [&str; 6] = ["fit", "houses.csv", "--target", "price", "--method", "gp"];

#[test]
fn every_command_takes_a_gaussian_process() {
    let dir = folder();
    let d = dir.path();
    let short = ["--set", "draws=3", "--kernel", "matern52(ard) + linear", "--out", "m.st"];
    let fitted = json(d, &[&FIT[..], &short].concat());
    assert_eq!(fitted["method"], "gp");
    assert!(fitted["log_evidence"].as_f64().unwrap().is_finite());
    let first = &json(d, &["predict", "m.st", "houses.csv"])["rows"][0];
    assert!(first["std_epistemic"].as_f64().unwrap() > 0.0 && first["std_aleatoric"].as_f64().unwrap() > 0.0);
    assert!(json(d, &["evaluate", "m.st", "houses.csv"])["log_likelihood"].as_f64().unwrap().is_finite());
    // Rows of the fit are in the file.
    let diagnosis = run(d, &["diagnose", "m.st", "--json", "--quiet"]);
    let diagnosis: Value = serde_json::from_str(&diagnosis.stdout).unwrap();
    assert!(diagnosis["leave_one_out"]["rmse"].as_f64().unwrap() > 0.0, "{diagnosis}");
    assert_eq!(json(d, &["inspect", "m.st"])["model"], "gp");
    json(d, &["calibrate", "m.st", "houses.csv", "--out", "c.st"]);
    json(d, &["ood", "m.st", "houses.csv", "houses.csv"]);
    let compare = ["compare", "houses.csv", "--target", "price", "--methods", "gp,linear", "--folds", "2"];
    let compared = json(d, &[&compare[..], &["--set", "draws=3"]].concat());
    assert!(compared.to_string().contains("\"gp\""), "{compared}");
}

#[test]
fn what_is_refused_is_said() {
    let dir = folder();
    let message = |more: &[&str]| run(dir.path(), &[&FIT[..], &["--out", "m.st"], more].concat()).stderr;
    assert!(message(&["--kernel", "rbf + mattern52"]).contains("at character 7: there is no kernel 'mattern52'"));
    assert!(message(&["--kernel", "rbf(columns=nosuch)"]).contains("there is no input column 'nosuch'"));
    assert!(message(&["--network", "20"]).contains("'gp' has no network"));
    assert!(message(&["--likelihood", "student-t"]).contains("gp takes normal noise"));
    let other = run(dir.path(), &["fit", "houses.csv", "--target", "price", "--kernel", "rbf", "--out", "m.st"]).stderr;
    assert!(other.contains("--kernel is for a Gaussian process"), "{other}");
}
