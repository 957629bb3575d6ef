//! The command line. One file per command; what a command does is in the library.

mod dead;
mod filters;
mod import;
mod logging;
mod migrate;
mod recover;
mod replay;
mod run;
mod tables;
mod teardown;

use std::fmt::Display;
use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::config::keys::{self, Key};
use crate::config::{Config, ConfigError, Flags, Inputs, Needs, looks_secret};
use clap::{Args, Parser, Subcommand};

use self::tables::Tables;

/// Done.
const DONE: u8 = 0;
/// It ran, and something failed or was found.
const FAILED: u8 = 1;
/// Bad usage or configuration.
const USAGE: u8 = 2;
/// An operator is needed.
const OPERATOR: u8 = 3;
#[cfg(test)]
pub(crate) const EXIT_CODES: [u8; 4] = [DONE, FAILED, USAGE, OPERATOR];

/// Publishes a Postgres transactional outbox to Kafka from the write-ahead log.
// No `Debug` here or below: --database-url may contain a password.
#[derive(Parser)]
#[command(name = "postrider", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    tables: Tables,
}

#[derive(Subcommand)]
enum Command {
    /// Read the slot and publish, until stopped
    Run(run::Run),
    /// Create what is missing: schema, outbox tables, publication, slot
    Migrate(migrate::Migrate),
    /// Drop the slot, the publication and schema postrider; a slot that nobody reads fills the disk
    Teardown(teardown::Teardown),
    /// List, show, discard or take over events that could not be published
    #[command(subcommand)]
    Dead(dead::Dead),
    /// Publish dead events again
    Replay(replay::Replay),
    /// Recreate a lost slot, and publish rows that may be missing
    Recover(recover::Recover),
    /// Turn the configuration of another tool into a postrider.toml; needs no settings
    #[command(subcommand)]
    Import(import::Import),
}

impl Command {
    fn needs(&self) -> Needs {
        match self {
            Command::Run(_) => Needs::PostgresAndKafka,
            Command::Migrate(migrate) => migrate.needs(),
            Command::Teardown(_) | Command::Dead(_) => Needs::Postgres,
            Command::Import(_) => Needs::Nothing,
            Command::Replay(replay) => replay.needs(),
            Command::Recover(recover) => recover.needs(),
        }
    }

    /// The outbox tables that were named after the command.
    fn tables(&mut self) -> Tables {
        match self {
            Command::Run(run) => std::mem::take(&mut run.tables),
            Command::Migrate(migrate) => std::mem::take(&mut migrate.tables),
            Command::Recover(recover) => std::mem::take(&mut recover.tables),
            Command::Teardown(teardown) => std::mem::take(&mut teardown.outboxes),
            // Their --table is a filter.
            Command::Dead(_) | Command::Replay(_) | Command::Import(_) => Tables::default(),
        }
    }

    fn execute(self, config: Config) -> u8 {
        match self {
            Command::Import(command) => import::import(&command),
            Command::Run(flags) => run::run(config, &flags),
            Command::Migrate(flags) => migrate::migrate(config, &flags),
            Command::Teardown(flags) => teardown::teardown(config, flags),
            Command::Dead(command) => dead::dead(&config, command),
            Command::Replay(flags) => replay::replay(config, flags),
            Command::Recover(flags) => recover::recover(config, &flags),
        }
    }
}

/// Settings that have a flag; flags override the environment and the file.
#[derive(Args)]
#[command(next_help_heading = "Settings")]
struct Settings {
    /// Configuration file [env: POSTRIDER_CONFIG] [default: postrider.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[arg(long, global = true, value_name = "URL", help = help(&keys::POSTGRES_URL))]
    database_url: Option<String>,
    #[arg(long, global = true, value_name = "LIST", help = help(&keys::KAFKA_BROKERS))]
    brokers: Option<String>,
    #[arg(long, global = true, value_name = "NAME", help = help(&keys::POSTGRES_SLOT))]
    slot: Option<String>,
    #[arg(long, global = true, value_name = "NAME", help = help(&keys::POSTGRES_PUBLICATION))]
    publication: Option<String>,
    #[arg(long, global = true, value_name = "ADDRESS", help = help(&keys::HTTP_LISTEN))]
    http_listen: Option<String>,
    #[arg(long, global = true, value_name = "LEVEL", help = help(&keys::LOG))]
    log: Option<String>,
    #[arg(long, global = true, value_name = "FORMAT", help = help(&keys::LOG_FORMAT))]
    log_format: Option<String>,
}

