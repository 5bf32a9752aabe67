//! Count models at inputs far outside the training range: predict and evaluate return, and say what cannot be told.

use crate::common::{folder, program, succeed};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Standard output and error of a run that ends within two minutes; without bounded steps it never does.
fn returns(dir: &Path, args: &[&str]) -> (String, String) {
    let mut child = program(dir, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("posterior {} does not return", args.join(" "));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "posterior {}\n{err}", args.join(" "));
    (out, err)
}

#[test]
fn inputs_far_outside_the_training_range() {
    let dir = folder();
    let d = dir.path();
    let row = |i: i32| format!("{},{}\n", f64::from(i) / 10.0, (0.1 * f64::from(i)).exp().round());
    std::fs::write(d.join("counts.csv"), format!("x,n\n{}", (0..40).map(row).collect::<String>())).unwrap();
    let fit = ["fit", "counts.csv", "--target", "n", "--task", "count", "--network", "linear"];
    let method = ["--method", "mean-field", "--set", "epochs=200", "--quiet", "--out", "m"];
    succeed(d, &[&fit[..], &method[..]].concat());
    // The second row has a rate of about e⁴⁰, beyond 2⁵³; the third one beyond all numbers.
    std::fs::write(d.join("far.csv"), "x,n\n2,7\n40,9\n1e9,5\n").unwrap();
    let (out, err) = returns(d, &["predict", "m", "far.csv", "--json"]);
    let rows: Value = serde_json::from_str(&out).unwrap();
    let upper = |i: usize| rows["rows"][i]["upper"].as_f64();
    assert!(upper(0).is_some_and(|u| u < 100.0) && upper(1).is_some_and(|u| u > 1e9), "{out}");
    assert_eq!(upper(2), None, "{out}");
    assert!(err.contains("1 of 3 rows have predictions too large to be told"), "{err}");
    let (out, _) = returns(d, &["evaluate", "m", "far.csv", "--json"]);
    serde_json::from_str::<Value>(&out).unwrap();
}
