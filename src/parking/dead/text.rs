//! Entries of the side table as text. No I/O.

use std::fmt::Write as _;

use crate::parking::store::{Entry, hex};

const HEADINGS: [&str; 11] =
    ["ID", "STATUS", "REASON", "TABLE", "ROW", "TOPIC", "KEY", "ATTEMPTS", "AGE", "NEXT", "ERROR"];
const COLUMNS: usize = HEADINGS.len();
/// Values that others have written can have any length; the error comes last and takes the
/// remaining space.
const CELL_MAX: usize = 40;

/// A table that is written page by page. Its columns are as wide as the pages so far need.
#[derive(Debug)]
pub(crate) struct EntryTable {
    width: Option<usize>,
    columns: [usize; COLUMNS],
    has_headings: bool,
}

impl EntryTable {
    /// For a terminal of this many columns; none: nothing is cut.
    pub(crate) fn new(width: Option<usize>) -> Self {
        EntryTable { width, columns: HEADINGS.map(str::len), has_headings: false }
    }

    /// The lines of a page, the first with headings.
    pub(crate) fn page(&mut self, entries: &[Entry]) -> String {
        let rows: Vec<[String; COLUMNS]> = entries.iter().map(|entry| self.cells(entry)).collect();
        for row in &rows {
            for (width, cell) in self.columns.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        if !std::mem::replace(&mut self.has_headings, true) {
            self.line(&mut text, &HEADINGS.map(str::to_owned));
        }
        for row in &rows {
            self.line(&mut text, row);
        }
        text
    }

    fn cells(&self, entry: &Entry) -> [String; COLUMNS] {
        let short = |text: &str| match self.width {
            Some(_) => cut(&printable(text), CELL_MAX),
            None => printable(text),
        };
        let some = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), short);
        let next = match (entry.status.as_str(), entry.due_seconds) {
            ("pending", None) => "waits".to_owned(),
            ("pending", Some(seconds)) if seconds > 0 => format!("in {}", span(seconds)),
            ("pending", Some(_)) => "due".to_owned(),
            _ => "-".to_owned(),
        };
        [
            entry.id.to_string(),
            entry.status.clone(),
            entry.reason.clone(),
            short(&entry.source_table),
            some(&entry.row_id),
            short(&entry.topic),
            some(&entry.ordering_key),
            entry.attempts.to_string(),
            span(entry.age_seconds),
            next,
            entry.last_error.as_deref().map_or("-".to_owned(), printable),
        ]
    }

    /// Cut to the width of the terminal: a table whose lines wrap can't be read.
    fn line(&self, text: &mut String, cells: &[String; COLUMNS]) {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(self.columns) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        let line = line.trim_end();
        text.push_str(&self.width.map_or_else(|| line.to_owned(), |width| cut(line, width)));
        text.push('\n');
    }
}

/// Everything about one event, a line for each column.
pub(crate) fn details(entry: &Entry) -> String {
    let headers = entry.headers.as_array().map(Vec::as_slice).unwrap_or_default();
    let headers: Vec<String> = headers.iter().map(|pair| printable(&pair.to_string())).collect();
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let lines = [
        ("id", entry.id.to_string()),
        ("status", entry.status.clone()),
        ("reason", entry.reason.clone()),
        ("last error", or_none(&entry.last_error)),
        ("attempts", entry.attempts.to_string()),
        ("next attempt", next_attempt(entry)),
        ("locked by", or_none(&entry.locked_by)),
        ("locked until", or_none(&entry.locked_until)),
        ("slot", entry.slot.clone()),
        ("table", entry.source_table.clone()),
        ("row id", or_none(&entry.row_id)),
        ("idempotency key", or_none(&entry.idempotency_key)),
        ("ordering key", or_none(&entry.ordering_key)),
        ("tenant", or_none(&entry.tenant)),
        (
            "commit",
            format!("{}, change {}, event {}", entry.commit_lsn, entry.change_lsn, entry.ordinal),
        ),
        ("committed at", entry.timestamp.clone()),
        ("topic", entry.topic.clone()),
        ("partition", entry.partition.map_or("by key".to_owned(), |it| it.to_string())),
        ("key", or_none(&entry.key)),
        ("headers", if headers.is_empty() { "-".to_owned() } else { headers.join(" ") }),
        ("value", format!("{} bytes, {}", entry.value_bytes, value_place(&entry.form))),
        ("parked at", entry.created_at.clone()),
        ("changed at", entry.updated_at.clone()),
        ("delivered at", or_none(&entry.delivered_at)),
    ];
    lines.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:<16} {}", printable(value));
        text
    })
}

