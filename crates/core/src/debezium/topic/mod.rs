//! The topic of an event, as Debezium's router decides it: by Kafka Connect's `RegexRouter`.
//!
//! The router matches a value against a regular expression. If all of the value matches, the topic is
//! the value with the first match replaced: the match that Java's `find` finds, which need not be the
//! whole value. Otherwise the topic is the value.
//!
//! Pattern and replacement have Java's syntax (`java.util.regex`). The pattern is read here and
//! written in the syntax of the crate `regex`, which takes linear time for every value. What it can't
//! match as Java does is refused when the configuration is read, and nothing is approximated: see
//! [`RegexFault`] for the list.

mod class;
mod comments;
mod cursor;
mod engine;
mod error;
mod escape;
mod node;
mod parse;
mod plain;
mod property;
mod quantifier;
mod replacement;
mod rules;

use std::borrow::Cow;

pub use error::{RegexFault, ReplacementFault, TopicRouterError};

use engine::Engine;
use error::shown;
use node::Node;
use plain::Plain;
use replacement::Piece;

/// Longer regular expressions are not typed by people.
const REGEX_CHARACTERS_MAX: usize = 2000;
/// The same for replacements.
const REPLACEMENT_CHARACTERS_MAX: usize = 500;
/// A replacement can repeat a long value. From here on the rest is left out: as the name of a topic,
/// which has at most 249 bytes, all of it would be just as illegal.
const TOPIC_BYTES_MAX: usize = 256 * 1024;

/// From a value to a topic. Routers are equal if the same was typed.
#[derive(Debug, Clone)]
pub struct TopicRouter {
    regex: String,
    replacement: String,
    matcher: Matcher,
    pieces: Vec<Piece>,
    /// How much of a topic is the replacement's own text.
    text_bytes: usize,
}

#[derive(Debug, Clone)]
enum Matcher {
    Plain(Plain),
    Engine(Engine),
}

impl PartialEq for TopicRouter {
    fn eq(&self, other: &Self) -> bool {
        self.regex == other.regex && self.replacement == other.replacement
    }
}

impl Eq for TopicRouter {}

impl Default for TopicRouter {
    /// Debezium's: `(?<routedByValue>.*)` becomes `outbox.event.${routedByValue}`.
    fn default() -> Self {
        let text = "outbox.event.";
        TopicRouter {
            regex: Self::DEFAULT_REGEX.to_owned(),
            replacement: Self::DEFAULT_REPLACEMENT.to_owned(),
            matcher: Matcher::Plain(Plain::everything()),
            pieces: vec![Piece::Text(text.to_owned()), Piece::Group(1)],
            text_bytes: text.len(),
        }
    }
}

impl TopicRouter {
    /// All of the value is group `routedByValue`.
    pub const DEFAULT_REGEX: &'static str = "(?<routedByValue>.*)";
    /// That group after a prefix.
    pub const DEFAULT_REPLACEMENT: &'static str = "outbox.event.${routedByValue}";

    /// Compiles what was typed.
    pub fn new(regex: &str, replacement: &str) -> Result<Self, TopicRouterError> {
        let characters = regex.chars().count();
        if characters > REGEX_CHARACTERS_MAX {
            return Err(TopicRouterError::RegexTooLong(characters));
        }
        let parsed = parse::parse(regex)?;
        let pieces = replacement::parse(replacement, &parsed.groups)?;
        let used: Vec<usize> = pieces.iter().filter_map(Piece::group).collect();
        rules::check(&parsed, &used)?;
        let matcher = match Plain::of(&parsed.node, parsed.groups.count) {
            Some(plain) => Matcher::Plain(plain),
            None => Matcher::Engine(engine(regex, &parsed.node, &used)?),
        };
        let text_bytes = pieces.iter().map(Piece::text_bytes).sum();
        let (regex, replacement) = (regex.to_owned(), replacement.to_owned());
        Ok(TopicRouter { regex, replacement, matcher, pieces, text_bytes })
    }

    /// The topic of an event with this value. Whether Kafka allows it is for the caller to check.
    pub fn topic<'v>(&self, value: &'v str) -> Cow<'v, str> {
        let topic = match &self.matcher {
            Matcher::Plain(plain) => {
                let group = |number| plain.group(value, number);
                plain.matches(value).then(|| self.replaced(value, "", group))
            }
            Matcher::Engine(engine) => engine
                .find(value)
                .map(|found| self.replaced(value, found.rest(), |number| found.group(number))),
        };
        topic.map_or(Cow::Borrowed(value), Cow::Owned)
    }

    /// A match always begins where the value does, so nothing stands before it.
    fn replaced<'v>(&self, value: &str, rest: &str, group: impl Fn(usize) -> &'v str) -> String {
        // Nearly always a value is used once.
        let room = (self.text_bytes + value.len()).min(TOPIC_BYTES_MAX);
        let mut topic = String::with_capacity(room);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => topic.push_str(text),
                Piece::Group(number) => topic.push_str(group(*number)),
            }
            if topic.len() > TOPIC_BYTES_MAX {
                return topic;
            }
        }
        topic.push_str(rest);
        topic
    }
}

fn engine(regex: &str, node: &Node, used: &[usize]) -> Result<Engine, TopicRouterError> {
    Engine::new(node, used).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => TopicRouterError::RegexTooLarge(shown(regex)),
        _ => TopicRouterError::RegexUnknown(shown(regex)),
    })
}

#[cfg(test)]
mod tests;
