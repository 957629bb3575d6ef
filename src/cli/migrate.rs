//! `postrider migrate`

use std::io::Write;

use clap::Args;
use postrider::config::{Config, Needs};

use super::tables::Tables;
use super::{DONE, FAILED, OPERATOR, complain, no_runtime, runtime};

#[derive(Args)]
pub(super) struct Migrate {
    /// Write the SQL to standard output as a script for psql, and ask no server
    #[arg(long)]
    print: bool,
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
    match runtime.block_on(postrider::migrate::migrate(&config)) {
        Ok(report) => {
            // Not println!: it would panic if a pager or `head` has closed the pipe.
            let _ = writeln!(std::io::stdout(), "{report}");
            DONE
        }
        Err(error) => {
            complain(&error, Some(&error.fix()));
            if error.needs_operator() { OPERATOR } else { FAILED }
        }
    }
}