fn next_attempt(entry: &Entry) -> String {
    match (entry.status.as_str(), entry.next_attempt_at.as_str()) {
        ("pending", "infinity") => "after an earlier event of its ordering key".to_owned(),
        ("pending", at) => at.to_owned(),
        _ => "-".to_owned(),
    }
}

/// Where the value is, or why there is none to publish.
fn value_place(form: &str) -> &str {
    match form {
        "whole" => "in the side table",
        "reference" => "in the outbox row: it is too large to be copied",
        _ => "no record could be made of the row, so it can't be published as it is",
    }
}

/// A value as text, if it is text without control characters; otherwise in hexadecimal.
pub(crate) fn payload_text(value: &[u8]) -> String {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    match std::str::from_utf8(value) {
        Ok(text) if text.chars().all(harmless) => text.to_owned(),
        _ => hex(value),
    }
}

/// Text that others have written, on one line and without control characters: those could move the
/// terminal's cursor.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() > width {
        text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

/// `45s`, `12m`, `5h`, `3d`.
fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            id: 7,
            slot: "postrider".to_owned(),
            source_table: "public.outbox".to_owned(),
            row_id: Some("4711".to_owned()),
            idempotency_key: None,
            ordering_key: Some("a\u{1b}[2Jb".to_owned()),
            tenant: None,
            commit_lsn: "0/100".to_owned(),
            change_lsn: "0/0".to_owned(),
            ordinal: 0,
            topic: "t".repeat(60),
            partition: None,
            key: None,
            value_bytes: 3,
            headers: serde_json::Value::Null,
            timestamp: String::new(),
            form: "whole".to_owned(),
            status: "pending".to_owned(),
            reason: "behind".to_owned(),
            attempts: 0,
            next_attempt_at: "infinity".to_owned(),
            locked_by: None,
            locked_until: None,
            last_error: Some("x".repeat(300)),
            created_at: String::new(),
            updated_at: String::new(),
            delivered_at: None,
            age_seconds: 7300,
            due_seconds: None,
        }
    }

    #[test]
    fn a_line_is_as_wide_as_the_terminal_and_moves_no_cursor() {
        let text = EntryTable::new(Some(180)).page(&[entry()]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("ID  STATUS"), "{text}");
        assert_eq!(lines[1].chars().count(), 180, "{text}");
        assert!(lines[1].ends_with('…') && !text.contains('\u{1b}'), "{text}");
        for part in ["2h", "behind", "waits", "4711", &format!("{}…", "t".repeat(39))] {
            assert!(lines[1].contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn nothing_is_cut_without_a_terminal_and_headings_come_once() {
        let mut table = EntryTable::new(None);
        let first = table.page(&[entry()]);
        assert!(first.contains(&"x".repeat(300)) && first.contains(&"t".repeat(60)));
        assert_eq!(table.page(&[entry()]).lines().count(), 1);
    }

    #[test]
    fn a_payload_is_text_or_hexadecimal() {
        assert_eq!(payload_text(b"{\"a\":\n1}"), "{\"a\":\n1}");
        assert_eq!(payload_text(b"\xff\x00"), "ff00");
        assert_eq!(payload_text(b"\x1b[2J"), "1b5b324a");
    }

    #[test]
    fn details_are_one_line_each() {
        let text = details(&entry());
        assert_eq!(text.lines().count(), 24);
        assert!(text.contains("next attempt     after an earlier event"), "{text}");
    }
}
