//! `postrider migrate`

use std::io::Write;
use std::str::FromStr;

use crate::config::{Config, Needs, TableName, TableNameError};
use crate::setup::migrate::ExistingRows;
use clap::{Args, ValueEnum};

use super::tables::Tables;
use super::{DONE, FAILED, OPERATOR, USAGE, no_runtime, print_error, print_line, runtime};

#[derive(Args)]
pub(super) struct Migrate {
    /// Print the SQL as a psql script; does not connect to the server
    #[arg(long)]
    print: bool,
    /// What happens to rows that are in the tables before the slot is created: `postrider run`
    /// publishes them first, or they are left out
    #[arg(long, value_name = "CHOICE")]
    existing_rows: Option<Choice>,
    /// End the promise for a table, whose rows are then no longer published, or for `messages`:
    /// events without a table, which postrider.emit then refuses (repeatable). Nothing else is
    /// done. The configuration must no longer name what is withdrawn
    #[arg(long, value_name = "TABLE|messages", conflicts_with_all = ["print", "existing_rows"])]
    withdraw: Vec<Withdrawn>,
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

/// A table called messages is `public.messages`.
#[derive(Clone)]
enum Withdrawn {
    Messages,
    Table(TableName),
}

impl FromStr for Withdrawn {
    type Err = TableNameError;

    fn from_str(text: &str) -> Result<Self, TableNameError> {
        match text {
            "messages" => Ok(Withdrawn::Messages),
            table => table.parse().map(Withdrawn::Table),
        }
    }
}

impl Migrate {
    /// The tables, and whether messages are withdrawn too.
    fn withdrawn(&self) -> (Vec<TableName>, bool) {
        let table = |it: &Withdrawn| match it {
            Withdrawn::Table(table) => Some(table.clone()),
            Withdrawn::Messages => None,
        };
        let tables: Vec<TableName> = self.withdraw.iter().filter_map(table).collect();
        let messages = tables.len() < self.withdraw.len();
        (tables, messages)
    }

    pub(super) fn needs(&self) -> Needs {
        if self.print { Needs::Nothing } else { Needs::Postgres }
    }
}

pub(super) fn migrate(config: Config, flags: &Migrate) -> u8 {
    let existing = flags.existing_rows.map(ExistingRows::from);
    if flags.print {
        let script = match crate::setup::migrate::script(&config.postgres, existing) {
            Ok(script) => script,
            Err(error) => {
                print_error(&error, Some(&error.fix()));
                return if error.is_in_settings() { USAGE } else { OPERATOR };
            }
        };
        // An incomplete script must not look like a complete one.
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
        if flags.withdraw.is_empty() {
            let report = crate::setup::migrate::migrate(&config, existing).await;
            report.map(|report| report.to_string())
        } else {
            let (tables, messages) = flags.withdrawn();
            let lines = crate::setup::migrate::withdraw(&config, &tables, messages).await;
            lines.map(|lines| lines.join("\n"))
        }
    });
    match done {
        Ok(report) => {
            print_line(&report);
            DONE
        }
        Err(error) => {
            print_error(&error, Some(&error.fix()));
            match (error.is_in_settings(), error.needs_operator()) {
                (true, _) => USAGE,
                (false, true) => OPERATOR,
                (false, false) => FAILED,
            }
        }
    }
}
