//! `cargo xtask test`: every test of the workspace, and, where Python 3.10 or newer is there, those of the Python package in a fresh virtual environment.
//!
//! The wheel is built with the profile of the tests, so that what `cargo test` has compiled is used again. What is left out is said at the end, with the reason.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What the tests of the package need; the package itself needs numpy.
const PACKAGES: &[&str] = &["maturin>=1.9,<2", "numpy", "pytest", "scikit-learn>=1.6", "pandas", "polars", "mypy"];
/// Interpreters to try, newest first.
const INTERPRETERS: &[&str] =
    &["python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python3", "python"];
/// Succeeds where an interpreter is new enough.
const NEW_ENOUGH: &str = "import sys, venv; sys.exit(sys.version_info < (3, 10))";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["test"] => rust().and_then(|()| python()),
        ["test", "python"] => python(),
        _ => Err("usage: cargo xtask test [python]".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    eprintln!("$ {command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(e) => Err(format!("{command:?} did not start ({e})")),
    }
}

fn rust() -> Result<(), String> {
    run(Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).args(["test", "--workspace"]))
}

fn python() -> Result<(), String> {
    let fits = |name: &&&str| {
        let output = Command::new(name).args(["-c", NEW_ENOUGH]).output();
        output.is_ok_and(|o| o.status.success())
    };
    let Some(interpreter) = INTERPRETERS.iter().find(fits) else {
        println!(
            "skipped: the tests of the Python package, since there is no Python 3.10 or newer with venv on the path"
        );
        return Ok(());
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned();
    let work = root.join("target/xtask");
    let venv = work.join("venv");
    if venv.exists() {
        fs::remove_dir_all(&venv).map_err(|e| format!("cannot remove {}: {e}", venv.display()))?;
    }
    run(Command::new(interpreter).args(["-m", "venv"]).arg(&venv))?;
    let bin = venv.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let own = |tool: &str| Command::new(bin.join(tool));
    let pip = |args: &[&str]| {
        let mut command = own("python");
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(args);
        command
    };
    if let Err(why) = run(&mut pip(PACKAGES)) {
        println!("skipped: the tests of the Python package, since what they need could not be installed ({why})");
        return Ok(());
    }
    let wheels = work.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(|e| format!("cannot remove {}: {e}", wheels.display()))?;
    }
    run(own("maturin")
        .current_dir(&root)
        .args(["build", "--profile", "dev", "--interpreter"])
        .arg(bin.join("python"))
        .arg("--out")
        .arg(&wheels))?;
    let wheel = wheel(&wheels)?;
    run(pip(&["--no-deps", "--force-reinstall"]).arg(&wheel))?;
    run(own("python").current_dir(&root).args(["-m", "pytest", "-rs", "--durations=5"]))
}

/// The wheel that was built.
fn wheel(folder: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
    let mut wheels = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "whl"));
    wheels.next().ok_or_else(|| format!("there is no wheel in {}", folder.display()))
}
