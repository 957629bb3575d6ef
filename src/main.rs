//! The program: reads the command line, runs a command, turns its result into an exit code.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
