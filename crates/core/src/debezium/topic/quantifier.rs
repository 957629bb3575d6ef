//! Repetitions: `?`, `*`, `+`, `{2,3}`, as often or as rarely as possible.

use super::cursor::Mark;
use super::error::{RegexFault, TopicRouterError};
use super::node::{Node, Times};
use super::parse::Parser;

/// The engine writes a counted repetition out.
pub(super) const REPETITIONS_MAX: u32 = 1000;

impl Parser<'_> {
    /// The part that began at `start`, with the repetition that may follow it.
    pub(super) fn repeated(&mut self, part: Node, start: Mark) -> Result<Node, TopicRouterError> {
        self.skip_comments()?;
        let Some((min, max)) = self.counts()? else { return Ok(part) };
        self.skip_comments()?;
        let is_greedy = !self.cursor.take_if('?');
        let times = Times { min, max, is_greedy };
        let fault = if self.cursor.take_if('+') {
            RegexFault::Possessive
        } else if matches!(part, Node::Start | Node::End { .. }) {
            RegexFault::RepeatedAnchor
        } else if part.has_line_break() {
            RegexFault::RepeatedLineBreak
        } else if part.can_be_empty() && !times.is_option() {
            // A loop ends with its first empty turn in Java. In an automaton it can have another.
            RegexFault::RepeatedEmpty
        } else {
            return Ok(Node::Repeat { body: Box::new(part), times });
        };
        Err(self.cursor.fault(start, fault))
    }

    /// How often, if a repetition follows.
    fn counts(&mut self) -> Result<Option<(u32, Option<u32>)>, TopicRouterError> {
        let start = self.cursor.mark();
        match self.cursor.take_where(|char| "?*+{".contains(char)) {
            Some('?') => Ok(Some((0, Some(1)))),
            Some('*') => Ok(Some((0, None))),
            Some('+') => Ok(Some((1, None))),
            Some(_) => self.braces(start).map(Some),
            None => Ok(None),
        }
    }

    fn braces(&mut self, start: Mark) -> Result<(u32, Option<u32>), TopicRouterError> {
        let min = self.number(start)?;
        let max = if !self.cursor.take_if(',') {
            min
        } else if self.cursor.sees('}') {
            None
        } else {
            self.number(start)?
        };
        let fault = match min {
            Some(_) if !self.cursor.take_if('}') => RegexFault::Repetition,
            Some(min) if max.is_some_and(|max| max < min) => RegexFault::RepetitionRange,
            Some(min) => return Ok((min, max)),
            None => RegexFault::Repetition,
        };
        Err(self.cursor.fault(start, fault))
    }

    fn number(&mut self, start: Mark) -> Result<Option<u32>, TopicRouterError> {
        let mut number = None;
        while let Some(char) = self.cursor.take_where(|char| char.is_ascii_digit()) {
            let digit = char.to_digit(10).unwrap_or_default();
            let longer = number.unwrap_or(0u32).saturating_mul(10).saturating_add(digit);
            if longer > REPETITIONS_MAX {
                return Err(self.cursor.fault(start, RegexFault::TooManyRepetitions));
            }
            number = Some(longer);
        }
        Ok(number)
    }
}
