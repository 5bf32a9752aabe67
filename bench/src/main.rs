//! Benchmarks: `steps`, `predict`, `members`, `laplace` and `gp [threads]`, `rng`, `sample METHOD`, `gap METHOD`, `published NAME`; and `fuzz`.
//!
//! The first five print `RES <who> <workload> <min µs> <median µs> <p90 µs> <samples>`, the lines that the peers'
//! scripts print too, so that one script can run them in turn. `WL=` filters workloads, `BUDGET=` sets seconds per workload.
//! `sample`, `gap` and `published` print one JSON line per result.

mod fuzz;
mod gap;
mod gp;
mod laplace;
mod members;
mod memory;
mod predict;
mod published;
mod rng;
mod sample;
mod steps;
mod timing;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::Bounded = memory::Bounded;

const USAGE: &str = "usage: posterior-bench steps | predict | members | laplace | gp [threads] | rng | sample METHOD [key=value …] | gap METHOD [key=value …] | published NAME | fuzz";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let threads = || args.get(1).map_or(Ok(2), |t| t.parse::<usize>());
    let run = |job: fn(usize)| match threads() {
        Ok(threads) if threads > 0 => match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
            Ok(pool) => {
                pool.install(|| job(threads));
                ExitCode::SUCCESS
            }
            Err(e) => fail(&e.to_string()),
        },
        _ => fail(USAGE),
    };
    match args.first().map(String::as_str) {
        Some("steps") => run(steps::run),
        Some("predict") => run(predict::run),
        Some("members") => run(members::run),
        Some("laplace") => run(laplace::run),
        Some("gp") => run(gp::run),
        Some("rng") => run(rng::run),
        Some("sample") => sample::run(&args[1..]),
        Some("fuzz") => fuzz::run(&args[1..]),
        Some("gap") => gap::run(&args[1..]),
        Some("published") => match args.get(1) {
            Some(name) => published::run(name, &args[2..]),
            None => fail(&published::usage()),
        },
        _ => fail(USAGE),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}
