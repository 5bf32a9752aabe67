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
    let heteroscedastic = message(&["--likelihood", "heteroscedastic"]);
    assert!(heteroscedastic.contains("no way to the mode under the likelihood 'heteroscedastic'"), "{heteroscedastic}");
    let sparse = message(&["--likelihood", "student-t", "--set", "inference=sparse"]);
    assert!(sparse.contains("inference=sparse takes normal noise"), "{sparse}");
    let other = run(dir.path(), &["fit", "houses.csv", "--target", "price", "--kernel", "rbf", "--out", "m.st"]).stderr;
    assert!(other.contains("--kernel is for a Gaussian process"), "{other}");
}

/// Classes and heavy tails by Laplace's method, and wide networks, from the program; every file is read again.
#[test]
fn other_likelihoods_and_wide_networks() {
    let dir = folder();
    let d = dir.path();
    let short = ["--set", "steps=5", "--set", "starts=1"];
    let class = ["fit", "birds.csv", "--target", "species", "--method", "gp", "--out", "c.st"];
    assert!(json(d, &[&class[..], &short].concat())["log_evidence"].as_f64().unwrap() < 0.0);
    let scores = json(d, &["evaluate", "c.st", "birds.csv"]);
    assert!(scores["accuracy"].as_f64().unwrap() > 0.6, "{scores}");
    let heavy = ["--likelihood", "student-t", "--out", "t.st"];
    json(d, &[&FIT[..], &heavy, &short].concat());
    assert!(json(d, &["predict", "t.st", "houses.csv"])["rows"][0]["std_aleatoric"].as_f64().unwrap() > 0.0);
    for method in ["nngp", "ntk"] {
        let fit = ["fit", "houses.csv", "--target", "price", "--method", method, "--set", "parameters=optimised"];
        json(d, &[&fit[..], &short, &["--out", "w.st"]].concat());
        assert!(json(d, &["evaluate", "w.st", "houses.csv"])["rmse"].as_f64().unwrap().is_finite());
        assert_eq!(json(d, &["inspect", "w.st"])["model"], method);
    }
}

/// The prior beside its limit, and one that has none.
#[test]
fn the_limit_of_infinite_width() {
    let dir = folder();
    let found = json(dir.path(), &["prior", "--limit", "--network", "20", "--activation", "relu"]);
    assert!((found["slope"].as_f64().unwrap() + 1.0).abs() < 0.15, "{found}");
    assert_eq!(found["widths"].as_array().unwrap().len(), 5);
    let said =
        succeed(dir.path(), &["prior", "houses.csv", "--target", "price", "--limit", "--network", "20,20"]).stdout;
    assert!(said.contains("theory says -1"), "{said}");
    let refused = run(dir.path(), &["prior", "--limit", "--set", "prior.scaling=none"]).stderr;
    assert!(refused.contains("the variance of the outputs grows with the width"), "{refused}");
}
