//! Where results go: devices, pipes, links, permissions and inputs survive it, half-written files do not.
#![cfg(unix)]

use crate::common::{contents, folder, program, run, small_model, succeed};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A folder with data and a model `m.st`.
fn with_model() -> tempfile::TempDir {
    static MODEL: OnceLock<Vec<u8>> = OnceLock::new();
    let dir = folder();
    fs::write(dir.path().join("m.st"), MODEL.get_or_init(|| small_model("houses.csv", "price"))).unwrap();
    dir
}

const PREDICT: [&str; 4] = ["predict", "m.st", "houses.csv", "--out"];

#[test]
fn a_pipe_is_written_to_and_stays() {
    let dir = with_model();
    let expected = succeed(dir.path(), &PREDICT[..3]).stdout;
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    succeed(dir.path(), &[&PREDICT[..], &["pipe"]].concat());
    assert_eq!(reader.join().unwrap(), expected);
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn standard_output_by_name_is_standard_output() {
    let dir = with_model();
    let expected = succeed(dir.path(), &PREDICT[..3]).stdout;
    symlink("/proc/self/fd/1", dir.path().join("out")).unwrap();
    // A pipe behind it, and then a file.
    assert_eq!(succeed(dir.path(), &[&PREDICT[..], &["out"]].concat()).stdout, expected);
    let file = fs::File::create(dir.path().join("file")).unwrap();
    let inode = file.metadata().unwrap().ino();
    let status = program(dir.path(), &[&PREDICT[..], &["out"]].concat()).stdout(Stdio::from(file)).status().unwrap();
    assert!(status.success());
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), expected);
    assert_eq!(fs::metadata(dir.path().join("file")).unwrap().ino(), inode);
    assert!(fs::symlink_metadata(dir.path().join("out")).unwrap().is_symlink());
}

