//! `posterior-bench fuzz`: hostile input for every reader, without an instrumented compiler.
//!
//! Every target runs in a process of its own, so that an abort or a hang is a finding like a panic. A failure is kept as a file beside the line that
//! replays it, and the exit code is 1.

mod mutate;
mod run;
mod seeds;
mod structure;
mod targets;

use run::{Plan, input_path, number_path};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use targets::{PLANTED, TARGETS, Target};

const USAGE: &str = "usage: posterior-bench fuzz [--target NAME] [--minutes N] [--executions N] [--seconds N] [--jobs N] [--seed N] [--corpus FOLDER] \
                     [--failures FOLDER] [--keep-going N] [--replay FILE] [--write-corpus]";

struct Options {
    target: Option<&'static Target>,
    minutes: f64,
    executions: u64,
    jobs: usize,
    seed: u64,
    corpus: PathBuf,
    failures: PathBuf,
    /// Failures of a target after which it is given up.
    keep_going: usize,
    replay: Option<PathBuf>,
    write_corpus: bool,
    /// In a child: its folder, and the first execution.
    child: Option<(PathBuf, u64)>,
    seconds: u64,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options {
            target: None,
            minutes: 1.0,
            executions: u64::MAX,
            jobs: 2,
            seed: 0,
            corpus: "fuzz/corpus".into(),
            failures: "fuzz/failures".into(),
            keep_going: 1,
            replay: None,
            write_corpus: false,
            child: None,
            seconds: run::SECONDS,
        };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            if flag == "--write-corpus" {
                options.write_corpus = true;
                continue;
            }
            let value = args.next().ok_or_else(|| format!("{flag} needs a value\n{USAGE}"))?;
            let wrong = |e: &dyn std::fmt::Display| format!("{flag} {value}: {e}");
            match flag.as_str() {
                "--target" => {
                    let names = || TARGETS.iter().map(|t| format!("{} ({})", t.name, t.summary)).collect::<Vec<_>>();
                    let found = TARGETS.iter().chain(PLANTED).find(|t| t.name == value);
                    options.target = Some(found.ok_or_else(|| wrong(&format!("it is one of {}", names().join(", "))))?);
                }
                "--minutes" => options.minutes = value.parse().map_err(|e| wrong(&e))?,
                "--executions" => options.executions = value.parse().map_err(|e| wrong(&e))?,
                "--jobs" => options.jobs = value.parse().map_err(|e| wrong(&e))?,
                "--seconds" => options.seconds = value.parse().map_err(|e| wrong(&e))?,
                "--seed" => options.seed = value.parse().map_err(|e| wrong(&e))?,
                "--keep-going" => options.keep_going = value.parse().map_err(|e| wrong(&e))?,
                "--corpus" => options.corpus = value.into(),
                "--failures" => options.failures = value.into(),
                "--replay" => options.replay = Some(value.into()),
                "--child" => {
                    let (first, work) = value.split_once(':').ok_or_else(|| wrong(&"FIRST:FOLDER"))?;
                    options.child = Some((work.into(), first.parse().map_err(|e| wrong(&e))?));
                }
                _ => return Err(format!("{flag} is unknown\n{USAGE}")),
            }
        }
        if !(options.minutes >= 0.0 && options.minutes < 1e6) {
            return Err(format!("--minutes is from 0 to 1e6\n{USAGE}"));
        }
        Ok(options)
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(60.0 * self.minutes)
    }
}

