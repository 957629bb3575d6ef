//! Regular expressions that need no engine: texts around at most one `.*` or `.+`, with groups
//! anywhere. The default is one.
//!
//! Such an expression matches a value as a whole or not at all, and every group begins and ends at
//! a fixed distance from one of the value's ends.

use super::node::{Dot, End, LINE_TERMINATORS, Node, Times};

#[derive(Debug, Clone)]
pub(super) struct Plain {
    prefix: String,
    suffix: String,
    /// What stands between them, if anything can.
    middle: Option<Middle>,
    groups: Vec<Option<(Edge, Edge)>>,
}

#[derive(Debug, Clone, Copy)]
struct Middle {
    dot: Dot,
    can_be_empty: bool,
}

#[derive(Debug, Clone, Copy)]
enum Edge {
    FromStart(usize),
    FromEnd(usize),
}

impl Plain {
    /// `(.*)`
    pub(super) fn everything() -> Self {
        let whole = Some((Edge::FromStart(0), Edge::FromEnd(0)));
        Plain {
            prefix: String::new(),
            suffix: String::new(),
            middle: Some(Middle { dot: Dot::LineTerminators, can_be_empty: true }),
            groups: vec![whole, whole],
        }
    }

    /// None if the expression needs the engine.
    pub(super) fn of(node: &Node, group_count: usize) -> Option<Self> {
        let whole = Some((Edge::FromStart(0), Edge::FromEnd(0)));
        let mut groups = vec![None; group_count];
        groups.insert(0, whole);
        let mut plain =
            Plain { prefix: String::new(), suffix: String::new(), middle: None, groups };
        plain.add(node)?;
        let suffix = plain.suffix.len();
        // While the suffix grew, its end was not known.
        for (from, to) in plain.groups.iter_mut().skip(1).flatten() {
            for edge in [from, to] {
                if let Edge::FromEnd(place) = edge {
                    *place = suffix.checked_sub(*place)?;
                }
            }
        }
        Some(plain)
    }

    fn add(&mut self, node: &Node) -> Option<()> {
        match node {
            Node::Empty => {}
            Node::Literal(char) if self.middle.is_some() => self.suffix.push(*char),
            Node::Literal(char) => self.prefix.push(*char),
            Node::Start if self.prefix.is_empty() && self.middle.is_none() => {}
            // Nothing follows it, or it would have been refused.
            Node::End { end: End::LastLine | End::LastUnixLine, .. } => {}
            Node::Repeat { body, times } if self.middle.is_none() => {
                let (Node::Dot(dot), Times { min: 0 | 1, max: None, is_greedy: true }) =
                    (&**body, times)
                else {
                    return None;
                };
                self.middle = Some(Middle { dot: *dot, can_be_empty: times.min == 0 });
            }
            Node::Group { number, body, .. } => {
                let from = self.edge();
                self.add(body)?;
                let to = self.edge();
                if let Some(group) = number.and_then(|number| self.groups.get_mut(number)) {
                    *group = Some((from, to));
                }
            }
            Node::Sequence(parts) => parts.iter().try_for_each(|part| self.add(part))?,
            _ => return None,
        }
        Some(())
    }

    /// Where we are. After the middle, the distance is that to the beginning of the suffix at first.
    fn edge(&self) -> Edge {
        if self.middle.is_some() {
            Edge::FromEnd(self.suffix.len())
        } else {
            Edge::FromStart(self.prefix.len())
        }
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        let Some(text) = self.between(value) else { return false };
        let Some(middle) = self.middle else { return text.is_empty() };
        (middle.can_be_empty || !text.is_empty())
            && match middle.dot {
                Dot::Nothing => true,
                Dot::Newline => !text.contains('\n'),
                Dot::LineTerminators => !has_line_terminator(text),
            }
    }

    /// What stands between prefix and suffix. To compare with an empty text, whose address is none,
    /// can take ten times as long as everything else here.
    fn between<'v>(&self, value: &'v str) -> Option<&'v str> {
        let mut text = value;
        if !self.prefix.is_empty() {
            text = text.strip_prefix(self.prefix.as_str())?;
        }
        if !self.suffix.is_empty() {
            text = text.strip_suffix(self.suffix.as_str())?;
        }
        Some(text)
    }

    /// What a group matched in a value that matches.
    pub(super) fn group<'v>(&self, value: &'v str, number: usize) -> &'v str {
        let place = |edge| match edge {
            Edge::FromStart(distance) => distance,
            Edge::FromEnd(distance) => value.len().saturating_sub(distance),
        };
        let group = self.groups.get(number).copied().flatten();
        group.and_then(|(from, to)| value.get(place(from)..place(to))).unwrap_or_default()
    }
}

/// All terminators but two begin with a byte that few values have, which is found much faster.
fn has_line_terminator(text: &str) -> bool {
    let is_first_byte = |byte: u8| matches!(byte, b'\n' | b'\r' | 0xC2 | 0xE2);
    text.bytes().any(is_first_byte) && text.contains(LINE_TERMINATORS)
}
