//! `--moments`: close to many draws where it applies, one sentence where it does not.

use crate::common::{folder, run, succeed};
use serde_json::Value;
use std::path::Path;

fn fit(dir: &Path, out: &str, flags: &[&str]) {
    let args = ["fit", "houses.csv", "--target", "price", "--quiet", "--set", "epochs=60", "--out", out];
    succeed(dir, &[&args, flags].concat());
}

fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&succeed(dir, &[args, &["--json", "--quiet"]].concat()).stdout).unwrap()
}

#[test]
fn predictions_and_scores_are_those_of_many_draws() {
    let dir = folder();
    let d = dir.path();
    for method in ["mean-field", "moments"] {
        fit(d, "m.st", &["--network", "8", "--method", method]);
        let fast = json(d, &["predict", "m.st", "houses.csv", "--moments"]);
        let slow = json(d, &["predict", "m.st", "houses.csv", "--draws", "4000"]);
        for (a, b) in fast["rows"].as_array().unwrap().iter().zip(slow["rows"].as_array().unwrap()) {
            let of = |row: &Value, key: &str| row[key].as_f64().unwrap();
            // One hidden layer: moments are exact but for tanh's quadrature; 4000 draws have 1.6 % of a standard deviation, and
            // so has their standard deviation; five times that.
            assert!((of(a, "mean") - of(b, "mean")).abs() < 0.08 * of(b, "std"), "{method}: {a} for {b}");
            assert!((of(a, "std") / of(b, "std") - 1.0).abs() < 0.08, "{method}: {a} for {b}");
        }
        // Nothing is random but the resamples of the standard errors.
        let scores = |seed: &str| {
            let mut all = json(d, &["evaluate", "m.st", "houses.csv", "--moments", "--seed", seed]);
            all.as_object_mut().unwrap().remove("standard_errors");
            all
        };
        assert_eq!(scores("1"), scores("9"));
    }
}

#[test]
fn what_it_is_not_for_is_said_in_one_sentence() {
    let dir = folder();
    let d = dir.path();
    fit(d, "point.st", &["--network", "4", "--method", "map"]);
    let residual = "[network]\nlayers = [{ kind = \"dense\", units = 4, activation = \"tanh\" }, \
                    { kind = \"residual\", layers = [{ kind = \"dense\", units = 4, activation = \"tanh\" }] }]\n";
    std::fs::write(d.join("c.toml"), residual).unwrap();
    fit(d, "residual.st", &["--config", "c.toml", "--method", "mean-field"]);
    for (model, expected) in
        [("point.st", "of kind 'point'"), ("residual.st", "this network has 'residual (dense 4 tanh)'")]
    {
        for command in ["predict", "evaluate"] {
            let refused = run(d, &[command, model, "houses.csv", "--moments", "--quiet"]);
            assert_eq!((refused.code, &*refused.stdout), (Some(2), ""), "{}", refused.stderr);
            assert!(refused.stderr.contains(expected) && refused.stderr.lines().count() == 1, "{}", refused.stderr);
        }
    }
    let args =
        ["fit", "houses.csv", "--target", "price", "--config", "c.toml", "--method", "moments", "--out", "no.st"];
    let refused = run(d, &args);
    assert!(refused.code == Some(2) && refused.stderr.contains("use the method 'mean-field'"), "{}", refused.stderr);
    assert!(!d.join("no.st").exists());
}