#[test]
fn links_and_permissions_stay() {
    let dir = with_model();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("results")).unwrap();
    fs::write(at("results/p.csv"), "older").unwrap();
    fs::set_permissions(at("results/p.csv"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("results/p.csv", at("p.csv")).unwrap();
    let expected = succeed(dir.path(), &PREDICT[..3]).stdout;
    succeed(dir.path(), &[&PREDICT[..], &["p.csv"]].concat());
    assert!(fs::symlink_metadata(at("p.csv")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(at("results/p.csv")).unwrap(), expected);
    assert_eq!(fs::metadata(at("results/p.csv")).unwrap().mode() & 0o7777, 0o640);
    let refused = run(dir.path(), &[&PREDICT[..], &["results"]].concat());
    assert!(refused.code == Some(2) && refused.stderr.contains("it is a folder"), "{}", refused.stderr);
}

#[test]
fn an_input_is_never_overwritten() {
    let dir = with_model();
    let at = |name: &str| dir.path().join(name);
    symlink("houses.csv", at("soft.csv")).unwrap();
    fs::hard_link(at("houses.csv"), at("hard.csv")).unwrap();
    fs::write(at("c.toml"), "[method]\nname = \"map\"\nepochs = 1\n").unwrap();
    fs::write(at("rows.txt"), "0 1\n").unwrap();
    let images = [&[0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1][..], &[1, 2, 3, 4]].concat();
    fs::write(at("t-images-idx3-ubyte"), images).unwrap();
    fs::write(at("t-labels-idx1-ubyte"), [0, 0, 8, 1, 0, 0, 0, 4, 0, 1, 0, 1]).unwrap();
    let before = contents(dir.path());
    let (fit, price) = (["fit", "houses.csv"], ["--target", "price"]);
    let small = ["--method", "map", "--set", "epochs=1"];
    let compare = ["compare", "houses.csv", "--methods", "map", "--set", "epochs=1", "--state", "s"];
    let cases: Vec<Vec<&str>> = vec![
        [&PREDICT[..], &["houses.csv"]].concat(),
        [&PREDICT[..], &["./houses.csv"]].concat(),
        [&PREDICT[..], &["soft.csv"]].concat(),
        [&PREDICT[..], &["hard.csv"]].concat(),
        [&PREDICT[..], &["m.st"]].concat(),
        [&fit[..], &price, &small, &["--out", "houses.csv"]].concat(),
        [&fit[..], &price, &["--config", "c.toml", "--out", "c.toml"]].concat(),
        [&fit[..], &["--start", "m.st", "--method", "map", "--out", "m.st"]].concat(),
        [&["fit", "t-images-idx3-ubyte"], &small[..], &["--out", "t-labels-idx1-ubyte"]].concat(),
        vec!["evaluate", "m.st", "houses.csv", "--report", "houses.csv"],
        vec!["evaluate", "m.st", "houses.csv", "--report", "m.st"],
        vec!["draws", "m.st", "--out", "m.st"],
        vec!["compress", "m.st", "--out", "m.st"],
        vec!["compress", "m.st", "--data", "houses.csv", "--out", "houses.csv"],
        vec!["calibrate", "m.st", "houses.csv", "--out", "houses.csv"],
        vec!["ood", "m.st", "houses.csv", "hard.csv", "--report", "hard.csv"],
        vec!["attack", "m.st", "houses.csv", "--epsilon", "0.1", "--out", "houses.csv"],
        [&compare[..], &price, &["--report", "houses.csv"]].concat(),
        [&compare[..], &price, &["--test-rows", "rows.txt", "--report", "rows.txt"]].concat(),
        [&["select", "houses.csv", "--over", "width=2,3"], &price[..], &["--out", "houses.csv"]].concat(),
        [&["prior", "houses.csv"], &price[..], &["--out", "houses.csv"]].concat(),
        [&["import", "m.st", "--data", "houses.csv"], &price[..], &["--out", "m.st"]].concat(),
    ];
    for args in cases {
        let done = run(dir.path(), &args);
        assert_eq!(done.code, Some(2), "posterior {}\n{}", args.join(" "), done.stderr);
        assert!(done.stderr.contains("it is an input of this command"), "{}\n{}", args.join(" "), done.stderr);
        assert!(contents(dir.path()) == before, "files were touched by posterior {}", args.join(" "));
    }
    // A calibrated model takes the place of the model it was made of.
    succeed(dir.path(), &["calibrate", "m.st", "houses.csv", "--out", "m.st", "-q"]);
}

fn half_written(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    files.filter(|p| p.to_str().unwrap().ends_with(".part")).collect()
}

/// Starts to write a large file, and sends a signal once there is a part of it. How the program ended.
fn interrupted(dir: &Path, signal: &str) -> std::process::ExitStatus {
    let args = ["draws", "m.st", "--draws", "3000000", "--out", "d.parquet"];
    let mut writing = program(dir, &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let written = || half_written(dir).iter().any(|p| fs::metadata(p).is_ok_and(|m| m.len() > 0));
    while !written() {
        assert!(begun.elapsed() < Duration::from_secs(120), "nothing is written");
        if let Some(status) = writing.try_wait().unwrap() {
            let mut said = String::new();
            writing.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("ended with {status} before the signal: {said}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args([signal, &writing.id().to_string()]).status().unwrap().success());
    writing.wait().unwrap()
}

#[test]
fn what_a_killed_program_leaves_is_removed_by_the_next_write() {
    let dir = with_model();
    assert!(interrupted(dir.path(), "-KILL").code().is_none());
    assert_eq!(half_written(dir.path()).len(), 1);
    fs::write(dir.path().join(".mine.part"), "of somebody else").unwrap();
    succeed(dir.path(), &[&PREDICT[..], &["p.csv"]].concat());
    assert_eq!(half_written(dir.path()), [dir.path().join(".mine.part")]);
}

#[test]
fn an_interrupted_program_removes_what_it_was_writing() {
    let dir = with_model();
    assert_eq!(interrupted(dir.path(), "-INT").code(), Some(130));
    assert!(half_written(dir.path()).is_empty());
    assert!(!dir.path().join("d.parquet").exists());
}
