//! `postrider run`

use crate::config::Config;
use crate::relay::Relay;
use crate::shutdown::{Phase, Shutdown};
use crate::sink::kafka::Kafka;
use clap::Args;

use super::tables::Tables;
use super::{DONE, FAILED, OPERATOR, USAGE, no_runtime, print_error, runtime};

#[derive(Args)]
pub(super) struct Run {
    /// Publish to another Kafka cluster, or in another relay.environment, than before; use it once
    #[arg(long)]
    accept_destination: bool,
    #[command(flatten)]
    pub(super) tables: Tables,
}

pub(super) fn run(mut config: Config, flags: &Run) -> u8 {
    config.relay.accept_destination = flags.accept_destination;
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return no_runtime(&error),
    };
    let code = runtime.block_on(async {
        // The guard keeps the signal handlers installed while the relay runs.
        let (_signals, shutdown) = match Shutdown::on_signals() {
            Ok(signals) => signals,
            Err(error) => return no_runtime(&error),
        };
        if config.relay.enabled {
            config.kafka.cautions().iter().for_each(|caution| tracing::warn!("{caution}"));
        }
        let kafka = Kafka::new(&config.kafka);
        match Relay::builder(config).sink(kafka).run(shutdown.clone()).await {
            Ok(()) if shutdown.phase() < Phase::Now => DONE,
            Ok(()) => {
                let what = "stopped before all events in flight were acknowledged; \
                            they will be published again at the next start";
                print_error(&what, None);
                FAILED
            }
            Err(fatal) => {
                print_error(&fatal, Some(fatal.fix()));
                if fatal.is_in_settings() { USAGE } else { OPERATOR }
            }
        }
    });
    // A request to an unreachable broker may still be waiting; its answer is not needed.
    runtime.shutdown_background();
    code
}
