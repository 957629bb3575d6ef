//! When the stream is read, and how long the server may be silent.

use std::time::{Duration, Instant};

/// The walsender sends every row on its own. Reading each as soon as it arrives would wake this
/// thread, the Kafka client's threads and the broker for every row, and cost several times the CPU.
/// A row that arrives after a calm moment is still read immediately (ADR 9).
const READ_INTERVAL: Duration = Duration::from_millis(1);
/// During a backlog nobody waits for single rows, and larger batches cost less.
const READ_INTERVAL_BEHIND: Duration = Duration::from_millis(5);
/// How long a server may be silent: as long as it allows us to be, but not less than this. While it
/// decodes a large transaction of other tables it answers only once in half of that time.
const SILENCE_MIN: Duration = Duration::from_secs(10);
/// Where it allows us to be silent indefinitely.
const SILENCE_DEFAULT: Duration = Duration::from_secs(60);

/// What is known about the socket.
pub(super) struct Listening {
    /// How long the server may be silent while it is asked for an answer every second.
    silence_max: Duration,
    /// Since when the server has owed us a sign of life.
    since: Instant,
    last_read: Instant,
    /// The last read did not take all that was there.
    has_more: bool,
}

impl Listening {
    pub(super) fn new(wal_sender_timeout: Duration, now: Instant) -> Self {
        let silence_max = match wal_sender_timeout {
            Duration::ZERO => SILENCE_DEFAULT,
            timeout => timeout.max(SILENCE_MIN),
        };
        Listening { silence_max, since: now, last_read: now, has_more: false }
    }

    /// When to read next. What already waits in the socket has waited long enough.
    pub(super) fn read_at(&self, is_behind: bool) -> Instant {
        let interval = match is_behind {
            _ if self.has_more => Duration::ZERO,
            true => READ_INTERVAL_BEHIND,
            false => READ_INTERVAL,
        };
        self.last_read + interval
    }

    /// The server was heard.
    pub(super) fn heard(&mut self, has_more: bool, now: Instant) {
        (self.since, self.last_read, self.has_more) = (now, now, has_more);
    }

    /// Nothing was read until now, so what the server sent meanwhile counts as heard.
    pub(super) fn restart(&mut self, now: Instant) {
        self.since = now;
    }

    /// How long the server has been silent, if that is too long.
    pub(super) fn too_silent(&self, now: Instant) -> Option<Duration> {
        let silence = now.saturating_duration_since(self.since);
        (silence > self.silence_max).then_some(silence)
    }
}
