//! Java's syntax of replacements: `$1`, `${name}`, and `\` before a character that means itself.

use super::REPLACEMENT_CHARACTERS_MAX;
use super::error::{ReplacementFault, TopicRouterError, shown};
use super::parse::Groups;

/// A part of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// What the group with this number matched; 0 is the whole match.
    Group(usize),
}

impl Piece {
    /// The number of its group.
    pub(super) fn group(&self) -> Option<usize> {
        match self {
            Piece::Text(_) => None,
            Piece::Group(number) => Some(*number),
        }
    }

    /// How long it is, apart from what a group matches.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Piece::Text(text) => text.len(),
            Piece::Group(_) => 0,
        }
    }
}

struct Reader<'r> {
    replacement: &'r str,
    groups: &'r Groups,
    rest: &'r str,
}

/// Reads a replacement for the matches of a regular expression with these groups.
pub(super) fn parse(replacement: &str, groups: &Groups) -> Result<Vec<Piece>, TopicRouterError> {
    let characters = replacement.chars().count();
    if characters > REPLACEMENT_CHARACTERS_MAX {
        return Err(TopicRouterError::ReplacementTooLong(characters));
    }
    let mut reader = Reader { replacement, groups, rest: replacement };
    let mut pieces = Vec::new();
    let mut text = String::new();
    loop {
        let start = reader.rest;
        match reader.take() {
            Some('\\') => match reader.take() {
                Some(char) => text.push(char),
                None => return Err(reader.fault(start, ReplacementFault::TrailingBackslash)),
            },
            Some('$') => {
                let group = reader.group().map_err(|fault| reader.fault(start, fault))?;
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Group(group));
            }
            Some(char) => text.push(char),
            None => break,
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

impl Reader<'_> {
    fn take(&mut self) -> Option<char> {
        self.take_where(|_| true)
    }

    fn take_where(&mut self, fits: impl Fn(char) -> bool) -> Option<char> {
        let mut rest = self.rest.chars();
        let char = rest.next().filter(|char| fits(*char))?;
        self.rest = rest.as_str();
        Some(char)
    }

    /// The number of a group, after the `$`.
    fn group(&mut self) -> Result<usize, ReplacementFault> {
        if self.take_where(|char| char == '{').is_none() {
            return self.number();
        }
        let mut name = String::new();
        while let Some(char) = self.take_where(|char| char.is_ascii_alphanumeric()) {
            name.push(char);
        }
        let is_name = name.starts_with(|char: char| char.is_ascii_alphabetic());
        if self.take_where(|char| char == '}').is_none() || !is_name {
            return Err(ReplacementFault::Reference);
        }
        self.groups.number(&name).ok_or(ReplacementFault::NoSuchGroup)
    }

    /// A digit, and further ones as long as there is such a group.
    fn number(&mut self) -> Result<usize, ReplacementFault> {
        let digit = |char: char| char.to_digit(10).map(|digit| digit as usize);
        let first = self.take_where(|char| char.is_ascii_digit()).and_then(digit);
        let mut number = first.ok_or(ReplacementFault::Reference)?;
        while let Some(next) = self.rest.chars().next().and_then(digit) {
            let longer = number * 10 + next;
            if longer > self.groups.count {
                break;
            }
            number = longer;
            self.take();
        }
        if number > self.groups.count {
            return Err(ReplacementFault::NoSuchGroup);
        }
        Ok(number)
    }

    /// The error about what was read since then.
    fn fault(&self, since: &str, fault: ReplacementFault) -> TopicRouterError {
        let before = |rest: &str| self.replacement.chars().count() - rest.chars().count();
        let (from, until) = (before(since), before(self.rest));
        let construct: String = self.replacement.chars().take(until).skip(from).collect();
        TopicRouterError::Replacement {
            replacement: shown(self.replacement),
            construct: shown(&construct),
            at: from + 1,
            fault,
        }
    }
}