fn help(key: &Key) -> String {
    let variable = key.variables().into_iter().next().unwrap_or_default();
    let default = key.default_text().map(|text| format!(" [default: {text}]")).unwrap_or_default();
    format!("{} [env: {variable}]{default}", key.help())
}

impl Settings {
    fn load(self, tables: Tables, needs: Needs) -> Result<Config, ConfigError> {
        let mut flags = Flags::default();
        flags.config = self.config;
        flags.set(&keys::POSTGRES_URL, self.database_url);
        flags.set(&keys::KAFKA_BROKERS, self.brokers);
        flags.set(&keys::POSTGRES_SLOT, self.slot);
        flags.set(&keys::POSTGRES_PUBLICATION, self.publication);
        flags.set(&keys::POSTGRES_TABLES, tables.table);
        flags.set(&keys::HTTP_LISTEN, self.http_listen);
        flags.set(&keys::LOG, self.log);
        flags.set(&keys::LOG_FORMAT, self.log_format);
        Config::load(&Inputs::of_process(flags)?, needs)
    }
}

/// Runs the command line. Returns the exit code.
pub fn main() -> ExitCode {
    let mut cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if may_contain_secret(&error) {
                print_error(&MISPLACED_URL, Some(MISPLACED_URL_FIX));
            } else {
                // Help and version are such errors too, on stdout and with 0. If stdout is closed,
                // the failure to print can't be reported.
                drop(error.print());
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    // It is for people who have no configuration yet.
    if let Command::Import(command) = &cli.command {
        return ExitCode::from(import::import(command));
    }
    let tables = cli.tables.or_those(cli.command.tables());
    match cli.settings.load(tables, cli.command.needs()) {
        Ok(config) => {
            logging::start(&config.log);
            for caution in config.postgres.connection.cautions() {
                tracing::warn!("{caution}");
            }
            ExitCode::from(cli.command.execute(config))
        }
        Err(error) => {
            print_error(&error, None);
            ExitCode::from(USAGE)
        }
    }
}

const MISPLACED_URL: &str = "unexpected argument that looks like a connection string; it is not \
     repeated here, because it may contain a password";
const MISPLACED_URL_FIX: &str = "write it after --database-url, or into POSTRIDER_DATABASE_URL; \
    `postrider --help` shows commands and flags";

/// clap repeats arguments that it does not understand, and one may be a connection string.
fn may_contain_secret(error: &clap::Error) -> bool {
    use clap::error::ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion,
    };
    let of_our_own = [DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion];
    if of_our_own.contains(&error.kind()) {
        return false;
    }
    looks_secret(&error.to_string())
}

/// Not println!: it would panic if a pager or `head` has closed the pipe.
fn print_line(line: &str) {
    let _ = writeln!(stdout(), "{line}");
}

/// What went wrong and the fix, as text even if logs are JSON. If stderr is closed, only the exit
/// code reports it.
fn print_error(what: &dyn Display, fix: Option<&str>) {
    let mut stderr = stderr();
    let _ = writeln!(stderr, "postrider: {}", without_control_characters(&what.to_string()));
    if let Some(fix) = fix {
        let _ = writeln!(stderr, "fix: {}", without_control_characters(fix));
    }
}

/// Errors can contain texts of servers and brokers. These keep their lines, but lose control
/// characters, which could move the cursor.
fn without_control_characters(text: &str) -> String {
    text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "\u{fffd}")
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// The system refused a runtime or signal handlers.
fn no_runtime(error: &std::io::Error) -> u8 {
    print_error(error, Some("free memory and file descriptors, then start again"));
    FAILED
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound_and_has_every_flag_of_the_table() {
        let command = Cli::command();
        command.clone().debug_assert();
        let flags: Vec<String> = command
            .get_arguments()
            .filter_map(|argument| argument.get_long())
            .map(|long| format!("--{long}"))
            .collect();
        for flag in keys::ALL.iter().filter_map(|key| key.flag()) {
            assert!(flags.iter().any(|known| known == flag), "{flag} is missing");
        }
    }

    #[test]
    fn errors_move_no_cursor() {
        assert_eq!(without_control_characters("a\n  b\x1b[2J\r"), "a\n  b\u{fffd}[2J\u{fffd}");
    }

    #[test]
    fn settings_may_follow_the_command() {
        let cli = Cli::try_parse_from([
            "postrider",
            "--slot",
            "a",
            "migrate",
            "--table",
            "x",
            "--table",
            "y",
        ]);
        let mut cli = cli.ok().unwrap();
        assert_eq!(cli.settings.slot.as_deref(), Some("a"));
        assert_eq!(cli.tables.or_those(cli.command.tables()).table, ["x", "y"]);
    }
}
