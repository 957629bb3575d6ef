//! `postrider migrate`

use std::io::Write;

use clap::{Args, ValueEnum};
use postrider::config::{Config, Needs, TableName};
use postrider::migrate::ExistingRows;

use super::tables::Tables;
use super::{DONE, FAILED, OPERATOR, complain, no_runtime, runtime};

#[derive(Args)]
pub(super) struct Migrate {
    /// Write the SQL to standard output as a script for psql, and ask no server
    #[arg(long)]
    print: bool,
    /// What becomes of rows that are in the tables before the slot is made: `postrider run` publishes
    /// them first, or they are left out
    #[arg(long, value_name = "CHOICE")]
    existing_rows: Option<Choice>,
    /// End the promise for a table: its rows are not published any more (repeatable). Nothing else is
    /// done, and the table must not be in postgres.tables
    #[arg(long, value_name = "TABLE", conflicts_with_all = ["print", "existing_rows"])]
    withdraw: Vec<TableName>,
    #[command(flatten)]
    pub(super) tables: Tables,
}

#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    Publish,
    Skip,
}

impl From<Choice> for ExistingRows {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Publish => ExistingRows::Publish,
            Choice::Skip => ExistingRows::Skip,
        }
    }
}

impl Migrate {
    pub(super) fn needs(&self) -> Needs {
        if self.print { Needs::Nothing } else { Needs::Postgres }
    }
}

pub(super) fn migrate(config: Config, flags: &Migrate) -> u8 {
    let existing = flags.existing_rows.map(ExistingRows::from);
    if flags.print {
        let script = match postrider::migrate::script(&config.postgres, existing) {
            Ok(script) => script,
            Err(error) => {
                complain(&error, Some(&error.fix()));
                return OPERATOR;
            }
        };
        // A script that broke off must not look like a whole one.
        return match write!(std::io::stdout(), "{script}") {
            Ok(()) => DONE,
            Err(_) => FAILED,
        };
    }
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return no_runtime(&error),
    };
    let done = runtime.block_on(async {
        match flags.withdraw.is_empty() {
            true => {
                let report = postrider::migrate::migrate(&config, existing).await;
                report.map(|report| report.to_string())
            }
            false => {
                let told = postrider::migrate::withdraw(&config, &flags.withdraw).await;
                told.map(|lines| lines.join("\n"))
            }
        }
    });
    match done {
        Ok(told) => {
            // Not println!: it would panic if a pager or `head` has closed the pipe.
            let _ = writeln!(std::io::stdout(), "{told}");
            DONE
        }
        Err(error) => {
            complain(&error, Some(&error.fix()));
            if error.needs_operator() { OPERATOR } else { FAILED }
        }
    }
}
