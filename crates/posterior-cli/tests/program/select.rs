//! `posterior select`: data of order 2 pick order 2, keys of all kinds, and wrong ones in one sentence.

use crate::common::{folder, run, succeed};
use serde_json::Value;
use std::path::Path;

/// y = 1 + x/2 − 2x² and noise of 0.5, at 40 uneven points.
fn quadratic(dir: &Path) {
    let noise = |i: usize| {
        // Sums of twelve numbers from a fixed sequence: nearly normal, the same everywhere.
        let uniform = |k: usize| ((i * 12 + k) as f64 * 0.754_877_666_246_692_7).fract();
        0.5 * ((0..12).map(uniform).sum::<f64>() - 6.0)
    };
    let row = |i: usize| {
        let x = 3.0 * (i as f64 * 0.618_033_988_749_894_9).fract() - 1.5;
        format!("{x},{}\n", 1.0 + 0.5 * x - 2.0 * x * x + noise(i * i + 7))
    };
    let rows: String = (0..40).map(row).collect();
    std::fs::write(dir.join("quadratic.csv"), format!("x,y\n{rows}")).unwrap();
}

fn select(dir: &Path, flags: &[&str]) -> Value {
    let all = [&["select", "quadratic.csv", "--target", "y", "--json", "--quiet"], flags].concat();
    serde_json::from_str(&succeed(dir, &all).stdout).unwrap()
}

#[test]
fn data_of_order_two_pick_two() {
    let dir = folder();
    quadratic(dir.path());
    let found = select(dir.path(), &["--over", "degree=0,1,2,3,4,5,6"]);
    assert_eq!(found["method"], "linear");
    let rows = found["rows"].as_array().unwrap();
    let degrees: Vec<u64> = rows.iter().map(|r| r["degree"].as_u64().unwrap()).collect();
    assert_eq!(degrees, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(found["chosen"], 2);
    let number = |i: usize, key: &str| rows[i][key].as_f64().unwrap();
    let probabilities: Vec<f64> = (0..7).map(|i| number(i, "probability")).collect();
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9 && probabilities[2] > 0.5, "{probabilities:?}");
    // Too simple and too rich both lose; the rows held out see what is too simple.
    assert!((3..6).all(|i| number(i, "log_evidence") > number(i + 1, "log_evidence")));
    assert!(number(1, "log_evidence") < number(2, "log_evidence") - 10.0);
    assert!(number(1, "held_out_log_likelihood") < number(2, "held_out_log_likelihood") - 0.5);
    // The model prior has its say, in proportion.
    let weighted = select(dir.path(), &["--over", "degree=2,3", "--prior-weights", "1,50", "--held-out", "0"]);
    let odds = |found: &Value, a: usize, b: usize| {
        found["rows"][a]["probability"].as_f64().unwrap() / found["rows"][b]["probability"].as_f64().unwrap()
    };
    assert!((odds(&weighted, 1, 0) / odds(&found, 3, 2) / 50.0 - 1.0).abs() < 1e-6);
    assert!(weighted["rows"][0]["held_out_log_likelihood"].is_null());
}

