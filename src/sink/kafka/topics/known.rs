//! What is known of one topic.

use tokio::time::Instant;

use super::usage::TopicUsage;
use crate::sink::kafka::careful::TopicFacts;
use postrider_core::delivery::{Reason, Refusal};
use postrider_core::envelope::Destination;

/// Whether a topic exists for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Exists {
        partitions: usize,
    },
    Missing,
    /// We are not allowed to know.
    Denied,
}

pub(super) struct KnownTopic {
    pub(super) presence: Presence,
    pub(super) destination: Destination,
    pub(super) answered_at: Instant,
    pub(super) usage: TopicUsage,
}

impl KnownTopic {
    /// None: it does not exist, or we are not allowed to know.
    pub(super) fn partitions(&self) -> Option<usize> {
        match self.presence {
            Presence::Exists { partitions } => Some(partitions),
            Presence::Missing | Presence::Denied => None,
        }
    }

    /// Why nothing can be sent to it, or to this partition of it, if so.
    pub(super) fn refusal(&self, partition: Option<i32>) -> Option<Refusal> {
        let refusal = |reason, detail: &str| Some(Refusal { reason, detail: detail.to_owned() });
        match (self.presence, partition) {
            (Presence::Missing, _) => refusal(Reason::TopicMissing, "the topic does not exist"),
            (Presence::Denied, _) => refusal(
                Reason::TopicDenied,
                "postrider is not allowed to write to the topic (TopicAuthorizationFailed)",
            ),
            (Presence::Exists { partitions: count }, Some(partition))
                if usize::try_from(partition).is_ok_and(|partition| partition >= count) =>
            {
                let detail = format!(
                    "partition {partition} does not exist; the topic's partition count is {count}"
                );
                refusal(Reason::PartitionMissing, &detail)
            }
            (Presence::Exists { .. }, _) => None,
        }
    }

    pub(super) fn facts(&self) -> TopicFacts {
        TopicFacts {
            partitions: self.partitions().unwrap_or(TopicFacts::UNKNOWN.partitions),
            batch_bytes_max: self.destination.batch_bytes_max,
        }
    }
}
