//! What is dropped and what is not, for people.

use std::fmt;

/// What happens to one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is there and will be dropped.
    Drop,
    /// It was there.
    Dropped,
    /// It is not there.
    Missing,
    /// It is there and stays.
    Kept,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Drop => "will drop",
            Self::Dropped => "dropped",
            Self::Missing => "missing",
            Self::Kept => "kept",
        })
    }
}

/// One thing that `migrate` makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// What happens to it.
    pub fate: Fate,
    /// What it is, `slot postrider`.
    pub thing: String,
    /// What one should know about it.
    pub note: Option<String>,
}

impl Item {
    pub(super) fn new(fate: Fate, thing: impl Into<String>, note: Option<String>) -> Self {
        Item { fate, thing: thing.into(), note }
    }

    pub(super) fn done(self) -> Self {
        match self.fate {
            Fate::Drop => Item { fate: Fate::Dropped, ..self },
            _ => self,
        }
    }
}

/// What a teardown did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// In the order they are dropped.
    pub items: Vec<Item>,
}

/// One line per thing.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plan = self.items.iter().any(|item| item.fate == Fate::Drop);
        let width = if is_plan { "will drop".len() } else { 8 };
        for (number, Item { fate, thing, note }) in self.items.iter().enumerate() {
            let line_end = if number == 0 { "" } else { "\n" };
            write!(f, "{line_end}{fate:<width$} {thing}")?;
            if let Some(note) = note {
                write!(f, " ({note})")?;
            }
        }
        Ok(())
    }
}
