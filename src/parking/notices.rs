//! Writes the lines about events that could not be published.

use postrider_core::parking::notices::{LogLine, Notice, PeriodSum};

/// Events were parked.
pub(crate) fn log_parked(lines: Vec<LogLine>) {
    log(
        lines,
        "an event could not be published and was parked",
        "more events were parked since the last summary",
    );
}

/// Events in the side table have become dead.
pub(crate) fn log_died(lines: Vec<LogLine>) {
    log(lines, "a parked event is dead", "more parked events became dead since the last summary");
}

fn log(lines: Vec<LogLine>, one: &str, more: &str) {
    for line in lines {
        match line {
            LogLine::Event { notice, count, command } => {
                let Notice { table, topic, row_id, tenant, idempotency_key, detail, .. } = &notice;
                let status = if notice.is_dead { "dead" } else { "pending" };
                let reason = notice.reason.label();
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
            LogLine::Sum(PeriodSum { pending, dead, waiting, dropped, most }) => {
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
