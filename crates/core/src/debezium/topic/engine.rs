//! Matching by the crate `regex`: a regular expression is written in its syntax, twice.
//!
//! The router asks first whether the whole value matches, and then replaces what `find` finds.
//! If the whole value matches, `find` succeeds at its beginning, so the first expression is anchored
//! there: it has the same choices in the same order as Java, and its match may be shorter than the
//! value. Only then the second one is asked whether there is another way to match all of it.

use std::fmt::Write;

use regex::{CaptureLocations, Regex, RegexBuilder};

use super::REGEX_CHARACTERS_MAX;
use super::class::push_range;
use super::node::{Dot, End, Node};

/// A compiled expression may take this much. The longest name of a topic fits, as letters of Unicode.
const COMPILED_BYTES_MAX: usize = 8 << 20;
/// Its states while it runs, per thread.
const STATES_BYTES_MAX: usize = 1 << 20;
/// No pattern has more levels, since each takes a character.
const NESTED_MAX: u32 = 4 * REGEX_CHARACTERS_MAX as u32;

#[derive(Debug, Clone)]
pub(super) struct Engine {
    /// Finds what Java finds at the beginning of a value.
    first: Regex,
    /// Whether the whole value matches.
    whole: Regex,
    /// The engine's groups.
    groups: Vec<Group>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// The group with this number in the pattern.
    Number(usize),
    /// The first of several choices.
    Choice,
    /// Without a text: where `$` was, and the match ends.
    End,
}

/// A match.
pub(super) struct Found<'v, 'e> {
    value: &'v str,
    engine: &'e Engine,
    places: CaptureLocations,
    /// Where it ends.
    end: usize,
}

impl Engine {
    /// `used` are the numbers of the groups whose text matters.
    pub(super) fn new(node: &Node, used: &[usize]) -> Result<Self, regex::Error> {
        let (first, groups) = Writer::write(node, Purpose::First { used });
        let (whole, _) = Writer::write(node, Purpose::Whole);
        Ok(Engine { first: compile(&first)?, whole: compile(&whole)?, groups })
    }

    /// What Java's `find` finds, if the whole value matches.
    pub(super) fn find<'v>(&self, value: &'v str) -> Option<Found<'v, '_>> {
        let mut places = self.first.capture_locations();
        let end = self.first.captures_read(&mut places, value)?.end();
        let ends = self.numbered().filter(|(group, _)| **group == Group::End);
        let cut = ends.filter_map(|(_, place)| places.get(place)).map(|(at, _)| at).min();
        let end = cut.unwrap_or(end);
        if end < value.len() && !self.whole.is_match(value) {
            return None;
        }
        Some(Found { value, engine: self, places, end })
    }

    /// The groups, and which of the engine's places is theirs. The first is that of the match.
    fn numbered(&self) -> impl Iterator<Item = (&Group, usize)> {
        self.groups.iter().zip(1..)
    }
}

impl<'v> Found<'v, '_> {
    /// What a group matched; nothing if it took no part.
    pub(super) fn group(&self, number: usize) -> &'v str {
        let group = Group::Number(number);
        let mut groups = self.engine.numbered();
        let place = match number {
            0 => Some(0),
            _ => groups.find(|(known, _)| **known == group).map(|(_, place)| place),
        };
        let found = place.and_then(|place| self.places.get(place));
        // What `$` took is cut off.
        found.and_then(|(from, to)| self.value.get(from..to.min(self.end))).unwrap_or_default()
    }

    /// The value after the match.
    pub(super) fn rest(&self) -> &'v str {
        self.value.get(self.end..).unwrap_or_default()
    }
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(STATES_BYTES_MAX)
        // Intersections count as levels, and there can be as many as fit into a pattern.
        .nest_limit(NESTED_MAX)
        .build()
}

#[derive(Clone, Copy)]
enum Purpose<'u> {
    First { used: &'u [usize] },
    Whole,
}

struct Writer<'u> {
    purpose: Purpose<'u>,
    pattern: String,
    groups: Vec<Group>,
}

impl<'u> Writer<'u> {
    fn write(node: &Node, purpose: Purpose<'u>) -> (String, Vec<Group>) {
        let mut writer = Writer { purpose, pattern: r"\A(?:".to_owned(), groups: Vec::new() };
        writer.node(node);
        writer.pattern.push_str(match purpose {
            Purpose::First { .. } => ")",
            Purpose::Whole => r")\z",
        });
        (writer.pattern, writer.groups)
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Empty => {}
            Node::Literal(char) => {
                self.pattern.push('[');
                push_range(&mut self.pattern, *char, *char);
                self.pattern.push(']');
            }
            Node::Class(class) => self.pattern.push_str(class),
            Node::Dot(dot) => self.pattern.push_str(match dot {
                Dot::LineTerminators => r"[^\n\r\x{85}\x{2028}\x{2029}]",
                Dot::Newline => r"[^\n]",
                Dot::Nothing => r"[\x{0}-\x{10FFFF}]",
            }),
            Node::LineBreak => {
                self.pattern.push_str(r"(?:\r\n|[\n-\r\x{85}\x{2028}\x{2029}])");
            }
            Node::Start => self.pattern.push_str(r"\A"),
            Node::End { end, .. } => self.end(*end),
            Node::Group { number, body, .. } => self.group(*number, body),
            Node::Repeat { body, times } => {
                self.node(body);
                let max = times.max.map(|max| max.to_string()).unwrap_or_default();
                let lazy = if times.is_greedy { "" } else { "?" };
                // Writing into a string does not fail.
                let _ = write!(self.pattern, "{{{},{max}}}{lazy}", times.min);
            }
            Node::Sequence(parts) => parts.iter().for_each(|part| self.node(part)),
            Node::Choice(choices) => self.choice(choices),
        }
    }

    /// The engine takes out what all choices begin with: `.+a|.+b` becomes `.+[ab]`, which finds the
    /// last `a` or `b`, and not the last `a` if there is one. It leaves choices alone if one of them
    /// is a group.
    fn choice(&mut self, choices: &[Node]) {
        let Some((first, others)) = choices.split_first() else { return };
        self.pattern.push('(');
        self.groups.push(Group::Choice);
        self.node(first);
        self.pattern.push(')');
        for other in others {
            self.pattern.push('|');
            self.node(other);
        }
    }

    fn group(&mut self, number: Option<usize>, body: &Node) {
        let kept = match (self.purpose, number) {
            (Purpose::First { used }, Some(number)) if used.contains(&number) => Some(number),
            _ => None,
        };
        self.pattern.push_str(if kept.is_some() { "(" } else { "(?:" });
        self.groups.extend(kept.map(Group::Number));
        self.node(body);
        self.pattern.push(')');
    }

    /// Java's `$` stands before a line terminator at the end, but not inside of `\r\n`. The engine
    /// can't look ahead: it takes the terminator, after an empty group that marks the place.
    fn end(&mut self, end: End) {
        let is_last = matches!(self.purpose, Purpose::Whole) || end == End::Text;
        if is_last {
            self.pattern.push_str(r"\z");
            return;
        }
        self.groups.push(Group::End);
        self.pattern.push_str(match end {
            End::LastUnixLine => r"(?:()\n?\z)",
            _ => r"(?:()(?:\z|(?mR:$)(?:\r\n|[\n\r])\z|[\x{85}\x{2028}\x{2029}]\z))",
        });
    }
}