#[test]
fn keys_of_all_kinds_make_a_grid() {
    let dir = folder();
    quadratic(dir.path());
    let short = ["--set", "epochs=20", "--held-out", "0", "--draws", "5"];
    let found = select(dir.path(), &[&["--over", "width=2,4", "--over", "depth=1,2"], &short[..]].concat());
    assert_eq!(found["method"], "mean-field");
    let parameters: Vec<u64> =
        found["rows"].as_array().unwrap().iter().map(|r| r["parameters"].as_u64().unwrap()).collect();
    // 2·2 + 3, 2·2 + 6 + 3, 2·4 + 5, 2·4 + 20 + 5; and the noise.
    assert_eq!(parameters, [8, 14, 14, 34]);
    assert_eq!((&found["rows"][2]["width"], &found["rows"][2]["depth"]), (&Value::from(4), &Value::from(1)));
    let found =
        select(dir.path(), &[&["--over", "network=3,3x2,linear", "--over", "activation=relu"][..2], &short].concat());
    let parameters: Vec<u64> =
        found["rows"].as_array().unwrap().iter().map(|r| r["parameters"].as_u64().unwrap()).collect();
    assert_eq!((parameters, found["rows"][1]["network"].as_str()), (vec![11, 18, 3], Some("3x2")));
    for over in [
        "activation=relu,tanh",
        "prior.weight_std=0.5,2",
        "likelihood.noise_std=0.1,0.5",
        "samples=1,2",
        "prior=normal,laplace",
    ] {
        let found = select(dir.path(), &[&["--over", over, "--network", "3"], &short[..]].concat());
        let rows = found["rows"].as_array().unwrap();
        assert!(rows.len() == 2 && rows[0]["log_evidence_bound"] != rows[1]["log_evidence_bound"], "{over}");
    }
    // Laplace's evidence is of the same scale as the exact one: on a linear model, with noise held, they are equal.
    let held =
        ["--likelihood", "gaussian", "--set", "likelihood.noise=fixed", "--network", "linear", "--held-out", "0"];
    let over = ["--over", "prior.weight_std=0.3,1"];
    let exact = select(dir.path(), &[&["--method", "linear"], &held[..], &over].concat());
    let same = ["--method", "laplace", "--set", "structure=full"];
    let laplace = select(dir.path(), &[&same[..], &held, &over].concat());
    for i in 0..2 {
        let of = |found: &Value| found["rows"][i]["log_evidence"].as_f64().unwrap();
        assert!((of(&laplace) - of(&exact)).abs() < 1e-2, "{} {}", of(&laplace), of(&exact)); // weights at the mode are f32
    }
    // Scales of the prior are compared, not scaled away.
    let found = select(dir.path(), &["--method", "linear", "--set", "degree=2", "--over", "prior.weight_std=0.01,1"]);
    assert!(
        found["rows"][1]["log_evidence"].as_f64().unwrap() > 5.0 + found["rows"][0]["log_evidence"].as_f64().unwrap()
    );
}

/// An ELBO is a bound, and is called one; probabilities do not follow from bounds.
#[test]
fn bounds_are_called_bounds_and_give_no_probabilities() {
    let dir = folder();
    quadratic(dir.path());
    let flags = ["--over", "width=2,20", "--set", "epochs=50", "--held-out", "0"];
    let found = select(dir.path(), &flags);
    assert_eq!(found["evidence"], "bound");
    let rows = found["rows"].as_array().unwrap();
    let bounds: Vec<f64> = rows.iter().map(|r| r["log_evidence_bound"].as_f64().unwrap()).collect();
    assert_eq!(found["chosen"], usize::from(bounds[1] > bounds[0]));
    assert!(rows.iter().all(|r| r["probability"].is_null() && r["log_evidence"].is_null()), "{found}");
    let said = succeed(dir.path(), &[&["select", "quadratic.csv", "--target", "y"], &flags[..]].concat()).stdout;
    assert!(said.contains("lower bound on log evidence") && said.contains("Highest lower bound"), "{said}");
    assert!(!said.contains('%') && !said.contains("robable:"), "{said}");
    let page = std::fs::read_to_string(dir.path().join("select.html")).unwrap();
    assert!(page.contains("bound on log p(D | M)") && !page.contains(">p(M | D)<"));
    let exact = select(dir.path(), &["--over", "degree=1,2", "--held-out", "0"]);
    assert!(exact["evidence"] == "exact" && exact["rows"][0]["log_evidence_bound"].is_null(), "{exact}");
}

