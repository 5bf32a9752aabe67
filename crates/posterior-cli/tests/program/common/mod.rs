//! Runs the built program in a folder of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a run gave back.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// The program, with `dir` as its working folder.
pub fn program(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posterior"));
    command.current_dir(dir).args(args).env_remove("RUST_BACKTRACE");
    command
}

pub fn run(dir: &Path, args: &[&str]) -> Run {
    let Output { status, stdout, stderr } = program(dir, args).output().unwrap();
    Run { code: status.code(), stdout: String::from_utf8(stdout).unwrap(), stderr: String::from_utf8(stderr).unwrap() }
}

/// Runs, and insists on success.
pub fn succeed(dir: &Path, args: &[&str]) -> Run {
    let run = run(dir, args);
    assert_eq!(run.code, Some(0), "posterior {}\n{}", args.join(" "), run.stderr);
    run
}

/// A file kept beside the tests.
pub fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// A folder with both data files in it.
pub fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["houses.csv", "birds.csv"] {
        std::fs::copy(kept("data").join(name), dir.path().join(name)).unwrap();
    }
    dir
}

/// Every file below a folder with its bytes.
#[allow(dead_code)] // not every test file needs it
pub fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// The file of a small mean-field fit to one of the kept data files.
pub fn small_model(data: &str, target: &str) -> Vec<u8> {
    let dir = folder();
    let small = ["--network", "4", "--method", "mean-field", "--set", "epochs=2", "--out", "m"];
    succeed(dir.path(), &[&["fit", data, "--target", target], &small[..]].concat());
    std::fs::read(dir.path().join("m")).unwrap()
}
