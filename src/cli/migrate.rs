//! `postrider migrate`

use std::io::Write;

use clap::Args;
use postrider::config::{Config, Needs, TableName};

use super::tables::Tables;
use super::{DONE, FAILED, OPERATOR, complain, no_runtime, runtime};

#[derive(Args)]
pub(super) struct Migrate {
    /// Write the SQL to standard output as a script for psql, and ask no server
    #[arg(long)]
    print: bool,
    /// End the promise for a table: its rows are not published any more (repeatable). Nothing else is
    /// done, and the table must not be in postgres.tables
    #[arg(long, value_name = "TABLE", conflicts_with = "print")]
    withdraw: Vec<TableName>,
    #[command(flatten)]
    pub(super) tables: Tables,
}

impl Migrate {
    pub(super) fn needs(&self) -> Needs {
        if self.print { Needs::Nothing } else { Needs::Postgres }
    }
}

pub(super) fn migrate(config: Config, flags: &Migrate) -> u8 {
    if flags.print {
        let script = postrider::migrate::script(&config.postgres);
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
            true => postrider::migrate::migrate(&config).await.map(|report| report.to_string()),
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
