//! One target in one process: change a seed, write it down, read it under bounds of time and memory, look at what came of it.
//!
//! Execution i depends on (seed, target, i) and on which inputs were found new before it. An input whose outcome has not been seen yet joins the
//! corpus, so that later mutations start from it: error messages stand in for a measurement of coverage.

use super::mutate::Chance;
use super::targets::Target;
use crate::memory;
use posterior::rng::{Key, Stream};
use serde_json::json;
use std::collections::HashSet;
use std::fs::File;
use std::io::{Seek, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longer than any execution on a busy machine: inputs are at most 64 KiB, and ordinary ones take less than a millisecond.
pub const SECONDS: u64 = 20;
/// Beyond what was held before an execution. The largest seeds need less than 2 MiB.
const BYTES: usize = 256 << 20;
/// Inputs that may join the corpus.
const GROWTH: usize = 2000;

/// What a run of one target is told.
pub struct Plan {
    pub corpus: PathBuf,
    /// Where the input in hand and failures are written.
    pub work: PathBuf,
    pub seed: u64,
    pub first: u64,
    /// Executions, or time if that ends first.
    pub executions: u64,
    pub time: Duration,
    /// Seconds that one execution may take.
    pub seconds: u64,
}

/// Where the input of the execution under way lies.
pub fn input_path(work: &Path, target: &str) -> PathBuf {
    work.join(format!("{target}.input"))
}

/// Where its number stands.
pub fn number_path(work: &Path, target: &str) -> PathBuf {
    work.join(format!("{target}.number"))
}

static PANIC: Mutex<String> = Mutex::new(String::new());

/// One execution: nothing but what must not be is an error.
pub fn execute(target: &Target, input: &[u8], path: &Path) -> Result<String, String> {
    memory::bound(BYTES);
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input, path)));
    memory::unbound();
    match outcome {
        Ok(outcome) => outcome,
        Err(_) => Err(PANIC.lock().map_or_else(|_| "a panic".to_owned(), |p| p.clone())),
    }
}

/// Panics are told by what an execution returns, not on the terminal.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut text) = PANIC.lock() {
            *text = info.to_string().replace('\n', " ");
        }
    }));
}

/// The seeds of a target, in the order of their names.
pub fn corpus(folder: &Path, target: &str) -> std::io::Result<Vec<Vec<u8>>> {
    let mut paths = std::fs::read_dir(folder.join(if target.starts_with("planted") { "set" } else { target }))?
        .map(|e| Ok(e?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().map(std::fs::read).collect()
}

/// Runs; the report as a line of JSON, or the sentence about a failure, whose input lies under [`input_path`].
pub fn run(target: &'static Target, plan: &Plan) -> Result<String, String> {
    let io = |e: std::io::Error| format!("{}: {e}", plan.work.display());
    let mut corpus = corpus(&plan.corpus, target.name).map_err(|e| format!("{}: {e}", plan.corpus.display()))?;
    let seeds = corpus.len();
    let path = input_path(&plan.work, target.name);
    let mut number = File::create(number_path(&plan.work, target.name)).map_err(io)?;
    posterior::memory::set_limit(64 << 20);
    quiet_panics();
    let watch = Watch::start(target.name, plan.seconds);
    let (mut seen, mut accepted, mut slowest) = (HashSet::new(), 0u64, Duration::ZERO);
    let mut run = |i: u64, input: &[u8]| -> Result<bool, String> {
        std::fs::write(&path, input).map_err(io)?;
        number.rewind().and_then(|()| number.write_all(&i.to_le_bytes())).map_err(io)?;
        watch.begin();
        let start = Instant::now();
        let word = execute(target, input, &path)?;
        slowest = slowest.max(start.elapsed());
        watch.end();
        accepted += u64::from(word.contains('+'));
        Ok(seen.insert(word))
    };
    for input in &corpus {
        run(plan.first, input)?;
    }
    let key =
        Key::new(plan.seed).derive(target.name.bytes().fold(0u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into())));
    let start = Instant::now();
    let mut i = plan.first;
    let end = plan.first.saturating_add(plan.executions);
    while i < end && start.elapsed() < plan.time {
        let mut chance = Chance(Stream::new(key.step(i)));
        // Half of the inputs start from the seeds, so that what was found does not crowd them out.
        let from = if chance.once_in(2) { chance.below(seeds) } else { chance.below(corpus.len()) };
        let other = chance.below(corpus.len());
        let mut input = corpus[from].clone();
        (target.change)(&mut input, &corpus[other], &mut chance);
        if run(i, &input)? && corpus.len() < seeds + GROWTH {
            corpus.push(input);
        }
        i += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let line = json!({
        "target": target.name, "executions": i - plan.first, "seconds": (seconds * 10.0).round() / 10.0, "seeds": seeds,
        "grown": corpus.len() - seeds, "outcomes": seen.len(), "accepted": accepted, "slowest_ms": slowest.as_millis() as u64,
    });
    Ok(line.to_string())
}

/// Ends the process when an execution takes too long.
struct Watch {
    since: &'static AtomicU64,
    running: &'static AtomicBool,
    zero: Instant,
}

impl Watch {
    fn start(target: &'static str, seconds: u64) -> Watch {
        static SINCE: AtomicU64 = AtomicU64::new(0);
        static RUNNING: AtomicBool = AtomicBool::new(false);
        let zero = Instant::now();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(200));
                let late = zero.elapsed().as_secs().saturating_sub(SINCE.load(Ordering::SeqCst)) > seconds;
                if late && RUNNING.load(Ordering::SeqCst) {
                    eprintln!("{target}: an execution takes more than {seconds} seconds");
                    std::process::exit(1);
                }
            }
        });
        Watch { since: &SINCE, running: &RUNNING, zero }
    }

    fn begin(&self) {
        self.since.store(self.zero.elapsed().as_secs(), Ordering::SeqCst);
        self.running.store(true, Ordering::SeqCst);
    }

    fn end(&self) {
        self.running.store(false, Ordering::SeqCst);
    }
}
