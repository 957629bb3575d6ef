//! A regular expression, taken apart.

use super::cursor::Span;

/// What ends a line in Java, and what `.` leaves out.
pub(super) const LINE_TERMINATORS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// A part of a regular expression, with everything decided that flags decide.
#[derive(Debug)]
pub(super) enum Node {
    /// No character.
    Empty,
    /// This character.
    Literal(char),
    /// One of many characters, in the syntax of the crate `regex`.
    Class(String),
    /// `.`
    Dot(Dot),
    /// `\R`
    LineBreak,
    /// The beginning of the text.
    Start,
    /// The end of the text, or nearly.
    End {
        end: End,
        span: Span,
    },
    Group {
        /// Its number, if it has one.
        number: Option<usize>,
        body: Box<Node>,
        span: Span,
    },
    Repeat {
        body: Box<Node>,
        times: Times,
    },
    Sequence(Vec<Node>),
    /// One of these, the earlier the better.
    Choice(Vec<Node>),
}

/// What `.` leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dot {
    LineTerminators,
    /// With `(?d)`.
    Newline,
    /// With `(?s)`.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// `\z`
    Text,
    /// `$` and `\Z`: also before a line terminator that ends the text.
    LastLine,
    /// The same with `(?d)`, where only a newline is a line terminator.
    LastUnixLine,
}

/// How often something is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    /// As often as possible, rather than as rarely.
    pub(super) is_greedy: bool,
}

impl Times {
    /// `?`, which Java treats as a choice; everything else is a loop there.
    pub(super) fn is_option(self) -> bool {
        self.min == 0 && self.max == Some(1)
    }
}

impl Node {
    /// Whether there is a text without characters that it matches.
    pub(super) fn can_be_empty(&self) -> bool {
        match self {
            Node::Empty | Node::Start | Node::End { .. } => true,
            Node::Literal(_) | Node::Class(_) | Node::Dot(_) | Node::LineBreak => false,
            Node::Group { body, .. } => body.can_be_empty(),
            Node::Repeat { body, times } => times.min == 0 || body.can_be_empty(),
            Node::Sequence(parts) => parts.iter().all(Node::can_be_empty),
            Node::Choice(choices) => choices.iter().any(Node::can_be_empty),
        }
    }

    pub(super) fn has_line_break(&self) -> bool {
        match self {
            Node::LineBreak => true,
            Node::Group { body, .. } | Node::Repeat { body, .. } => body.has_line_break(),
            Node::Sequence(parts) | Node::Choice(parts) => parts.iter().any(Node::has_line_break),
            _ => false,
        }
    }
}
