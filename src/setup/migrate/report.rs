//! What a migration did, for people.

use std::fmt;

use crate::config::{OutboxTable, quote_identifier};
use postrider_core::row::Column;

/// What happened to one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It did not exist.
    Created,
    /// It existed, and something was added to it.
    Updated,
    /// It existed, and was not changed.
    Found,
    /// `postrider run` creates or reads it later.
    Later,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Found => "found",
            Self::Later => "later",
        })
    }
}

/// One thing the relay needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// What happened to it.
    pub change: Change,
    /// What it is, `table public.outbox`.
    pub thing: String,
}

/// What a migration did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// In the order in which they were created.
    pub items: Vec<Item>,
    /// What people should know.
    pub notes: Vec<String>,
    pub(super) tables: Vec<OutboxTable>,
}

impl Report {
    pub(super) fn new(tables: &[OutboxTable]) -> Self {
        Self { items: Vec::new(), notes: Vec::new(), tables: tables.to_vec() }
    }

    pub(super) fn note(&mut self, change: Change, thing: impl Into<String>) {
        self.items.push(Item { change, thing: thing.into() });
    }

    /// False if everything already existed.
    pub(crate) fn changed(&self) -> bool {
        self.items.iter().any(|item| !matches!(item.change, Change::Found | Change::Later))
    }
}

/// One line per thing, then what to do next.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Item { change, thing } in &self.items {
            writeln!(f, "{change:<8} {thing}")?;
        }
        if !self.changed() {
            writeln!(f, "nothing to change")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let tables: Vec<String> = self.tables.iter().map(|table| table.name.to_string()).collect();
        write!(
            f,
            "next: start `postrider run`; it publishes what is inserted into {}",
            tables.join(", ")
        )?;
        let Some(table) = self.tables.first() else { return Ok(()) };
        let name = |column: Column| match table.columns.mapped(column) {
            Some(name) => quote_identifier(name),
            None => column.name().to_owned(),
        };
        write!(
            f,
            "\n      insert into {} ({}, {}) values ('greetings', '{{\"hello\": \"world\"}}');",
            table.name,
            name(Column::Topic),
            name(Column::Payload),
        )
    }
}
