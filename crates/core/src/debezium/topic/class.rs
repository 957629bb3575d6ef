//! Classes in brackets: unions, ranges, negations, and intersections with `&&`.
//!
//! A class is translated to brackets inside of brackets, so that it does not matter how the engine
//! orders its operators. Every character is written as its code, so that none is an operator.

use std::fmt::Write;

use super::cursor::Mark;
use super::error::{RegexFault, TopicRouterError};
use super::escape::Escaped;
use super::parse::Parser;

impl Parser<'_> {
    /// After the bracket, which was at `start`.
    pub(super) fn class(&mut self, start: Mark) -> Result<String, TopicRouterError> {
        self.deeper(start)?;
        let negation = if self.cursor.take_if('^') { "^" } else { "" };
        let mut class = format!("[{negation}{}", self.operand(start, true)?);
        while self.cursor.take_if('&') && self.cursor.take_if('&') {
            class.push_str("&&");
            class.push_str(&self.operand(start, false)?);
        }
        // Only a closing bracket ends the last operand.
        self.cursor.take();
        self.shallower();
        class.push(']');
        Ok(class)
    }

    /// Everything up to `&&` or the bracket at the end.
    fn operand(&mut self, start: Mark, is_first: bool) -> Result<String, TopicRouterError> {
        let mut union = String::new();
        let begins_with_class = self.cursor.sees('[');
        let mut has_items = false;
        loop {
            self.no_blank()?;
            if self.cursor.is_at_end() {
                return Err(self.cursor.fault(start, RegexFault::UnclosedClass));
            }
            let here = self.cursor.mark();
            let is_and = self.cursor.sees('&') && self.cursor.sees_after(1, '&');
            // A class contains something: a bracket at its beginning is a character.
            let is_end = self.cursor.sees(']') && !(is_first && union.is_empty());
            // Where Java takes a part of the right side for all of it, or adds to the left side
            // what stands on the right.
            let is_odd = if is_and {
                let is_mixed = !is_first && begins_with_class && has_items;
                union.is_empty() || is_mixed || self.cursor.sees_after(2, '&')
            } else {
                !is_first && (is_end && union.is_empty() || self.cursor.sees('&'))
            };
            if is_odd {
                return Err(self.cursor.fault(here, RegexFault::Intersection));
            }
            if is_end || is_and {
                return Ok(format!("[{union}]"));
            }
            if self.cursor.take_if('[') {
                union.push_str(&self.class(here)?);
            } else {
                self.item(here, &mut union)?;
                has_items = true;
            }
        }
    }

    /// A character, a range, or a class with a name.
    fn item(&mut self, start: Mark, union: &mut String) -> Result<(), TopicRouterError> {
        let first = match self.member(start)? {
            Escaped::Char(char) => char,
            Escaped::Class(class) => {
                union.push_str(&class);
                return Ok(());
            }
            Escaped::Node(_) => return Err(self.cursor.fault(start, RegexFault::Escape)),
        };
        self.no_blank()?;
        // Before a bracket, a dash is a character.
        let is_range = self.cursor.sees('-')
            && !self.cursor.sees_after(1, '[')
            && !self.cursor.sees_after(1, ']');
        if !is_range {
            self.add(union, first, first);
            return Ok(());
        }
        self.cursor.take();
        self.no_blank()?;
        let last = match self.member(start)? {
            Escaped::Char(last) if last >= first => last,
            _ => return Err(self.cursor.fault(start, RegexFault::ClassRange)),
        };
        self.add(union, first, last);
        Ok(())
    }

    /// One character, escaped or not, or what an escape stands for.
    fn member(&mut self, start: Mark) -> Result<Escaped, TopicRouterError> {
        let here = self.cursor.mark();
        let Some(symbol) = self.cursor.take() else {
            return Err(self.cursor.fault(start, RegexFault::UnclosedClass));
        };
        if symbol.is_quoted || symbol.char != '\\' {
            return Ok(Escaped::Char(symbol.char));
        }
        // In a range, Java takes `\v` for the one character that it was long ago.
        if self.cursor.sees('v') && self.cursor.sees_after(1, '-') {
            return Err(self.cursor.fault(here, RegexFault::VerticalTabRange));
        }
        self.escape(here)
    }

    /// Adds a range. Where case is ignored, Java adds the other case of the ASCII letters in it.
    fn add(&self, union: &mut String, first: char, last: char) {
        push_range(union, first, last);
        if !self.flags.ignores_case {
            return;
        }
        for (from, to, other) in [('A', 'Z', 'a'), ('a', 'z', 'A')] {
            let (first, last) = (first.max(from), last.min(to));
            if first <= last {
                let swapped = |char: char| u32::from(char) - u32::from(from) + u32::from(other);
                let (first, last) = (swapped(first), swapped(last));
                push_codes(union, first, last);
            }
        }
    }
}

pub(super) fn push_range(union: &mut String, first: char, last: char) {
    push_codes(union, first.into(), last.into());
}

fn push_codes(union: &mut String, first: u32, last: u32) {
    // Writing into a string does not fail.
    let _ = write!(union, r"\x{{{first:X}}}-\x{{{last:X}}}");
}
