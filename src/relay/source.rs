//! An event as it came, to be read again if it is refused.

use std::sync::Arc;

use bytes::Bytes;

use super::stop::Stop;
use crate::replication::DETACHED_ABOVE_BYTES;
use postrider_core::pgoutput::{DecodeError, Message, PgTime, decode};
use postrider_core::row::{Layout, MESSAGE_BYTES_MAX, Row};
use postrider_core::transaction::Position;

/// What the bytes of an event are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A pgoutput message that inserts a row.
    Insert,
    /// The content of a logical message.
    Message,
    /// An event of a pack.
    Packed,
}

/// The bytes of an event, and how to read them. They are its own: a slice of what was received would keep
/// the receive buffer for as long as the event is in flight, with all that came for other tables in it.
#[derive(Clone)]
pub(super) struct Source {
    form: Form,
    bytes: Bytes,
    layout: Arc<Layout>,
    position: Position,
    commit_time: PgTime,
}

impl Source {
    /// Where the row was read from.
    pub(super) fn of(row: &Row<'_>, form: Form, bytes: Bytes, layout: &Arc<Layout>) -> Self {
        // A large frame has been detached, and is the event's own unless others came in it. What is larger
        // than any event of a pack has it almost to itself, and may be too much to be copied.
        let is_its_own = match form {
            Form::Insert | Form::Message => bytes.len() > DETACHED_ABOVE_BYTES,
            Form::Packed => bytes.len() > MESSAGE_BYTES_MAX,
        };
        Source {
            form,
            bytes: if is_its_own { bytes } else { Bytes::copy_from_slice(&bytes) },
            layout: Arc::clone(layout),
            position: row.position,
            commit_time: row.commit_time,
        }
    }

    pub(super) fn commit_time(&self) -> PgTime {
        self.commit_time
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Shows the row.
    pub(super) fn read<T>(
        &self,
        look: impl FnOnce(&Row<'_>) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let (layout, position, commit_time) = (&self.layout, self.position, self.commit_time);
        match self.form {
            Form::Insert => match decode(&self.bytes)? {
                Message::Insert { row, .. } => {
                    look(&Row::read(layout, &row, position, commit_time)?)
                }
                _ => Err(DecodeError::UnknownRelation(0).into()),
            },
            Form::Message => look(&Row::of_message(layout, &self.bytes, position, commit_time)),
            Form::Packed => look(&Row::of_pack(layout, &self.bytes, position, commit_time).0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_core::lsn::Lsn;

    fn is_copied(form: Form, bytes: usize) -> bool {
        let layout = Arc::new(Layout::of_messages(0));
        let position = Position {
            commit_lsn: Lsn::ZERO,
            change_lsn: Lsn::ZERO,
            ordinal: 0,
            in_transaction: 0,
        };
        let frame = Bytes::from(vec![0; bytes + 1]);
        let row = Row::of_message(&layout, &frame, position, PgTime(0));
        let source = Source::of(&row, form, frame.slice(1..), &layout);
        source.bytes.as_ptr() != frame.slice(1..).as_ptr()
    }

    #[test]
    fn an_event_keeps_no_more_than_its_own_bytes() {
        let large = DETACHED_ABOVE_BYTES + 1;
        assert!(is_copied(Form::Packed, large) && is_copied(Form::Packed, 10));
        assert!(!is_copied(Form::Packed, MESSAGE_BYTES_MAX + 1), "no event is as large");
        assert!(is_copied(Form::Insert, DETACHED_ABOVE_BYTES) && !is_copied(Form::Insert, large));
        assert!(!is_copied(Form::Message, large), "its frame has nothing else in it");
    }
}
