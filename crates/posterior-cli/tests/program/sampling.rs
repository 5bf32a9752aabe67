//! Samplers through the program: chains are told of, faults end with 1 and keep their draws, Ctrl-C keeps what was drawn.

use crate::common::{folder, run, succeed};
use serde_json::Value;
use std::path::Path;

const FIT: [&str; 9] = ["fit", "houses.csv", "--target", "price", "--network", "4", "--json", "--quiet", "--out"];

fn settings<'a>(all: &[&'a str]) -> Vec<&'a str> {
    all.iter().flat_map(|s| ["--set", *s]).collect()
}

#[test]
fn a_sampled_model_is_a_model_like_any_other() {
    let dir = folder();
    let d = dir.path();
    let short = settings(&["warmup=100", "draws=50", "chains=2"]);
    let args = [&FIT[..], &["hmc.st", "--method", "hmc"], &short].concat();
    let told: Value = serde_json::from_str(&succeed(d, &args).stdout).unwrap();
    let chains = &told["chains"];
    assert_eq!((chains["draws"].clone(), chains["incomplete"].clone()), (serde_json::json!([50, 50]), false.into()));
    assert!(chains["fault"].is_null() && chains["gradients"].as_u64().unwrap() > 300, "{told}");
    // All hundred draws, and not more.
    succeed(d, &["predict", "hmc.st", "houses.csv", "--quiet", "--draws", "1000"]);
    assert!(succeed(d, &["inspect", "hmc.st"]).stdout.contains("draws"));
    // From there on.
    let start = ["fit", "houses.csv", "--start", "hmc.st", "--json", "--quiet", "--out"];
    succeed(d, &[&start[..], &["nuts.st", "--method", "nuts"], &short].concat());
    succeed(d, &[&start[..], &["map.st", "--method", "map", "--set", "epochs=5"]].concat());
    let refused = run(d, &[&start[..], &["no.st", "--method", "laplace"]].concat());
    assert!(refused.code == Some(2) && refused.stderr.contains("has no point to start from"), "{}", refused.stderr);
    let refused = run(d, &[&start[..], &["no.st", "--network", "5"]].concat());
    assert!(refused.code == Some(2) && refused.stderr.contains("does not go with --start"), "{}", refused.stderr);
}

/// Method, noise and prior that nobody has named are told of, and no others.
#[test]
fn what_is_chosen_for_the_user_is_said() {
    let dir = folder();
    let short = settings(&["warmup=40", "draws=10", "chains=2"]);
    let told = |data: [&str; 2], more: &[&str]| {
        let fit = ["fit", data[0], "--target", data[1], "--network", "4", "--out", "m.st"];
        succeed(dir.path(), &[&fit[..], more, &short].concat()).stdout
    };
    let chosen = |text: &str| {
        ["the default with", "student-t, the default", "chosen by marginal likelihood"].map(|w| text.contains(w))
    };
    let (houses, birds) = (["houses.csv", "price"], ["birds.csv", "species"]);
    assert_eq!(chosen(&told(houses, &[])), [true, true, true]);
    assert_eq!(chosen(&told(houses, &["--likelihood", "gaussian"])), [true, false, true]);
    assert_eq!(chosen(&told(houses, &["--method", "hmc"])), [false, false, false]);
    assert_eq!(chosen(&told(birds, &[])), [true, false, true]);
}

#[test]
fn a_fault_is_named_and_ends_with_1_and_the_draws_are_kept() {
    let dir = folder();
    let d = dir.path();
    // Steps as long as the prior is wide, and no warm-up to adapt them in.
    let none = settings(&["warmup=0", "draws=3", "thin=1", "chains=1"]);
    let fit = ["fit", "houses.csv", "--target", "price", "--network", "50,50", "--method", "metropolis", "--quiet"];
    let stuck = run(d, &[&fit[..], &["--out", "stuck.st"], &none].concat());
    assert_eq!(stuck.code, Some(1), "{}", stuck.stderr);
    assert!(stuck.stderr.contains("no move of chain 1 was accepted"), "{}", stuck.stderr);
    succeed(d, &["inspect", "stuck.st"]);
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_was_drawn() {
    stopped_by("-INT");
}

/// Service managers and batch systems end a program so.
#[cfg(unix)]
#[test]
fn a_termination_keeps_what_was_drawn() {
    stopped_by("-TERM");
}

#[cfg(unix)]
fn stopped_by(signal: &str) {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    let dir = folder();
    let d = dir.path();
    let long = settings(&["warmup=20", "draws=100000000", "chains=2"]);
    let args = [&FIT[..], &["stopped.st", "--method", "metropolis"], &long].concat();
    let mut child = Command::new(env!("CARGO_BIN_EXE_posterior"))
        .args(&args)
        .current_dir(d)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it does not stop");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(told.contains("stopped before the end; the model holds the"), "{told}");
    assert!(Path::new(&d.join("stopped.st")).exists());
    let scores: Value =
        serde_json::from_str(&succeed(d, &["evaluate", "stopped.st", "houses.csv", "--json"]).stdout).unwrap();
    assert_eq!(scores["n"], 60);
}
