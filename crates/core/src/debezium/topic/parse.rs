//! Java's syntax of regular expressions: choices, sequences and groups.
//!
//! `java.util.regex.Pattern` reads its pattern in the same order, so that what it takes for a
//! character, for instance a `]` without a `[`, is one here.

use super::cursor::{Cursor, Mark};
use super::error::{RegexFault, TopicRouterError};
use super::escape::Escaped;
use super::node::{Dot, End, LINE_TERMINATORS, Node};

/// Groups and classes inside of others. Reading them is recursive, and the stack is not endless.
pub(super) const GROUP_DEPTH_MAX: usize = 50;

/// What is possible in the rest of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    /// `i`, which is about ASCII letters.
    pub(super) ignores_case: bool,
    /// `s`
    dot_is_everything: bool,
    /// `m`
    has_lines: bool,
    /// `d`
    has_unix_lines: bool,
    /// `x`
    pub(super) has_comments: bool,
}

/// The groups that have a number.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) count: usize,
    names: Vec<(String, usize)>,
}

impl Groups {
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.names.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }
}

#[derive(Debug)]
pub(super) struct Parser<'r> {
    pub(super) cursor: Cursor<'r>,
    pub(super) flags: Flags,
    groups: Groups,
    depth: usize,
}

/// What an opening parenthesis opens.
enum Opened {
    /// A group, with its number if it has one.
    Group(Option<usize>),
    /// `(?i)`: no group, but other flags from here on.
    Flags,
}

/// A regular expression, read.
#[derive(Debug)]
pub(super) struct Parsed<'r> {
    pub(super) node: Node,
    pub(super) groups: Groups,
    /// For errors that are found later.
    pub(super) cursor: Cursor<'r>,
}

/// Reads a regular expression.
pub(super) fn parse(regex: &str) -> Result<Parsed<'_>, TopicRouterError> {
    let cursor = Cursor::new(regex);
    let flags = Flags::default();
    let mut parser = Parser { cursor, flags, groups: Groups::default(), depth: 0 };
    let node = parser.choice()?;
    if parser.cursor.is_at_end() {
        return Ok(Parsed { node, groups: parser.groups, cursor: parser.cursor });
    }
    // Only a parenthesis ends a choice before the end.
    Err(parser.cursor.fault(parser.cursor.mark(), RegexFault::UnopenedGroup))
}

