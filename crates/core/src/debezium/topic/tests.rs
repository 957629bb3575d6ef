//! The router against what Java does, and what it refuses.

mod properties;
mod random;
mod recorded;
mod refused;

use std::borrow::Cow;

use super::*;

fn router(regex: &str, replacement: &str) -> TopicRouter {
    TopicRouter::new(regex, replacement).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_default_is_what_was_typed() {
    let typed = router("(?<routedByValue>.*)", "outbox.event.${routedByValue}");
    assert_eq!(TopicRouter::default(), typed);
    assert_eq!(format!("{:?}", TopicRouter::default()), format!("{typed:?}"));
    assert_eq!(TopicRouter::default().topic("Order"), "outbox.event.Order");
}

#[test]
fn equal_if_the_same_was_typed() {
    assert_eq!(router("(a)", "$1"), router("(a)", "$1").clone());
    assert_ne!(router("(a)", "$1"), router("(?:a)", "$0"));
    assert_ne!(router("(a)", "$1"), router("(a)", "$0"));
}

#[test]
fn a_value_that_does_not_match_is_not_copied() {
    for regex in ["order.(.*)", "(order|payment)(.*)"] {
        assert!(matches!(router(regex, "$1").topic("shipment"), Cow::Borrowed("shipment")));
    }
}

#[test]
fn simple_expressions_need_no_engine() {
    for regex in
        ["(.*)", "^(?<a>.+)$", r"com\.acme\.(.*)", r"(\Qa.\E(.*)b)\Z", "order", "", "(?s).*"]
    {
        assert!(matches!(router(regex, "x").matcher, Matcher::Plain(_)), "{regex}");
    }
    for regex in ["(.*?)", "(.*)(.*)", "a|b", "[ab]", "(?i)order", "a.b", "a*", r"a\z"] {
        assert!(matches!(router(regex, "x").matcher, Matcher::Engine(_)), "{regex}");
    }
}

/// The engine finds the same as the short way, where both can be taken.
#[test]
fn the_short_way_is_exact() {
    let values =
        ["", "a", "ab", "xab", "abab", "a\n", "a\nb", "a\u{85}b", "a\r\n", "\n", "😀b", "a-b"];
    for regex in [
        "(.*)",
        "(.+)",
        "a(.*)",
        "(.*)b",
        "a(.*)b$",
        "(?s)(.*)b?$",
        "(?d)(.*)$",
        "(a)",
        "(?s)(a)$",
        "(?s)(.+)$",
    ] {
        let parsed = parse::parse(regex).unwrap();
        let engine = Matcher::Engine(Engine::new(&parsed.node, &[1]).unwrap());
        let short = router(regex, "<$1>-$0");
        let long = TopicRouter { matcher: engine, ..short.clone() };
        for value in values {
            assert_eq!(short.topic(value), long.topic(value), "{regex} {value:?}");
        }
    }
}

#[test]
fn long_values() {
    let value = "a".repeat(TOPIC_BYTES_MAX);
    assert_eq!(TopicRouter::default().topic(&value).len(), "outbox.event.".len() + value.len());
    assert_eq!(router("(a|b)+", "$1").topic(&value), "a");
    assert_eq!(router("(?:a|b)+c", "$0").topic(&value), value.as_str());
    // An illegal name in any case, which must not take any amount of memory.
    let copies = router("(.*)", &"$1".repeat(REPLACEMENT_CHARACTERS_MAX / 2));
    assert!(copies.topic(&value).len() <= 2 * TOPIC_BYTES_MAX);
}
