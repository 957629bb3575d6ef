//! `postrider recover`

use crate::backfill::recover::{self, RecoverOptions, Recovery};
use crate::config::{Config, Needs};
use crate::plural::plural;
use crate::shutdown::Shutdown;
use crate::sink::kafka::Kafka;
use clap::Args;

use super::tables::Tables;
use super::{DONE, FAILED, OPERATOR, USAGE, no_runtime, print_error, print_line, runtime};

#[derive(Args)]
pub(super) struct Recover {
    /// Change and publish nothing; only report what is wrong and how many rows may be missing
    #[arg(long)]
    dry_run: bool,
    /// Create a new slot even if the old one has unread events without a table (postrider.emit)
    #[arg(long)]
    give_up_messages: bool,
    /// Publish to another Kafka cluster, or in another relay.environment, than before
    #[arg(long)]
    accept_destination: bool,
    #[command(flatten)]
    pub(super) tables: Tables,
}

impl Recover {
    fn options(&self) -> RecoverOptions {
        RecoverOptions { dry_run: self.dry_run, give_up_messages: self.give_up_messages }
    }

    pub(super) fn needs(&self) -> Needs {
        if self.dry_run { Needs::Postgres } else { Needs::PostgresAndKafka }
    }
}

pub(super) fn recover(mut config: Config, flags: &Recover) -> u8 {
    config.relay.accept_destination = flags.accept_destination;
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return no_runtime(&error),
    };
    let code = runtime.block_on(async {
        // The guard keeps the signal handlers installed.
        let (_signals, shutdown) = match Shutdown::on_signals() {
            Ok(signals) => signals,
            Err(error) => return no_runtime(&error),
        };
        let show = |found: &Recovery| print_line(&found.to_string());
        let kafka = Kafka::new(&config.kafka);
        match recover::recover(config, kafka, shutdown, flags.options(), show).await {
            Ok(recovery) => report(&recovery),
            Err(fatal) => {
                print_error(&fatal, Some(fatal.fix()));
                match (fatal.is_in_settings(), fatal.is_passing()) {
                    (true, _) => USAGE,
                    (false, true) => FAILED,
                    (false, false) => OPERATOR,
                }
            }
        }
    });
    // A request to an unreachable broker may still be waiting; its answer is not needed.
    runtime.shutdown_background();
    code
}

/// Prints what was done. Returns the exit code.
fn report(recovery: &Recovery) -> u8 {
    let slot = if recovery.keeps_slot { "kept the slot" } else { "created a new slot" };
    match recovery.published {
        _ if recovery.is_interrupted => {
            let what = "interrupted before all rows were published";
            print_error(
                &what,
                Some("run `postrider recover` again, or start `postrider run`: both continue it"),
            );
            FAILED
        }
        // Nothing was missing, or another instance has published the rows.
        Some(0) => {
            print_line(&format!("all rows are published, and {slot}: start `postrider run`"));
            DONE
        }
        Some(rows) => {
            let rows = plural(rows, "row");
            print_line(&format!("published {rows}, and {slot}: start `postrider run`"));
            DONE
        }
        None => DONE,
    }
}
