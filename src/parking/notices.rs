//! Writes the lines about events that could not be published.

use postrider_core::parking::notices::{Line, Notice, Sum};

/// What has happened to the events of some lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// They were parked.
    Parked,
    /// They have become dead in the side table.
    Died,
}

/// Writes lines.
pub(crate) fn log(fact: Fact, lines: Vec<Line>) {
    let (one, more) = match fact {
        Fact::Parked => (
            "an event could not be published and was parked",
            "more events were parked since the last such line",
        ),
        Fact::Died => {
            ("a parked event is dead", "more parked events have died since the last such line")
        }
    };
    for line in lines {
        match line {
            Line::Event { notice, count, command } => {
                let Notice { table, topic, row_id, tenant, idempotency_key, detail, .. } = &notice;
                let status = if notice.is_dead { "dead" } else { "pending" };
                let reason = notice.reason.0;
                tracing::warn!(
                    table,
                    row_id,
                    topic,
                    tenant,
                    idempotency_key,
                    reason,
                    detail,
                    status,
                    count,
                    command,
                    "{one}"
                );
            }
            Line::Sum(Sum { pending, dead, waiting, dropped, most }) => {
                let (most_events, most_of) = most.unwrap_or_default();
                tracing::warn!(
                    pending,
                    dead,
                    waiting,
                    dropped,
                    most_events,
                    most_of,
                    command = "postrider dead list --status pending,dead",
                    "{more}"
                );
            }
        }
    }
}
