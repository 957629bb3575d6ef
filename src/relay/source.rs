//! A row or a message as it came, to be read again if it is refused.

use std::sync::Arc;

use bytes::Bytes;

use super::stop::Stop;
use crate::outbox::{Layout, Row};
use crate::pgoutput::{DecodeError, Message, PgTime, decode};
use crate::transaction::Position;

/// A slice of what was received, and how to read it: nothing is copied.
#[derive(Clone)]
pub(super) struct Source {
    message: Bytes,
    layout: Arc<Layout>,
    position: Position,
    commit_time: PgTime,
}

impl Source {
    pub(super) fn of(row: &Row<'_>, message: &Bytes, layout: &Arc<Layout>) -> Self {
        Source {
            message: message.clone(),
            layout: Arc::clone(layout),
            position: row.position,
            commit_time: row.commit_time,
        }
    }

    pub(super) fn commit_time(&self) -> PgTime {
        self.commit_time
    }

    pub(super) fn message(&self) -> &Bytes {
        &self.message
    }

    pub(super) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Shows the row.
    pub(super) fn read<T>(
        &self,
        look: impl FnOnce(&Row<'_>) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        match decode(&self.message)? {
            Message::Insert { row, .. } => {
                look(&Row::read(&self.layout, &row, self.position, self.commit_time)?)
            }
            Message::Logical { content, .. } => {
                look(&Row::of_message(&self.layout, content, self.position, self.commit_time))
            }
            _ => Err(DecodeError::UnknownRelation(0).into()),
        }
    }
}