#[test]
fn people_get_a_table_a_sentence_and_a_picture() {
    let dir = folder();
    quadratic(dir.path());
    let said = succeed(dir.path(), &["select", "quadratic.csv", "--target", "y", "--over", "degree=1,2,3"]).stdout;
    assert!(said.starts_with("degree  parameters  log evidence  probability  held-out log-likelihood\n"), "{said}");
    assert!(said.contains("Most probable: degree 2 (") && said.contains("Picture: select.html"), "{said}");
    let page = std::fs::read_to_string(dir.path().join("select.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(page.contains("log p(D | M)") && page.contains("degree"));
    let flags = ["--over", "degree=1,2", "--held-out", "0", "--out", "other.html", "-q"];
    let quiet = succeed(dir.path(), &[&["select", "quadratic.csv", "--target", "y"], &flags[..]].concat());
    assert_eq!((quiet.stdout, quiet.stderr), (String::new(), String::new()));
    assert_eq!(std::fs::read_to_string(dir.path().join("other.html")).unwrap().matches("<svg").count(), 2);
}

#[test]
fn slips_get_one_sentence() {
    let dir = folder();
    quadratic(dir.path());
    for (flags, said) in [
        (&["--over", "degree"][..], "has no '='"),
        (&["--over", "degree=1,"], "lacks a name or a value"),
        (&["--over", "=1,2"], "lacks a name or a value"),
        (&["--over", "degree=1"], "nothing to choose"),
        (&["--over", "degree=1,2,1"], "the value 1 twice"),
        (&["--over", "degree=1,2", "--over", "degree=3"], "given twice"),
        (&["--over", "degree=1,31"], "the setting 'degree' cannot be '31'"),
        (&["--over", "degree=1,x"], "the setting 'degree' cannot be 'x'"),
        (&["--over", "degre=1,2"], "method 'mean-field' has no setting 'degre'"),
        (&["--over", "prior.weight_sd=1,2"], "did you mean 'weight_std'?"),
        (&["--over", "noise.std=1,2"], "there is no section 'noise'"),
        (&["--over", "activation=relu,tan"], "did you mean 'tanh'?"),
        (&["--over", "network=5,fifty"], "there is no network 'fifty'"),
        (&["--over", "width=5,0"], "'0' is not a whole number of at least 1"),
        (&["--over", "depth=1,200"], "too deep"),
        (&["--over", "width=5,6", "--network", "lenet-5"], "given by its widths"),
        (&["--over", "width=5,6", "--over", "network=5,6"], "leave the others out"),
        (&["--over", "method=map,ml"], "compare approximations"),
        (
            &["--over", "epochs=1,2", "--method", "map"],
            "the method 'map' with these settings gives no evidence of a model",
        ),
        (&["--over", "degree=1,2", "--network", "5"], "both say what the model is linear in"),
        (&["--over", "degree=1,2", "--likelihood", "student-t"], "exact for normal noise alone"),
        (&["--over", "degree=1,2", "--prior-weights", "1"], "2 models and 1 prior weights"),
        (&["--over", "degree=1,2", "--prior-weights", "1,a"], "'a' is not a number"),
        (&["--over", "degree=1,2", "--prior-weights", "-1,2"], "a prior weight cannot be -1"),
        (&["--over", "degree=1,2", "--out", "no/such/folder.html"], "no/such/folder.html"),
    ] {
        let args = [&["select", "quadratic.csv", "--target", "y"], flags].concat();
        let run = run(dir.path(), &args);
        let shown = format!("posterior {}\n{}{}", args.join(" "), run.stdout, run.stderr);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{shown}");
        assert!(run.stderr.contains(said) && run.stderr.lines().count() == 1, "not said: {said}\n{shown}");
        assert!(!dir.path().join("select.html").exists(), "{shown}");
    }
    // Classes are not for exact regression.
    let args = ["select", "birds.csv", "--target", "species", "--over", "degree=1,2"];
    let run = run(dir.path(), &args);
    assert!(run.code == Some(2) && run.stderr.contains("linear is exact for normal noise alone"), "{}", run.stderr);
}