impl Parser<'_> {
    fn choice(&mut self) -> Result<Node, TopicRouterError> {
        let first = self.sequence()?;
        if !self.cursor.sees('|') {
            return Ok(first);
        }
        let mut choices = vec![first];
        while self.cursor.take_if('|') {
            choices.push(self.sequence()?);
        }
        Ok(Node::Choice(choices))
    }

    fn sequence(&mut self) -> Result<Node, TopicRouterError> {
        let mut parts = Vec::new();
        loop {
            self.skip_comments()?;
            if self.cursor.is_at_end() || self.cursor.sees('|') || self.cursor.sees(')') {
                return Ok(if parts.is_empty() { Node::Empty } else { Node::Sequence(parts) });
            }
            let start = self.cursor.mark();
            if let Some(part) = self.part()? {
                parts.push(self.repeated(part, start)?);
            }
        }
    }

    /// One part, before its repetition; none if it only changed flags.
    fn part(&mut self) -> Result<Option<Node>, TopicRouterError> {
        let start = self.cursor.mark();
        let Some(symbol) = self.cursor.take() else { return Ok(Some(Node::Empty)) };
        if symbol.is_quoted {
            return Ok(Some(self.literal(symbol.char)));
        }
        let node = match symbol.char {
            '(' => return self.group(start),
            '[' => Node::Class(self.class(start)?),
            '\\' => match self.escape(start)? {
                Escaped::Char(char) => self.literal(char),
                Escaped::Class(class) => Node::Class(class),
                Escaped::Node(node) => node,
            },
            '^' | '$' if self.flags.has_lines => {
                return Err(self.cursor.fault(start, RegexFault::LineAnchor));
            }
            '^' => Node::Start,
            '$' => self.last_line(start),
            '.' if self.flags.dot_is_everything => Node::Dot(Dot::Nothing),
            '.' if self.flags.has_unix_lines => Node::Dot(Dot::Newline),
            '.' => Node::Dot(Dot::LineTerminators),
            '?' | '*' | '+' | '{' => {
                return Err(self.cursor.fault(start, RegexFault::NothingToRepeat));
            }
            char => self.literal(char),
        };
        Ok(Some(node))
    }

    /// Whether a line ends with this character, with the flags.
    pub(super) fn ends_line(&self, char: char) -> bool {
        char == '\n' || !self.flags.has_unix_lines && LINE_TERMINATORS.contains(&char)
    }

    /// What `$` and `\Z` are with the flags.
    pub(super) fn last_line(&self, start: Mark) -> Node {
        let end = if self.flags.has_unix_lines { End::LastUnixLine } else { End::LastLine };
        Node::End { end, span: self.cursor.since(start) }
    }

    fn literal(&self, char: char) -> Node {
        if self.flags.ignores_case && char.is_ascii_alphabetic() {
            let (lower, upper) = (char.to_ascii_lowercase(), char.to_ascii_uppercase());
            return Node::Class(format!("[{lower}{upper}]"));
        }
        Node::Literal(char)
    }

    fn group(&mut self, start: Mark) -> Result<Option<Node>, TopicRouterError> {
        let outside = self.flags;
        let number = match self.opened(start)? {
            Opened::Flags => return Ok(None),
            Opened::Group(number) => number,
        };
        self.deeper(start)?;
        let body = Box::new(self.choice()?);
        if !self.cursor.take_if(')') {
            return Err(self.cursor.fault(start, RegexFault::UnclosedGroup));
        }
        self.depth -= 1;
        self.flags = outside;
        Ok(Some(Node::Group { number, body, span: self.cursor.since(start) }))
    }

    /// One more level, which is left by taking one off `depth`.
    pub(super) fn deeper(&mut self, start: Mark) -> Result<(), TopicRouterError> {
        self.depth += 1;
        if self.depth <= GROUP_DEPTH_MAX {
            return Ok(());
        }
        Err(self.cursor.fault(start, RegexFault::TooDeep))
    }

    pub(super) fn shallower(&mut self) {
        self.depth -= 1;
    }

    fn opened(&mut self, start: Mark) -> Result<Opened, TopicRouterError> {
        self.no_blank()?;
        if !self.cursor.take_if('?') {
            self.groups.count += 1;
            return Ok(Opened::Group(Some(self.groups.count)));
        }
        let fault = match self.cursor.take_where(|kind| ":=!><".contains(kind)) {
            Some(':') => return Ok(Opened::Group(None)),
            Some('<') => match self.cursor.take_where(|kind| "=!".contains(kind)) {
                Some(_) => RegexFault::LookBack,
                None => return self.name(start),
            },
            Some('>') => RegexFault::Atomic,
            Some(_) => RegexFault::LookAhead,
            None => return self.read_flags(start),
        };
        Err(self.cursor.fault(start, fault))
    }

    /// The name of a group, after `(?<`.
    fn name(&mut self, start: Mark) -> Result<Opened, TopicRouterError> {
        let mut name = String::new();
        while let Some(char) = self.cursor.take_where(|char| char.is_ascii_alphanumeric()) {
            name.push(char);
        }
        if !name.starts_with(|char: char| char.is_ascii_alphabetic()) || !self.cursor.take_if('>') {
            return Err(self.cursor.fault(start, RegexFault::GroupName));
        }
        if self.groups.number(&name).is_some() {
            return Err(self.cursor.fault(start, RegexFault::GroupNameTwice));
        }
        self.groups.count += 1;
        self.groups.names.push((name, self.groups.count));
        Ok(Opened::Group(Some(self.groups.count)))
    }

    /// Flags, after `(?`: `i`, `i-s`, and either `)` or `:`.
    fn read_flags(&mut self, start: Mark) -> Result<Opened, TopicRouterError> {
        let mut is_on = true;
        loop {
            let Some(flag) = self.cursor.take_where(|_| true) else {
                return Err(self.cursor.fault(start, RegexFault::GroupKind));
            };
            let fault = |fault| Err(self.cursor.fault(start, fault));
            match flag {
                'i' => self.flags.ignores_case = is_on,
                's' => self.flags.dot_is_everything = is_on,
                'm' => self.flags.has_lines = is_on,
                'd' => self.flags.has_unix_lines = is_on,
                'x' => self.flags.has_comments = is_on,
                '-' if is_on => is_on = false,
                ':' => return Ok(Opened::Group(None)),
                ')' => return Ok(Opened::Flags),
                'u' => return fault(RegexFault::UnicodeCase),
                'U' => return fault(RegexFault::UnicodeClasses),
                'c' => return fault(RegexFault::CanonicalEquivalence),
                _ => return fault(RegexFault::GroupKind),
            }
        }
    }
}
