//! `(?x)`: white space between the parts of a regular expression, and comments.
//!
//! Java leaves out white space in nearly every place then, also inside of classes, numbers and
//! names. Here it is left out between the parts, and refused everywhere else.

use super::error::{RegexFault, TopicRouterError};
use super::parse::Parser;

/// `\s`, which is what Java leaves out.
fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t'..='\r')
}

impl Parser<'_> {
    /// Skips what `(?x)` leaves out between parts.
    pub(super) fn skip_comments(&mut self) -> Result<(), TopicRouterError> {
        while self.flags.has_comments {
            if self.cursor.peek().is_some_and(|next| next.is_quoted) {
                return Err(self.cursor.fault(self.cursor.mark(), RegexFault::QuoteInComments));
            }
            if self.cursor.take_if('#') {
                self.skip_line()?;
            } else if self.cursor.take_where(is_blank).is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The rest of a comment. Its line terminator is left: Java takes those that are not ASCII for
    /// characters of the pattern.
    fn skip_line(&mut self) -> Result<(), TopicRouterError> {
        loop {
            let start = self.cursor.mark();
            let Some(next) = self.cursor.peek() else { return Ok(()) };
            if next.is_quoted {
                return Err(self.cursor.fault(start, RegexFault::QuoteInComments));
            }
            // Java takes it for the end of the pattern here, and then does not.
            if next.char == '\0' {
                return Err(self.cursor.fault(start, RegexFault::NulInComment));
            }
            if self.ends_line(next.char) {
                return Ok(());
            }
            self.cursor.take();
        }
    }

    /// Refuses white space and comments in places where Java would leave them out.
    pub(super) fn no_blank(&self) -> Result<(), TopicRouterError> {
        let is_left_out = |char: char| is_blank(char) || char == '#';
        let next = self.cursor.peek();
        if self.flags.has_comments && next.is_some_and(|next| is_left_out(next.char)) {
            return Err(self.cursor.fault(self.cursor.mark(), RegexFault::Blank));
        }
        Ok(())
    }
}
