//! The fuzzer finds what is planted, and finds nothing in a short run of every target; the corpus is what it should be.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus")
}

fn fuzz(args: &[&str], failures: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posterior-bench"));
    command.arg("fuzz").args(args).arg("--corpus").arg(corpus()).arg("--failures").arg(failures);
    command.output().unwrap()
}

#[test]
fn every_kind_of_planted_fault_is_found_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    for (target, told) in [
        ("planted-panic", "planted"),
        ("planted-hang", "an execution takes more than 1 seconds"),
        ("planted-memory", "memory allocation of 1073741824 bytes failed"),
        ("planted-abort", "signal"),
        ("planted-wrong", "a planted wrong answer"),
    ] {
        let run = fuzz(&["--target", target, "--executions", "3000", "--seconds", "1"], folder.path());
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        assert_eq!(run.status.code(), Some(1), "{target}: {said}");
        assert!(said.contains("FAILURE") && said.contains(told) && said.contains("--replay"), "{target}: {said}");
        let kept = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path());
        let kept: Vec<PathBuf> = kept.filter(|p| p.to_string_lossy().contains(target)).collect();
        assert!(kept.len() == 1 && std::fs::read(&kept[0]).unwrap().contains(&b','), "{target}: {kept:?}");
    }
    let replayed = fuzz(&["--target", "set", "--replay", "Cargo.toml"], folder.path());
    assert!(String::from_utf8_lossy(&replayed.stdout).starts_with("nothing is wrong"));
}

/// 2000 executions each; the same key gives the same inputs, so that this never fails by chance.
#[test]
fn a_short_run_of_every_target_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = fuzz(&["--executions", "2000", "--minutes", "30", "--seconds", "120"], folder.path());
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    let lines: Vec<serde_json::Value> = said.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 7);
    for line in lines {
        assert_eq!(line["executions"], 2000, "{line}");
        // Inputs that all end at the first check would test nothing.
        assert!(line["outcomes"].as_u64().unwrap() > 15 && line["accepted"].as_u64().unwrap() > 20, "{line}");
    }
}

#[test]
fn the_corpus_is_small_and_whole() {
    let mut total = 0;
    for target in std::fs::read_dir(corpus()).unwrap() {
        for seed in std::fs::read_dir(target.unwrap().path()).unwrap() {
            total += seed.unwrap().metadata().unwrap().len();
        }
    }
    assert!(total < 300_000, "{total} bytes");
    // Files that an earlier version wrote stay readable.
    for seed in std::fs::read_dir(corpus().join("model")).unwrap() {
        posterior::artifact::load(&seed.unwrap().path()).unwrap();
    }
}
