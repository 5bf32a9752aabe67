//! What must hold of any output: the same seed gives the same bytes whatever the threads, quiet is quiet, numbers come back as they went in.

use crate::common::{folder, program, succeed};
use crate::golden::SHORT;
use serde_json::Value;
use std::process::Stdio;

#[test]
fn text_for_people() {
    let dir = folder();
    let d = dir.path();
    let methods = succeed(d, &["methods"]).stdout;
    let names: Vec<&str> = methods.lines().skip(2).filter_map(|l| l.split("  ").next()).collect();
    for name in ["ml", "map", "mean-field"] {
        assert!(names.contains(&name), "{methods}");
    }
    assert!(methods.starts_with("method ") && succeed(d, &["methods", "map"]).stdout.contains("epochs"));

    let fit = succeed(
        d,
        &[&["fit", "houses.csv", "--target", "price", "--method", "mean-field", "--out", "h.st"], SHORT].concat(),
    );
    assert!(fit.stdout.contains("60 rows, 6 inputs, target a number"), "{}", fit.stdout);
    let predicted = succeed(d, &["predict", "h.st", "houses.csv"]).stdout;
    assert_eq!(predicted.lines().next(), Some("mean,std,std_epistemic,std_aleatoric,lower,upper"));
    assert_eq!(predicted.lines().count(), 61);

    succeed(
        d,
        &[&["fit", "birds.csv", "--target", "species", "--method", "mean-field", "--out", "b.st"], SHORT].concat(),
    );
    let predicted = succeed(d, &["predict", "b.st", "birds.csv", "--out", "p.csv"]);
    assert_eq!(predicted.stdout, "");
    let predicted = std::fs::read_to_string(d.join("p.csv")).unwrap();
    let head = "predicted,p_finch,p_robin,p_wren,entropy,entropy_aleatoric,mutual_information";
    assert_eq!((predicted.lines().next(), predicted.lines().count()), (Some(head), 61));
    assert!(succeed(d, &["inspect", "b.st"]).stdout.contains("finch, robin, wren"));
    assert!(succeed(d, &["evaluate", "b.st", "birds.csv"]).stdout.contains("accuracy"));
}

#[test]
fn quiet_says_nothing_beside_the_answer() {
    let dir = folder();
    let constant = "x,same,y\n1,5,2\n2,5,3\n3,5,5\n4,5,1\n5,5,2\n6,5,3\n";
    std::fs::write(dir.path().join("c.csv"), constant).unwrap();
    let fit = ["fit", "c.csv", "--target", "y", "--method", "mean-field", "--set", "epochs=2"];
    let loud = succeed(dir.path(), &fit);
    assert!(loud.stderr.contains("note: column 'same'") && !loud.stdout.is_empty(), "{}", loud.stderr);
    let quiet = succeed(dir.path(), &[&fit[..], &["-q"]].concat());
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
}

#[test]
fn a_seed_gives_the_same_bytes_whatever_the_threads() {
    let dir = folder();
    let d = dir.path();
    let bytes = |name: &str| std::fs::read(d.join(name)).unwrap();
    for (method, data, target) in
        [("mean-field", "houses.csv", "price"), ("mean-field", "birds.csv", "species"), ("map", "birds.csv", "species")]
    {
        for (out, seed, threads) in [("a", "7", "1"), ("b", "7", "2"), ("c", "7", "1"), ("d", "8", "1")] {
            let fit = ["fit", data, "--target", target, "--method", method, "-q", "--network", "8,8"];
            let rest =
                ["--set", "epochs=10", "--set", "batch_size=16", "--seed", seed, "--threads", threads, "--out", out];
            succeed(d, &[&fit[..], &rest].concat());
            let predictions = format!("{out}.csv");
            succeed(d, &["predict", out, data, "--threads", threads, "--out", &predictions]);
        }
        assert!(bytes("a") == bytes("b") && bytes("a.csv") == bytes("b.csv"), "{method}: 1 and 2 threads");
        assert!(bytes("a") == bytes("c") && bytes("a.csv") == bytes("c.csv"), "{method}: twice the same");
        assert!(bytes("a") != bytes("d") && bytes("a.csv") != bytes("d.csv"), "{method}: another seed");
    }
    succeed(
        d,
        &["fit", "houses.csv", "--target", "price", "-q", "--method", "mean-field", "--set", "epochs=5", "--out", "m"],
    );
    let with = |seed: &str| succeed(d, &["predict", "m", "houses.csv", "--seed", seed]).stdout;
    assert_eq!(with("1"), with("1"));
    assert_ne!(with("1"), with("2"), "predictions take a seed of their own");
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let dir = folder();
    succeed(
        dir.path(),
        &[&["fit", "houses.csv", "--target", "price", "--method", "mean-field", "--out", "m", "-q"], SHORT].concat(),
    );
    for args in [&["predict", "m", "houses.csv"][..], &["methods"], &["inspect", "m", "--json"]] {
        let mut child = program(dir.path(), args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert_eq!((out.status.code(), String::from_utf8_lossy(&out.stderr).as_ref()), (Some(0), ""));
    }
}

#[test]
fn separators_do_not_change_the_answer() {
    let dir = folder();
    let d = dir.path();
    let text = std::fs::read_to_string(d.join("houses.csv")).unwrap();
    std::fs::write(d.join("semicolon.csv"), text.replace(',', ";")).unwrap();
    std::fs::write(d.join("comma.csv"), text.replace(',', ";").replace('.', ",")).unwrap();
    std::fs::write(d.join("tab.tsv"), text.replace(',', "\t")).unwrap();
    std::fs::write(d.join("crlf.csv"), format!("\u{feff}{}", text.replace('\n', "\r\n"))).unwrap();
    let model = |data: &str| {
        succeed(
            d,
            &["fit", data, "--target", "price", "-q", "--method", "mean-field", "--set", "epochs=3", "--out", "m"],
        );
        std::fs::read(d.join("m")).unwrap()
    };
    let plain = model("houses.csv");
    for data in ["semicolon.csv", "comma.csv", "tab.tsv", "crlf.csv"] {
        assert!(model(data) == plain, "{data}");
    }
}

#[test]
fn predictions_stay_beside_their_rows() {
    let dir = folder();
    let d = dir.path();
    succeed(
        d,
        &[
            "fit",
            "houses.csv",
            "--target",
            "price",
            "--missing",
            "drop",
            "-q",
            "--method",
            "mean-field",
            "--set",
            "epochs=2",
            "--out",
            "m",
        ],
    );
    let rows = "size,age,district,garden\n50,3,east,true\n,4,east,true\n60,5,north,false\n";
    std::fs::write(d.join("gap.csv"), rows).unwrap();
    let text = succeed(d, &["predict", "m", "gap.csv"]);
    let lines: Vec<&str> = text.stdout.lines().collect();
    assert_eq!((lines.len(), lines[2]), (4, ",,,,,"));
    assert!(text.stderr.contains("1 row with missing values"), "{}", text.stderr);
    let json = succeed(d, &["predict", "m", "gap.csv", "--json", "-q"]).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["rows"][1]["mean"].is_null() && json["rows"][2]["mean"].is_f64());
}

