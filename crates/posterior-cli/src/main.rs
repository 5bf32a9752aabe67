//! The binary: arguments in, exit code out.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: posterior_cli::Counting = posterior_cli::Counting;

fn main() -> ExitCode {
    ExitCode::from(posterior_cli::main_with(std::env::args_os().collect()))
}
