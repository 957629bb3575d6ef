//! The message about an event that can't be published and halts the relay.

use super::outgoing::Outgoing;
use crate::session_end::{Fatal, SessionEnd};
use crate::sink::Sink;
use postrider_core::delivery::{Class, Reason, Refusal};
use postrider_core::row::Row;

impl<S: Sink, P: Copy + Ord> Outgoing<'_, S, P> {
    pub(crate) fn halt(&self, row: &Row<'_>, class: Class, refusal: &Refusal) -> SessionEnd {
        let fix = match (class, refusal.reason) {
            (Class::Rejected, Reason::TooLarge) | (Class::Retryable, _) => FIX_AND_RESTART,
            _ => {
                "a row in the log can't be changed: correct the application that writes such rows; \
                 to skip this one, set undelivered.order to park-key or continue, which parks it \
                 in postrider.undelivered"
            }
        };
        let (id, topic) = (row.id_for_log(), self.envelope.topic_for_log(row));
        SessionEnd::Fatal(unpublishable(&self.source(row.table), &id, &topic, &refusal.detail, fix))
    }

    fn source(&self, number: usize) -> String {
        match self.envelope.tables.get(number) {
            Some(table) if table.is_table() => format!("of table {}", table.name),
            _ => "without a table".to_owned(),
        }
    }
}

const FIX_AND_RESTART: &str = "fix the cause (create the topic, allow writing to it, raise its \
     max.message.bytes, for events above 32 MiB also kafka.properties.message.max.bytes; register \
     the schema) and start again: the relay continues with this event; nothing after it was confirmed";

/// The message about an event that can't be published. Never contains the payload.
fn unpublishable(source: &str, id: &str, topic: &str, reason: &str, fix: &str) -> Fatal {
    Fatal::new(format!("event {id} {source} for topic {topic:?} can't be published: {reason}"), fix)
}
