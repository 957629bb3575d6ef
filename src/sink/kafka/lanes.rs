//! The producers of one session.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::careful::CarefulQueues;
use super::delivery::Delivery;
use super::lane::{Lane, LaneKind};
use super::log::ClientLog;
use super::options::KafkaOptions;
use postrider_core::delivery::Broken;

/// How long closing a producer may take before the relay continues without waiting for it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Reports that belong to no record: a producer has at most one fatal error.
const ERRORS_MAX: usize = 8;

pub(super) struct Lanes {
    pub(super) opened_at: Instant,
    pub(super) fast: Lane,
    /// Made when first needed.
    pub(super) careful: Option<Lane>,
    pub(super) careful_queues: CarefulQueues,
    pub(super) sender: mpsc::Sender<Delivery>,
    pub(super) deliveries: mpsc::Receiver<Delivery>,
}

/// How far closing the producers has come.
pub(super) enum Closing {
    /// They are closed; these are their last reports.
    Done(mpsc::Receiver<Delivery>),
    Failed,
    /// It takes longer than the relay waits for it.
    Unfinished(JoinHandle<()>),
}

impl Lanes {
    pub(super) fn open(
        options: &KafkaOptions,
        log: &ClientLog,
        opened_at: Instant,
    ) -> Result<Self, Broken> {
        let (sender, deliveries) = mpsc::channel(options.sink.in_flight_events_max + ERRORS_MAX);
        let fast = Lane::open(LaneKind::Fast, options, log, sender.clone())?;
        let careful_queues = CarefulQueues::default();
        Ok(Lanes { opened_at, fast, careful: None, careful_queues, sender, deliveries })
    }

    pub(super) async fn close(self) -> Closing {
        let Lanes { fast, careful, deliveries, .. } = self;
        fast.purge();
        if let Some(careful) = &careful {
            careful.purge();
        }
        // Joining librdkafka's threads can block for long, for example while a name is resolved.
        let mut closing = tokio::task::spawn_blocking(move || drop((fast, careful)));
        match tokio::time::timeout(CLOSE_TIMEOUT, &mut closing).await {
            Ok(Ok(())) => {
                tracing::debug!("the Kafka producers are closed");
                Closing::Done(deliveries)
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "a Kafka producer was not closed cleanly");
                Closing::Failed
            }
            Err(_) => {
                tracing::warn!(
                    "a Kafka producer is taking long to close; it has nothing left to send, so the \
                     relay continues"
                );
                Closing::Unfinished(closing)
            }
        }
    }
}