pub fn run(args: &[String]) -> ExitCode {
    let done = Options::parse(args).and_then(|options| match (&options.child, &options.replay) {
        _ if options.write_corpus => seeds::write(&options.corpus).map(|()| true).map_err(|e| e.to_string()),
        (Some((work, first)), _) => child(&options, work, *first).map(|()| true),
        (_, Some(file)) => replay(&options, file),
        _ => parent(&options),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

/// One file through one target, bounds and all; panics are told in full.
fn replay(options: &Options, file: &Path) -> Result<bool, String> {
    let target = options.target.ok_or("--replay needs --target NAME")?;
    let input = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    match run::execute(target, &input, file) {
        Ok(word) => println!("nothing is wrong: {word}"),
        Err(e) => println!("failure: {e}"),
    }
    Ok(true)
}

fn child(options: &Options, work: &Path, first: u64) -> Result<(), String> {
    let target = options.target.ok_or("a child has a target")?;
    let plan = Plan {
        corpus: options.corpus.clone(),
        work: work.to_owned(),
        seed: options.seed,
        first,
        executions: options.executions,
        time: options.time(),
        seconds: options.seconds,
    };
    match run::run(target, &plan) {
        Ok(line) => println!("{line}"),
        Err(e) => {
            eprintln!("{}: {e}", target.name);
            std::process::exit(1);
        }
    }
    Ok(())
}

/// Children for the targets, some at a time; whether none failed.
fn parent(options: &Options) -> Result<bool, String> {
    let targets: Vec<&'static Target> = options.target.map_or_else(|| TARGETS.iter().collect(), |t| vec![t]);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = std::env::temp_dir().join(format!("posterior-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    let whole = std::thread::scope(|scope| {
        let worker = || -> Result<bool, String> {
            let mut whole = true;
            while let Some(target) = targets.get(next.fetch_add(1, std::sync::atomic::Ordering::SeqCst)) {
                whole &= supervise(target, options, &work)?;
            }
            Ok(whole)
        };
        let workers: Vec<_> = (0..options.jobs.clamp(1, targets.len())).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .map(|w| w.join().map_err(|_| "a worker failed".to_owned())?)
            .try_fold(true, |a, b| Ok(a & b?))
    });
    let _ = std::fs::remove_dir_all(&work);
    whole
}

/// Runs a target to its end; after a failure, where so asked, from the next execution on.
fn supervise(target: &Target, options: &Options, work: &Path) -> Result<bool, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let (start, mut first, mut failures) = (Instant::now(), 0u64, 0);
    loop {
        let left = options.time().saturating_sub(start.elapsed()).as_secs_f64() / 60.0;
        let mut command = Command::new(&program);
        command.args(["fuzz", "--target", target.name, "--child", &format!("{first}:{}", work.display())]);
        command.args(["--seed", &options.seed.to_string(), "--minutes", &left.to_string()]);
        command.args(["--executions", &options.executions.saturating_sub(first).to_string()]);
        command.args(["--seconds", &options.seconds.to_string()]);
        command.arg("--corpus").arg(&options.corpus);
        // One thread does everything: an execution is the same each time, and two targets fit on two cores.
        command.env("RAYON_NUM_THREADS", "1").stdin(Stdio::null());
        let done = command.output().map_err(|e| e.to_string())?;
        print!("{}", String::from_utf8_lossy(&done.stdout));
        if done.status.success() {
            return Ok(failures == 0);
        }
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        let number = std::fs::read(number_path(work, target.name)).unwrap_or_default();
        let Some(number) = number.first_chunk().map(|n| u64::from_le_bytes(*n)) else {
            return Err(format!("{} did not start: {told}", target.name));
        };
        let kept = options.failures.join(format!("{}-{}-{number}", target.name, options.seed));
        std::fs::create_dir_all(&options.failures).map_err(|e| format!("{}: {e}", options.failures.display()))?;
        std::fs::copy(input_path(work, target.name), &kept).map_err(|e| format!("{}: {e}", kept.display()))?;
        println!("FAILURE of {} in execution {number} ({}): {}", target.name, done.status, told.trim());
        println!("  replay: posterior-bench fuzz --target {} --replay {}", target.name, kept.display());
        (first, failures) = (number + 1, failures + 1);
        if failures >= options.keep_going || first >= options.executions || start.elapsed() >= options.time() {
            return Ok(false);
        }
    }
}
