//! `postrider import`

use std::io::{Write, stderr, stdout};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DONE, FAILED, USAGE, print_error, without_control_characters};

#[derive(Subcommand)]
pub(super) enum Import {
    /// Write a postrider.toml for a Debezium connector with the Outbox Event Router
    ///
    /// The configuration is written to standard output. Standard error gets one line for each
    /// difference: for consumers, for operators, or what is to be filled in. The exit code is 0 if
    /// consumers see the same records, and 1 if they do not. Passwords are not copied.
    Debezium(Debezium),
}

#[derive(Args)]
pub(super) struct Debezium {
    /// A connector's JSON or properties file, Debezium Server's application.properties or variables,
    /// or a Strimzi KafkaConnector; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn import(command: &Import) -> u8 {
    let Import::Debezium(Debezium { file }) = command;
    let import = match crate::import::file(file) {
        Ok(import) => import,
        Err(error) => {
            print_error(&error, None);
            return USAGE;
        }
    };
    let mut stderr = stderr();
    for finding in &import.findings {
        let _ = writeln!(stderr, "{}", without_control_characters(&finding.to_string()));
    }
    // An incomplete file must not look like a complete one.
    if stdout().write_all(import.toml.as_bytes()).and_then(|()| stdout().flush()).is_err() {
        return FAILED;
    }
    if import.changes_records() { FAILED } else { DONE }
}
