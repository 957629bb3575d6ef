//! Rows and messages of one transaction in the order in which they were written. No I/O.
//!
//! The server merges the writes of a transaction's subtransactions by position. The position of a
//! row is where its record begins, that of a message where its record *ends* (`logicalmsg_decode`
//! in decode.c). So a message and the row written right after it, under another savepoint, have the
//! same position, and the server may send the row first. A row is therefore held until the frame
//! after it is seen, at the latest the commit, which takes microseconds.
//!
//! The order that comes out depends on the rows and messages alone: not on how the bytes were cut,
//! nor on descriptions of tables and types, which a session gets when it first needs them. So
//! events can be counted, and the next session gets the same counts (ADR 26).

use std::collections::VecDeque;

use bytes::Bytes;

use crate::framing::Frame;
use crate::lsn::Lsn;

/// Only the rows of one page, written by COPY, can share a position. Rows beyond this are not held.
const HELD_ROWS_MAX: usize = 300;
const HELD_BYTES_MAX: usize = 1024 * 1024;

const INSERT: u8 = b'I';
const LOGICAL: u8 = b'M';
const RELATION: u8 = b'R';
const TYPE: u8 = b'Y';

/// Sorts the rows and messages of one position.
#[derive(Debug, Default)]
pub struct SamePositionOrder {
    /// Rows of one position.
    held: VecDeque<Bytes>,
    held_bytes: usize,
    position: Lsn,
    /// Frames whose place is known, in order.
    ready: VecDeque<Frame>,
}

impl SamePositionOrder {
    /// The next frame whose place is known. `next` returns those that have arrived completely.
    pub fn pop<E>(
        &mut self,
        mut next: impl FnMut() -> Result<Option<Frame>, E>,
    ) -> Result<Option<Frame>, E> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(Some(frame));
            }
            let Some(frame) = next()? else { return Ok(None) };
            let Frame::Data { position, message } = frame else {
                // A keepalive says nothing about a transaction.
                return Ok(Some(frame));
            };
            let tag = message.first().copied();
            let tied = !self.held.is_empty() && position == self.position;
            match tag {
                // A description at the position of the held rows describes their own table, as it
                // was for them: the catalog does not change within one record.
                Some(LOGICAL | RELATION | TYPE) if tied => {
                    return Ok(Some(Frame::Data { position, message }));
                }
                Some(INSERT) if tied && self.has_room() => self.hold(position, message),
                Some(INSERT) => {
                    self.release();
                    self.hold(position, message);
                }
                _ if self.held.is_empty() => return Ok(Some(Frame::Data { position, message })),
                _ => {
                    self.release();
                    self.ready.push_back(Frame::Data { position, message });
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.held.len() < HELD_ROWS_MAX && self.held_bytes < HELD_BYTES_MAX
    }

    fn hold(&mut self, position: Lsn, message: Bytes) {
        self.position = position;
        self.held_bytes += message.len();
        self.held.push_back(message);
    }

    fn release(&mut self) {
        let position = self.position;
        let rows = self.held.drain(..).map(|message| Frame::Data { position, message });
        self.ready.extend(rows);
        self.held_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `I7a` is an insert at position 7, `M7` a message, `k` a keepalive, `.` the end of what is
    /// here.
    fn sorted(frames: &str) -> String {
        let frames: Vec<Option<Frame>> = frames
            .split(' ')
            .map(|text| match text {
                "." => None,
                "k" => Some(Frame::Keepalive { wal_end: Lsn::ZERO, reply_requested: false }),
                _ => {
                    let digit = text.chars().nth(1).and_then(|it| it.to_digit(10)).unwrap();
                    let message = Bytes::copy_from_slice(text.as_bytes());
                    Some(Frame::Data { position: Lsn::new(digit.into()), message })
                }
            })
            .collect();
        let mut frames = frames.into_iter();
        let mut ties = SamePositionOrder::default();
        let mut seen = Vec::new();
        while frames.len() > 0 || !ties.ready.is_empty() {
            let popped = ties.pop(|| Ok::<_, ()>(frames.next().flatten())).unwrap();
            seen.push(match popped {
                None => ".".to_owned(),
                Some(Frame::Keepalive { .. }) => "k".to_owned(),
                Some(Frame::Data { message, .. }) => String::from_utf8(message.to_vec()).unwrap(),
            });
        }
        seen.join(" ")
    }

    #[test]
    fn a_message_goes_before_the_rows_of_its_position() {
        let check = |given: &str, expect: &str| assert_eq!(sorted(given), expect, "{given}");
        check("B0 I1 M1 C9", "B0 M1 I1 C9");
        check("B0 I1a I1b I1c M1 C9", "B0 M1 I1a I1b I1c C9");
        check("B0 I1 M2 I2 M3 C9", "B0 I1 M2 I2 M3 C9");
        check("B0 I1 I2 M2 I3 M3 C9", "B0 I1 M2 I2 M3 I3 C9");
        check("B0 R1 I1 M1 R2 I2 C9", "B0 R1 M1 I1 R2 I2 C9");
        check("B0 I1a R1 I1b Y1 M1 C9", "B0 R1 Y1 M1 I1a I1b C9");
        check("B0 I1 R2 I2 M2 C9", "B0 I1 R2 M2 I2 C9");
        // Of another transaction.
        check("B0 I1 C9 B0 M1 C9", "B0 I1 C9 B0 M1 C9");
        // Frames that have not arrived yet are waited for.
        check("B0 I1 . k M1 . C9", "B0 . k M1 . I1 C9");
    }

    proptest! {
        /// Events are counted after this: another session must see them in the same order.
        #[test]
        fn the_order_depends_on_rows_and_messages_alone(
            groups in prop::collection::vec((1..4usize, any::<bool>(), any::<bool>()), 1..6),
            noise in prop::collection::vec((0..4usize, 0..40usize), 0..20),
        ) {
            // The rows of each position, perhaps with a message before or after them.
            let mut frames = vec!["B0".to_owned()];
            for (position, (rows, message, first)) in (1..).zip(groups) {
                let place = if first { frames.len() } else { frames.len() + rows };
                frames.extend((0..rows).map(|row| format!("I{position}{row}")));
                if message {
                    frames.insert(place, format!("M{position}"));
                }
            }
            frames.push("C9".to_owned());
            let events = |sorted: String| -> Vec<String> {
                sorted.split(' ').filter(|it| it.starts_with(['I', 'M'])).map(str::to_owned).collect()
            };
            let plain = events(sorted(&frames.join(" ")));
            let mut noisy = frames;
            for (kind, place) in noise {
                let place = 1 + place % (noisy.len() - 1);
                // A description comes right before a row, at its position.
                let row = (place..noisy.len()).find(|at| noisy[*at].starts_with('I'));
                match (kind, row) {
                    (0, _) => noisy.insert(place, "k".to_owned()),
                    (1, _) => noisy.insert(place, ".".to_owned()),
                    (_, None) => {}
                    (kind, Some(row)) => {
                        let tag = if kind == 2 { 'R' } else { 'Y' };
                        let frame = format!("{tag}{}", &noisy[row][1..2]);
                        noisy.insert(row, frame);
                    }
                }
            }
            prop_assert_eq!(events(sorted(&noisy.join(" "))), plain);
        }
    }

    #[test]
    fn what_is_held_is_bounded() {
        let rows = "I1 ".repeat(HELD_ROWS_MAX + 1);
        let seen = sorted(&format!("B0 {rows}M1 C9"));
        assert_eq!(seen, format!("B0 {}M1 I1 C9", "I1 ".repeat(HELD_ROWS_MAX)));
    }
}
