//! `[inbox]`: when claims of consumers are deleted.

use std::time::Duration;

use super::checked::Values;
use super::keys;
use super::parse;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The inbox of consumers that share the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxConfig {
    /// How old a claim must be before the relay deletes it; `None`: it deletes no claims.
    pub retention: Option<Duration>,
}

/// `None` if something is wrong, which is then among the problems.
pub(super) fn check(values: &mut Values<'_>) -> Option<InboxConfig> {
    let retention = values.read(&keys::INBOX_RETENTION, retention)?;
    Some(InboxConfig { retention })
}

/// Not 0: once a claim is deleted, its effect can happen again.
fn retention(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "off" => Ok(None),
        _ => parse::duration_within(text, Duration::from_millis(1), 36_525 * DAY)
            .map(Some)
            .map_err(|reason| format!("{reason}, or off")),
    }
}
