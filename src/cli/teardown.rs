//! `postrider teardown`

use crate::config::Config;
use crate::setup::teardown;
use clap::Args;

use super::tables::Tables;
use super::{DONE, FAILED, OPERATOR, USAGE, no_runtime, print_error, print_line, runtime};

#[derive(Args)]
pub(super) struct Teardown {
    /// Drop it; without this flag, teardown only lists what it would drop
    #[arg(long)]
    yes: bool,
    /// Drop the outbox tables too, with the rows in them
    #[arg(long)]
    tables: bool,
    #[command(flatten)]
    pub(super) outboxes: Tables,
}

pub(super) fn teardown(config: Config, Teardown { yes, tables, .. }: Teardown) -> u8 {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return no_runtime(&error),
    };
    let result = runtime.block_on(async {
        if yes {
            teardown::teardown(&config, tables).await
        } else {
            teardown::plan(&config, tables).await
        }
    });
    match result {
        Ok(report) => {
            print_line(&report.to_string());
            if yes {
                return DONE;
            }
            let flags = if tables { "--tables --yes" } else { "--yes" };
            let fix =
                format!("run `postrider teardown {flags}` to drop what is listed as \"will drop\"");
            print_error(&"nothing was dropped: confirmation is required", Some(&fix));
            USAGE
        }
        Err(error) => {
            print_error(&error, Some(&error.fix()));
            if error.needs_operator() { OPERATOR } else { FAILED }
        }
    }
}
