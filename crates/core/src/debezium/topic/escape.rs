//! What a backslash and the characters after it mean.

use super::cursor::Mark;
use super::error::{RegexFault, TopicRouterError};
use super::node::{End, Node};
use super::parse::Parser;

/// What an escape stands for.
pub(super) enum Escaped {
    Char(char),
    /// In the syntax of the crate `regex`.
    Class(String),
    /// Something that has no place in a class.
    Node(Node),
}

impl Parser<'_> {
    /// After the backslash, which was at `start`.
    pub(super) fn escape(&mut self, start: Mark) -> Result<Escaped, TopicRouterError> {
        let Some(symbol) = self.cursor.take() else {
            return Err(self.cursor.fault(start, RegexFault::TrailingBackslash));
        };
        if let Some(class) = class(symbol.char) {
            return Ok(Escaped::Class(class.to_owned()));
        }
        let char = match symbol.char {
            'p' | 'P' => return self.property(start, symbol.char == 'P').map(Escaped::Class),
            'A' => return Ok(Escaped::Node(Node::Start)),
            'R' => return Ok(Escaped::Node(Node::LineBreak)),
            'Z' => return Ok(Escaped::Node(self.last_line(start))),
            'z' => {
                let span = self.cursor.since(start);
                return Ok(Escaped::Node(Node::End { end: End::Text, span }));
            }
            '0' => self.octal(start)?,
            'x' => self.hexadecimal(start)?,
            'u' => self.utf16(start)?,
            'c' => self.control(start)?,
            'a' => '\x07',
            'e' => '\x1B',
            'f' => '\x0C',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            char if char.is_ascii_alphanumeric() => {
                return Err(self.cursor.fault(start, only_in_java(char)));
            }
            char => char,
        };
        Ok(Escaped::Char(char))
    }

    /// `\0`, and up to three digits while the number is that of a byte.
    fn octal(&mut self, start: Mark) -> Result<char, TopicRouterError> {
        self.no_comments(start)?;
        let mut code = 0;
        for place in 0..3 {
            if place == 2 && code > 0o37 {
                break;
            }
            match self.cursor.take_where(|char| char.is_digit(8)) {
                Some(digit) => code = code * 8 + digit.to_digit(8).unwrap_or_default(),
                None if place == 0 => return Err(self.cursor.fault(start, RegexFault::Octal)),
                None => break,
            }
        }
        self.char(start, code)
    }

    /// `\x41`, `\x{1F600}`
    fn hexadecimal(&mut self, start: Mark) -> Result<char, TopicRouterError> {
        let is_braced = self.cursor.take_if('{');
        let code = if is_braced { self.braced_digits() } else { self.digits(2) };
        match code {
            Some(code) if !is_braced || self.cursor.take_if('}') => self.char(start, code),
            _ => Err(self.cursor.fault(start, RegexFault::Hexadecimal)),
        }
    }

    /// `\u0041`, or two of them for a character outside of the basic plane.
    fn utf16(&mut self, start: Mark) -> Result<char, TopicRouterError> {
        let wrong = |parser: &Self| parser.cursor.fault(start, RegexFault::Hexadecimal);
        let first = self.digits(4).ok_or_else(|| wrong(self))?;
        let is_pair = (0xD800..0xDC00).contains(&first);
        if !is_pair || !self.cursor.sees('\\') || !self.cursor.sees_after(1, 'u') {
            return self.char(start, first);
        }
        self.cursor.take();
        self.cursor.take();
        let second = self.digits(4).ok_or_else(|| wrong(self))?;
        match second.checked_sub(0xDC00) {
            Some(low) if low < 0x400 => self.char(start, 0x10000 + (first - 0xD800) * 0x400 + low),
            _ => Err(self.cursor.fault(start, RegexFault::Surrogate)),
        }
    }

    /// `\cA`: any character, with one bit of its code flipped.
    fn control(&mut self, start: Mark) -> Result<char, TopicRouterError> {
        self.no_comments(start)?;
        let Some(char) = self.cursor.take_where(|_| true) else {
            return Err(self.cursor.fault(start, RegexFault::Control));
        };
        self.char(start, u32::from(char) ^ 0x40)
    }

    /// With `(?x)`, Java lets white space stand inside of these escapes.
    fn no_comments(&self, start: Mark) -> Result<(), TopicRouterError> {
        if self.flags.has_comments {
            return Err(self.cursor.fault(start, RegexFault::EscapeInComments));
        }
        Ok(())
    }

    fn digits(&mut self, count: usize) -> Option<u32> {
        let mut code = 0;
        for _ in 0..count {
            code = code * 16
                + self.cursor.take_where(|char| char.is_ascii_hexdigit())?.to_digit(16)?;
        }
        Some(code)
    }

    fn braced_digits(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some(char) = self.cursor.take_where(|char| char.is_ascii_hexdigit()) {
            let longer = code.unwrap_or(0) * 16 + char.to_digit(16)?;
            code = Some(longer).filter(|code| *code <= u32::from(char::MAX));
            code?;
        }
        code
    }

    fn char(&self, start: Mark, code: u32) -> Result<char, TopicRouterError> {
        char::from_u32(code).ok_or_else(|| self.cursor.fault(start, RegexFault::Surrogate))
    }
}

/// The classes with a letter of their own. All but `\h` and `\v` know ASCII only.
fn class(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => r"[\x20\t-\r]",
        'S' => r"[^\x20\t-\r]",
        'h' => HORIZONTAL,
        'H' => NOT_HORIZONTAL,
        'v' => r"[\n-\r\x{85}\x{2028}\x{2029}]",
        'V' => r"[^\n-\r\x{85}\x{2028}\x{2029}]",
        _ => return None,
    })
}

const HORIZONTAL: &str = r"[\t\x20\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}]";
const NOT_HORIZONTAL: &str =
    r"[^\t\x20\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}]";

/// Escapes that mean something in Java only, or nothing there either.
fn only_in_java(char: char) -> RegexFault {
    match char {
        'b' | 'B' => RegexFault::WordBoundary,
        'G' => RegexFault::LastMatch,
        'k' | '1'..='9' => RegexFault::BackReference,
        'N' => RegexFault::CharacterName,
        'X' => RegexFault::Grapheme,
        _ => RegexFault::Escape,
    }
}
