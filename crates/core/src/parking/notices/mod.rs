//! Which events that could not be published get a log line of their own, and which are only
//! counted. No I/O; the clock is an argument.
//!
//! The first event of a table, topic and reason is logged at once; further ones are part of a sum,
//! one a minute, until none of the kind has come for a minute. So a single event is never silent,
//! and a hundred thousand don't fill a disk. Events that only wait for an earlier one are only in
//! the sum.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::delivery::Reason;
use crate::route::is_legal_topic;

/// The time that a sum covers.
const PERIOD: Duration = Duration::from_secs(60);
/// The most lines about single events within a period.
const LINES_MAX: u32 = 20;
/// How many kinds are distinguished within a period; events of others are only in the sum.
const KINDS_MAX: usize = 1000;
/// Longer values are cut: an application that mixes up columns can put the payload anywhere.
const SHOWN_CHARS: usize = 100;

/// What people want to know about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub table: String,
    /// As it may be shown: a legal topic, or a note that it is not one.
    pub topic: String,
    pub reason: Reason,
    pub is_dead: bool,
    pub row_id: String,
    pub tenant: String,
    pub idempotency_key: String,
    /// In a sentence. Never holds the payload.
    pub detail: String,
}

/// Cut to what a line shows.
pub fn shown(text: Option<&str>) -> String {
    text.unwrap_or_default().chars().take(SHOWN_CHARS).collect()
}

/// A topic as it may be shown: an illegal name can be anything, also a payload.
pub fn topic_shown(topic: &str) -> String {
    if is_legal_topic(topic) {
        topic.to_owned()
    } else {
        format!("(an illegal name of {} bytes)", topic.len())
    }
}

impl Notice {
    /// The command that shows events like this one. An illegal topic can't be a filter.
    fn command(&self) -> String {
        let status = if self.is_dead { "dead" } else { "pending" };
        let topic = if self.topic.starts_with('(') {
            String::new()
        } else {
            format!(" --topic {}", self.topic)
        };
        let (table, reason) = (shell_word(&self.table), self.reason.label());
        format!("postrider dead list --status {status} --table {table}{topic} --reason {reason}")
    }
}

/// A name, quoted for a shell if needed.
fn shell_word(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    if name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "'\\''"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    table: String,
    topic: String,
    reason: Reason,
    is_dead: bool,
}

#[derive(Debug, Default)]
struct Tally {
    /// Its first event has been logged.
    is_logged: bool,
    /// Events of this period.
    seen: u64,
    /// Those of them without a line.
    unlogged: u64,
}

/// Something for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogLine {
    /// An event, and how many of its kind came together with it, itself included.
    Event { notice: Notice, count: u64, command: String },
    /// The events of the last period that had no line of their own.
    Sum(PeriodSum),
}

/// What happened in a period in addition to its lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeriodSum {
    pub pending: u64,
    pub dead: u64,
    /// Waiting for an earlier event of their key.
    pub waiting: u64,
    /// Messages that are not events and were dropped, because enough are kept.
    pub dropped: u64,
    /// The most frequent kind, for people.
    pub most: Option<(u64, String)>,
}

/// What was logged, and what will be.
#[derive(Debug)]
pub struct Notices {
    kinds: HashMap<Kind, Tally>,
    since: Instant,
    lines: u32,
    sum: PeriodSum,
}

impl Notices {
    pub fn new(now: Instant) -> Self {
        Notices { kinds: HashMap::new(), since: now, lines: 0, sum: PeriodSum::default() }
    }

    /// Events were parked, or became dead, together.
    pub fn add(&mut self, events: Vec<Notice>, now: Instant) -> Vec<LogLine> {
        let mut lines = self.tick(now);
        let mut together: Vec<(Notice, u64)> = Vec::new();
        for notice in events {
            if notice.reason == Reason::Blocked {
                self.sum.waiting += 1;
                continue;
            }
            let same = |(other, _): &&mut (Notice, u64)| {
                (&other.table, &other.topic, other.reason, other.is_dead)
                    == (&notice.table, &notice.topic, notice.reason, notice.is_dead)
            };
            match together.iter_mut().find(same) {
                Some((_, count)) => *count += 1,
                None => together.push((notice, 1)),
            }
        }
        lines.extend(
            together.into_iter().filter_map(|(notice, count)| self.line_for(notice, count)),
        );
        lines
    }

    /// A message that is not an event was dropped.
    pub fn dropped(&mut self, now: Instant) -> Vec<LogLine> {
        let lines = self.tick(now);
        self.sum.dropped += 1;
        lines
    }

    fn line_for(&mut self, notice: Notice, count: u64) -> Option<LogLine> {
        let kind = Kind {
            table: notice.table.clone(),
            topic: notice.topic.clone(),
            reason: notice.reason,
            is_dead: notice.is_dead,
        };
        let has_room = self.kinds.len() < KINDS_MAX || self.kinds.contains_key(&kind);
        let mut overflow = Tally::default();
        let tally = if has_room { self.kinds.entry(kind).or_default() } else { &mut overflow };
        tally.seen += count;
        if !tally.is_logged && has_room && self.lines < LINES_MAX {
            tally.is_logged = true;
            self.lines += 1;
            let command = notice.command();
            return Some(LogLine::Event { notice, count, command });
        }
        tally.unlogged += count;
        if notice.is_dead {
            self.sum.dead += count;
        } else {
            self.sum.pending += count;
        }
        None
    }

    /// The sum, if it is due.
    pub fn tick(&mut self, now: Instant) -> Vec<LogLine> {
        if now.saturating_duration_since(self.since) >= PERIOD {
            self.end_period(now)
        } else {
            Vec::new()
        }
    }

    /// The sum so far, if there is anything in it. A new period begins.
    pub fn end_period(&mut self, now: Instant) -> Vec<LogLine> {
        let most = self.kinds.iter().filter(|(_, tally)| tally.unlogged > 0);
        let most = most.max_by_key(|(_, tally)| tally.unlogged).map(|(kind, tally)| {
            let Kind { table, topic, reason, .. } = kind;
            (tally.unlogged, format!("{table} to {topic}: {}", reason.label()))
        });
        self.kinds.retain(|_, tally| tally.seen > 0);
        for tally in self.kinds.values_mut() {
            (tally.seen, tally.unlogged) = (0, 0);
        }
        (self.since, self.lines) = (now, 0);
        let sum = PeriodSum { most, ..std::mem::take(&mut self.sum) };
        if sum == PeriodSum::default() { Vec::new() } else { vec![LogLine::Sum(sum)] }
    }
}

#[cfg(test)]
mod tests;
