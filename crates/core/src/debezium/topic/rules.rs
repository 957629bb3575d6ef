//! What Java matches in a way that the engine can't, although both read it alike.

use super::cursor::Span;
use super::error::{RegexFault, TopicRouterError};
use super::node::{End, Node};
use super::parse::Parsed;

/// Refuses what would match differently. `used` are the numbers of the groups whose text matters.
pub(super) fn check(parsed: &Parsed<'_>, used: &[usize]) -> Result<(), TopicRouterError> {
    let wrong = |fault| move |span| parsed.cursor.fault_at(span, fault);
    ends_are_last(&parsed.node, true).map_err(wrong(RegexFault::EndBeforeMore))?;
    groups_are_kept(&parsed.node, used, false).map_err(wrong(RegexFault::GroupInRepetition))
}

/// `$` looks past a line terminator without taking it. Here it takes it, and the match is cut
/// afterwards: that is the same if nothing follows.
fn ends_are_last(node: &Node, is_last: bool) -> Result<(), Span> {
    match node {
        Node::End { end: End::LastLine | End::LastUnixLine, span } if !is_last => Err(*span),
        Node::Group { body, .. } => ends_are_last(body, is_last),
        Node::Repeat { body, times } => ends_are_last(body, is_last && times.is_option()),
        Node::Choice(choices) => choices.iter().try_for_each(|part| ends_are_last(part, is_last)),
        Node::Sequence(parts) => {
            let lasts = (1..=parts.len()).map(|place| is_last && place == parts.len());
            parts.iter().zip(lasts).try_for_each(|(part, is_last)| ends_are_last(part, is_last))
        }
        _ => Ok(()),
    }
}

/// Java does not undo what groups inside of a repeated group have matched when it gives up a turn
/// of the repetition (`GroupCurly` in its source). A repeated group itself is undone.
fn groups_are_kept(node: &Node, used: &[usize], is_repeated: bool) -> Result<(), Span> {
    let is_used = |number: Option<usize>| number.is_some_and(|number| used.contains(&number));
    match node {
        Node::Group { number, span, .. } if is_repeated && is_used(*number) => Err(*span),
        Node::Group { body, .. } => groups_are_kept(body, used, is_repeated),
        Node::Repeat { body, times } => match &**body {
            Node::Group { body: inner, .. } if !is_repeated => {
                groups_are_kept(inner, used, !times.is_option())
            }
            body => groups_are_kept(body, used, is_repeated || !times.is_option()),
        },
        Node::Sequence(parts) | Node::Choice(parts) => {
            parts.iter().try_for_each(|part| groups_are_kept(part, used, is_repeated))
        }
        _ => Ok(()),
    }
}
