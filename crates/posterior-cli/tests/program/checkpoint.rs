//! A fit that is killed at a random moment and resumed writes the same model file, bit for bit.

use crate::common::{contents, folder, program, run, succeed};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

/// Long enough to be killed: a second or so in one go.
const FITS: [&[&str]; 5] = [
    &["--method", "mean-field", "--set", "epochs=1500"],
    &["--method", "ensemble", "--set", "members=3", "--set", "epochs=700"],
    &["--method", "swag", "--set", "epochs=700", "--set", "swag_epochs=300"],
    &["--method", "hmc", "--set", "warmup=150", "--set", "draws=150"],
    &["--method", "sgld", "--set", "draws=60", "--set", "warmup=2000"],
];

fn fit<'a>(more: &[&'a str], out: &'a str) -> Vec<&'a str> {
    [&["fit", "houses.csv", "--target", "price", "--network", "8", "--quiet", "--threads", "2", "--out", out], more]
        .concat()
}

/// Starts a fit and kills it after some time. SIGKILL: the program cannot do anything about it.
fn killed(dir: &Path, args: &[&str], after: Duration) {
    let mut child = program(dir, args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn killed_and_resumed_it_writes_the_same_file() {
    // Another moment in every run of the test; what failed is told.
    let mut random = u64::from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos());
    for what in FITS {
        let dir = folder();
        let started = Instant::now();
        succeed(dir.path(), &fit(what, "whole"));
        let whole = std::fs::read(dir.path().join("whole")).unwrap();
        let took = started.elapsed();
        let mut moments = Vec::new();
        // Three times in a row, each time from where the last one came to; then to the end.
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let after = took.mul_f64(0.1 + 0.6 * (random >> 11) as f64 / (1u64 << 53) as f64);
            moments.push(after);
            let from = if dir.path().join("c").exists() { "--resume" } else { "--checkpoint" };
            killed(dir.path(), &[&fit(what, "m")[..], &[from, "c", "--every", "0.02"]].concat(), after);
        }
        let from = if dir.path().join("c").exists() { "--resume" } else { "--checkpoint" };
        succeed(dir.path(), &[&fit(what, "m")[..], &[from, "c"]].concat());
        let resumed = std::fs::read(dir.path().join("m")).unwrap();
        assert!(resumed == whole, "{what:?} took {took:?} and was killed after {moments:?}");
    }
}

/// One sentence, exit code 2, and every file as it was.
fn refused(dir: &Path, args: &[&str], what: &str) {
    let before = contents(dir);
    let run = run(dir, args);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains(what), "{}", run.stderr);
    assert!(contents(dir) == before, "a file changed: posterior {}", args.join(" "));
}

#[test]
fn checkpoints_of_other_fits_and_damaged_ones_are_refused() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    let long = ["--method", "map", "--set", "epochs=200000"];
    let started = Instant::now();
    let mut child = program(dir.path(), &[&fit(&long, "m")[..], &["--checkpoint", "c", "--every", "0"]].concat())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !at("c").exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "no checkpoint is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    child.wait().unwrap();
    // What a process that was killed while writing may leave beside it.
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "part") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let resume = |more: &[&str], file: &str| -> Vec<String> {
        [&fit(more, "m")[..], &["--resume", file]].concat().iter().map(|s| (*s).to_owned()).collect()
    };
    let check = |args: Vec<String>, what: &str| {
        refused(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>(), what);
    };
    let another = "another model, likelihood, prior or method, or other settings";
    check(resume(&["--method", "map", "--set", "epochs=100"], "c"), another);
    check(resume(&["--method", "ml", "--set", "epochs=200000"], "c"), another);
    check(resume(&[&long[..], &["--prior", "laplace"]].concat(), "c"), another);
    check(resume(&[&long[..], &["--seed", "1"]].concat(), "c"), "another seed");
    let rows = std::fs::read_to_string(at("houses.csv")).unwrap();
    std::fs::write(at("fewer.csv"), rows.trim_end().rsplit_once('\n').unwrap().0).unwrap();
    let mut fewer = resume(&long, "c");
    fewer[1] = "fewer.csv".to_owned();
    check(fewer, "other data");
    let bytes = std::fs::read(at("c")).unwrap();
    std::fs::write(at("cut"), &bytes[..bytes.len() - 1000]).unwrap();
    check(resume(&long, "cut"), "cut: the checkpoint is cut short or damaged");
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    std::fs::write(at("flipped"), &flipped).unwrap();
    check(resume(&long, "flipped"), "flipped: the checkpoint is cut short or damaged");
    check(resume(&long, "houses.csv"), "houses.csv: this is not a checkpoint");
    check(resume(&long, "missing"), "cannot read missing");
    // A checkpoint that is needed is not written over; nor is anything else.
    let new = |file: &str| -> Vec<String> {
        [&fit(&long, "m")[..], &["--checkpoint", file]].concat().iter().map(|s| (*s).to_owned()).collect()
    };
    check(new("c"), "c is the checkpoint of a fit that is not done; continue it with --resume c, or remove it");
    check(new("houses.csv"), "houses.csv is there already and is no checkpoint");
    check(new("m"), "the checkpoint and the model cannot be the same file");
    check(new("missing/c"), "cannot write missing/c");
    let mut every = resume(&long, "c");
    every.truncate(every.len() - 2);
    every.extend(["--every".to_owned(), "5".to_owned()]);
    check(every, "--every goes with --checkpoint or --resume");
}

#[test]
fn at_its_end_a_checkpoint_gives_the_model_at_once_and_may_be_written_over() {
    let dir = folder();
    let what = ["--method", "map", "--set", "epochs=50"];
    succeed(dir.path(), &[&fit(&what, "a")[..], &["--checkpoint", "c"]].concat());
    succeed(dir.path(), &[&fit(&what, "b")[..], &["--resume", "c"]].concat());
    succeed(dir.path(), &[&fit(&what, "d")[..], &["--checkpoint", "c"]].concat());
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert!(read("a") == read("b") && read("a") == read("d"));
}
