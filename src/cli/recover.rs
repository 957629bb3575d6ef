//! `postrider recover`

use clap::Args;
use postrider::config::{Config, Needs};
use postrider::relay::{self, Recovery};
use postrider::shutdown::Shutdown;

use super::dead::say;
use super::tables::Tables;
use super::{DONE, FAILED, OPERATOR, complain, no_runtime, runtime};

#[derive(Args)]
pub(super) struct Recover {
    /// Publish nothing and change nothing; tell what is wrong and how many rows may be missing
    #[arg(long)]
    dry_run: bool,
    /// Publish to another Kafka cluster, or in another relay.environment, than before
    #[arg(long)]
    accept_destination: bool,
    #[command(flatten)]
    pub(super) tables: Tables,
}

impl Recover {
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
        // The guard keeps the signals heard.
        let (_signals, shutdown) = match Shutdown::on_signals() {
            Ok(signals) => signals,
            Err(error) => return no_runtime(&error),
        };
        let tell = |found: &Recovery| say(&found.to_string());
        match relay::recover(config, shutdown, flags.dry_run, tell).await {
            Ok(recovery) => told(&recovery),
            Err(fatal) => {
                complain(&fatal, Some(fatal.fix()));
                OPERATOR
            }
        }
    });
    // A question to a broker that is away may still be waiting; nobody needs the answer.
    runtime.shutdown_background();
    code
}

fn told(recovery: &Recovery) -> u8 {
    match recovery.published {
        _ if recovery.is_broken_off => {
            let what = "broken off before all rows were published";
            complain(
                &what,
                Some("run recover again, or start `postrider run`: both go on with it"),
            );
            FAILED
        }
        // Nothing was missing, or another instance was faster.
        Some(0) => {
            say("all rows are published, and there is a new slot: start `postrider run`");
            DONE
        }
        Some(rows) => {
            say(&format!("published {rows} rows, and made a new slot: start `postrider run`"));
            DONE
        }
        None => DONE,
    }
}
