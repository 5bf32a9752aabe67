//! The program `posterior`: fits Bayesian neural networks, and says how sure they are.

mod chart;
mod checkpoint;
mod cli;
mod commands;
mod memory;
mod output;
mod page;
mod progress;

pub use memory::{Counting, in_use};

use clap::Parser;
use std::ffi::OsString;

// A program brings its own; the tests of this library are one too.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs the program with these arguments, its own name first, and returns its exit code. Help and version are printed and end the process.
///
/// A binary that calls it should have [`Counting`] as its allocator: the limit on memory and the figures of a comparison come from there.
pub fn main_with(args: Vec<OsString>) -> u8 {
    let cli = match cli::Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(e) if cli::flags::is_help(&e) => e.exit(),
        Err(e) => {
            let args: Vec<String> = args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
            output::error(&cli::flags::sentence(&e, &args).into(), cli::flags::wants_json(args.into_iter()));
            return 2;
        }
    };
    let json = cli.command.common().json;
    match run(cli) {
        Ok(()) => 0,
        Err(e) if is_broken_pipe(&e) => 0,
        Err(e) if e.is::<commands::AnswerIsNo>() => 1,
        Err(e) => {
            output::error(&e, json);
            2
        }
    }
}

fn run(cli: cli::Cli) -> anyhow::Result<()> {
    posterior::math::simd::Instructions::from_env()?;
    let common = cli.command.common();
    if let Some(bytes) = common.memory {
        posterior::memory::set_limit(bytes);
    }
    posterior::memory::set_in_use(memory::in_use);
    memory::stop_beyond(posterior::memory::Budget::current().limit);
    progress::catch_interrupt();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(common.threads.unwrap_or(0)).build()?;
    pool.install(|| commands::run(&cli.command))
}

/// Whoever reads our output has had enough: `posterior predict … | head` is no error.
fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().any(|c| c.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe))
}
