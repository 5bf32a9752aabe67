//! Several targets at once, from the command line to files and back.

use crate::common::{run, succeed};
use serde_json::Value;
use std::path::Path;

/// Two inputs, two targets in units far apart, one whose name holds a comma, and a text column.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut text = "x,z,a,b,\"c,d\",word\n".to_owned();
    for i in 0..60 {
        let (x, z) = ((i * 37 % 60) as f64 / 30.0 - 1.0, (i * 23 % 60) as f64 / 30.0 - 1.0);
        let e = ((i * 17 % 13) as f64 - 6.0) / 6.0;
        let (a, b) = (10.0 + 3.0 * x - z + 0.5 * e, 1000.0 * x * z + 100.0 * e * x);
        text += &format!("{x},{z},{a},{b},{},{}\n", x + e, ["u", "v"][i % 2]);
    }
    std::fs::write(dir.path().join("d.csv"), text).unwrap();
    dir
}

const LEFT_OUT: [&str; 4] = ["--ignore", "word", "--ignore", "c,d"];

fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&succeed(dir, &[args, &["--json"]].concat()).stdout).unwrap()
}

#[test]
fn every_command_takes_several_targets() {
    let dir = folder();
    let d = dir.path();
    let linear = ["--method", "linear", "--set", "degree=2", "--quiet"];
    succeed(d, &[&["fit", "d.csv", "--target", "a,b", "--out", "ab"], &LEFT_OUT[..], &linear].concat());
    succeed(d, &[&["fit", "d.csv", "--target", "b, a", "--out", "ba"], &LEFT_OUT[..], &linear].concat());
    let text = succeed(d, &["predict", "ab", "d.csv"]).stdout;
    let head = text.lines().next().unwrap();
    assert_eq!(
        head,
        "mean_a,std_a,std_epistemic_a,std_aleatoric_a,lower_a,upper_a,mean_b,std_b,std_epistemic_b,std_aleatoric_b,lower_b,upper_b"
    );
    // Another order of the targets is another order of the columns: to nine digits of standard deviations, since the evidence is climbed in another order.
    let (ab, ba) = (json(d, &["predict", "ab", "d.csv"]), json(d, &["predict", "ba", "d.csv"]));
    for row in 0..60 {
        for (name, unit) in [("mean_a", "std_a"), ("std_b", "std_b"), ("upper_b", "std_b")] {
            let of = |p: &Value, name: &str| p["rows"][row][name].as_f64().unwrap();
            let (p, q) = (of(&ab, name), of(&ba, name));
            assert!((p - q).abs() < 1e-4 * of(&ab, unit), "{name} {row}: {p} {q}");
        }
    }
    let scores = json(d, &["evaluate", "ab", "d.csv"]);
    let of = |target: &str, name: &str| scores["targets"][target][name].as_f64().unwrap();
    assert_eq!(scores["n"], 60);
    assert!(
        (scores["log_likelihood"].as_f64().unwrap() - of("a", "log_likelihood") - of("b", "log_likelihood")).abs()
            < 1e-9
    );
    assert!(of("a", "rmse") < 1.0 && of("b", "rmse") > 5.0 && scores["rmse"].as_f64().unwrap() < 0.5, "{scores}");
    assert!(scores["targets"]["b"]["standard_errors"]["crps"].as_f64().unwrap() > 0.0);
    succeed(d, &["evaluate", "ab", "d.csv", "--report", "page.html"]);
    let page = std::fs::read_to_string(d.join("page.html")).unwrap();
    assert!(page.contains("Every target") && page.contains("b: predicted against true"));
    assert_eq!(json(d, &["calibrate", "ab", "d.csv", "--out", "c"])["n"], 60);
    let calibrated = json(d, &["evaluate", "c", "d.csv"]);
    // On the rows it was calibrated by: the ⌈61·level⌉-th smallest score of 60.
    let coverage = calibrated["conformal"][1]["coverage"].as_f64().unwrap();
    assert!((coverage - 49.0 / 60.0).abs() < 1e-9, "{coverage}");
    assert!(
        succeed(d, &["predict", "c", "d.csv"])
            .stdout
            .starts_with("mean_a,std_a,std_epistemic_a,std_aleatoric_a,lower_a,upper_a,conformal_lower_a")
    );
    assert_eq!(json(d, &["ood", "ab", "d.csv", "d.csv"])["n_in"], 60);
    assert_eq!(json(d, &["attack", "ab", "d.csv", "--epsilon", "0.1", "--out", "adv.csv"])["n"], 60);
    assert_eq!(json(d, &["diagnose", "ab", "d.csv"])["check"]["rows"], 60);
    assert!(succeed(d, &["inspect", "ab"]).stdout.contains("\nand         b: a number"));
    let compare = ["compare", "d.csv", "--target", "a,b", "--methods", "linear,map", "--folds", "2", "--json"];
    let table: Value = serde_json::from_str(&succeed(d, &[&compare[..], &LEFT_OUT].concat()).stdout).unwrap();
    assert!(table.to_string().contains("log_likelihood"), "{table}");
}

#[test]
fn a_name_with_a_comma_is_one_column_where_there_is_one() {
    let dir = folder();
    let d = dir.path();
    let fit = ["fit", "d.csv", "--target", "c,d", "--ignore", "word", "--method", "linear", "--out", "m"];
    let told = succeed(d, &fit).stdout;
    assert!(told.contains("4 inputs, target a number"), "{told}");
    assert!(succeed(d, &["predict", "m", "d.csv"]).stdout.starts_with("mean,std,"));
}

#[test]
fn wrong_targets_get_one_sentence() {
    let dir = folder();
    for (target, more, expected) in [
        ("a,a", &[][..], "posterior: the target 'a' is named twice; name every target once\n"),
        ("a,q", &[], "posterior: d.csv: there is no column 'q'; "),
        (
            "a,word",
            &[],
            "posterior: d.csv, column 'word': several targets must all be real numbers, and this one holds classes; ",
        ),
        (
            "a,b",
            &["--task", "classification"],
            "posterior: several targets must all be real numbers, and classes are asked for; ",
        ),
        (
            "a,b",
            &["--likelihood", "poisson"],
            "posterior: the likelihood 'poisson' is for counts, but the target holds real numbers; ",
        ),
        ("a,b", &["--ignore", "b"], "posterior: the target 'b' is also to be ignored; "),
    ] {
        let got = run(dir.path(), &[&["fit", "d.csv", "--target", target, "--out", "m"], more].concat());
        assert!(got.code == Some(2) || got.code == Some(1), "{:?}", got.code);
        assert!(got.stderr.starts_with(expected) && got.stderr.lines().count() == 1, "{}", got.stderr);
        assert!(!dir.path().join("m").exists());
    }
}
