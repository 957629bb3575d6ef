//! An event as it came, to be read again if it is refused.

use std::sync::Arc;

use bytes::Bytes;

use crate::replication::DETACHED_ABOVE_BYTES;
use crate::session_end::SessionEnd;
use postrider_core::pgoutput::{DecodeError, Message, PgTime, decode};
use postrider_core::row::{Layout, MESSAGE_BYTES_MAX, Row};
use postrider_core::transaction::Position;

/// What the bytes of an event are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// A pgoutput message that inserts a row.
    Insert,
    /// The content of a logical message.
    Message,
    /// An event of a pack.
    Packed,
}

/// The bytes of an event, and how to read them. They are its own: a slice of what was received
/// would keep the receive buffer for as long as the event is in flight, with all that came for
/// other tables in it.
#[derive(Clone)]
pub(crate) struct RawEvent {
    form: Encoding,
    bytes: Bytes,
    layout: Arc<Layout>,
    position: Position,
    commit_time: PgTime,
}

impl RawEvent {
    /// Where the row was read from.
    pub(crate) fn of(row: &Row<'_>, form: Encoding, bytes: Bytes, layout: &Arc<Layout>) -> Self {
        // A large frame has been detached, and is the event's own unless others came in it. A frame
        // larger than any event of a pack has almost nothing else in it, and may be too large to be
        // copied.
        let is_its_own = match form {
            Encoding::Insert | Encoding::Message => bytes.len() > DETACHED_ABOVE_BYTES,
            Encoding::Packed => bytes.len() > MESSAGE_BYTES_MAX,
        };
        RawEvent {
            form,
            bytes: if is_its_own { bytes } else { Bytes::copy_from_slice(&bytes) },
            layout: Arc::clone(layout),
            position: row.position,
            commit_time: row.commit_time,
        }
    }

    pub(crate) fn commit_time(&self) -> PgTime {
        self.commit_time
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Passes the row to `look`.
    pub(crate) fn read<T>(
        &self,
        look: impl FnOnce(&Row<'_>) -> Result<T, SessionEnd>,
    ) -> Result<T, SessionEnd> {
        let (layout, position, commit_time) = (&self.layout, self.position, self.commit_time);
        match self.form {
            Encoding::Insert => match decode(&self.bytes)? {
                Message::Insert { row, .. } => {
                    look(&Row::read(layout, &row, position, commit_time)?)
                }
                _ => Err(DecodeError::NotAnInsert.into()),
            },
            Encoding::Message => look(&Row::of_message(layout, &self.bytes, position, commit_time)),
            Encoding::Packed => look(&Row::of_pack(layout, &self.bytes, position, commit_time).0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_core::lsn::Lsn;

    fn is_copied(form: Encoding, bytes: usize) -> bool {
        let layout = Arc::new(Layout::of_messages(0));
        let position = Position {
            commit_lsn: Lsn::ZERO,
            change_lsn: Lsn::ZERO,
            ordinal: 0,
            in_transaction: 0,
        };
        let frame = Bytes::from(vec![0; bytes + 1]);
        let row = Row::of_message(&layout, &frame, position, PgTime(0));
        let source = RawEvent::of(&row, form, frame.slice(1..), &layout);
        source.bytes.as_ptr() != frame.slice(1..).as_ptr()
    }

    #[test]
    fn an_event_keeps_no_more_than_its_own_bytes() {
        let large = DETACHED_ABOVE_BYTES + 1;
        assert!(is_copied(Encoding::Packed, large) && is_copied(Encoding::Packed, 10));
        assert!(!is_copied(Encoding::Packed, MESSAGE_BYTES_MAX + 1), "no event is as large");
        assert!(
            is_copied(Encoding::Insert, DETACHED_ABOVE_BYTES)
                && !is_copied(Encoding::Insert, large)
        );
        assert!(!is_copied(Encoding::Message, large), "its frame has nothing else in it");
    }
}