#[test]
fn numbers_that_look_like_classes_get_a_note() {
    let dir = folder();
    let rows: String = (0..30).map(|i| format!("{i},{}\n", i % 3)).collect();
    std::fs::write(dir.path().join("k.csv"), format!("x,k\n{rows}")).unwrap();
    let fit = ["fit", "k.csv", "--target", "k", "--method", "mean-field", "--set", "epochs=1"];
    let said = |more: &[&str]| succeed(dir.path(), &[&fit[..], more].concat()).stderr;
    assert!(said(&[]).contains("--task classification"));
    assert_eq!(said(&["--task", "classification"]) + &said(&["--task", "regression"]) + &said(&["-q"]), "");
}

#[test]
fn numbers_of_any_size_come_back_in_their_unit() {
    let dir = folder();
    for unit in ["e-60", "e60"] {
        let rows: String = (1..20).map(|i| format!("{i}{unit},{}{unit}\n", i * i % 7)).collect();
        std::fs::write(dir.path().join("u.csv"), format!("x,y\n{rows}")).unwrap();
        succeed(
            dir.path(),
            &["fit", "u.csv", "--target", "y", "-q", "--method", "mean-field", "--set", "epochs=2", "--out", "m"],
        );
        let text = succeed(dir.path(), &["predict", "m", "u.csv"]).stdout;
        for cell in text.lines().skip(1).flat_map(|l| l.split(',')) {
            let v: f64 = cell.parse().unwrap();
            let scale: f64 = format!("1{unit}").parse().unwrap();
            assert!(v != 0.0 && v.abs() < 100.0 * scale && cell.len() < 30, "{cell}");
        }
    }
}

/// A small spread around a large number: the interval must not collapse to one number.
#[test]
fn a_large_mean_does_not_swallow_the_interval() {
    let dir = folder();
    let rows: String = (0..40).map(|i| format!("{i},{}\n", 1_700_000_000 + i * 7 % 11)).collect();
    std::fs::write(dir.path().join("t.csv"), format!("x,time\n{rows}")).unwrap();
    succeed(
        dir.path(),
        &["fit", "t.csv", "--target", "time", "-q", "--method", "mean-field", "--set", "epochs=50", "--out", "m"],
    );
    for line in succeed(dir.path(), &["predict", "m", "t.csv"]).stdout.lines().skip(1) {
        let v: Vec<f64> = line.split(',').map(|c| c.parse().unwrap()).collect();
        let (mean, std, lower, upper) = (v[0], v[1], v[4], v[5]);
        assert!(lower < mean && mean < upper && upper - lower < 20.0 * std, "{line}");
    }
}

/// Counts far from one: the network starts at the usual rate, so the mean is found although weights are small by their prior.
#[test]
fn large_counts_are_found() {
    let dir = folder();
    let rows: String = (0..60).map(|i| format!("{},{}\n", i % 10, 900 + 20 * (i % 10) + i % 7)).collect();
    std::fs::write(dir.path().join("c.csv"), format!("x,visits\n{rows}")).unwrap();
    let fit = [
        "fit",
        "c.csv",
        "--target",
        "visits",
        "--task",
        "count",
        "-q",
        "--network",
        "8",
        "--method",
        "mean-field",
        "--set",
        "epochs=1000",
        "--out",
        "m",
    ];
    succeed(dir.path(), &fit);
    let scores: Value =
        serde_json::from_str(&succeed(dir.path(), &["evaluate", "m", "c.csv", "--json"]).stdout).unwrap();
    // A Poisson count of 990 has a standard deviation of 31; the rows are far closer to their line than that.
    assert!(scores["rmse"].as_f64().unwrap() < 31.0, "{scores}");
}
