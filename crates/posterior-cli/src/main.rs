//! The program `posterior`: fits Bayesian neural networks, and says how sure they are.

mod chart;
mod cli;
mod commands;
mod memory;
mod output;
mod page;
mod progress;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) if e.is::<commands::AnswerIsNo>() => ExitCode::from(1),
        Err(e) => {
            output::error(&e);
            ExitCode::from(2)
        }
    }
}

fn run(cli: cli::Cli) -> anyhow::Result<()> {
    posterior::math::simd::Instructions::from_env()?;
    let common = cli.command.common();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(common.threads.unwrap_or(0)).build()?;
    pool.install(|| commands::run(&cli.command))
}

/// Whoever reads our output has had enough: `posterior predict … | head` is no error.
fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().any(|c| c.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe))
}
