//! Anything that can be typed, and any value.

use proptest::prelude::*;

use super::*;

/// Texts with much of what means something in patterns and replacements.
fn typed() -> impl Strategy<Value = String> {
    let syntax = prop::sample::select(vec![
        "(", ")", "(?:", "(?<a>", "(?i)", "(?x)", "(?s)", "[", "]", "[^", "-", "&&", "{", "}",
        "{2}", "{1,2}", ",", "*", "+", "?", "|", "^", "$", ".", "\\", "\\d", "\\p{L}", "\\Q",
        "\\E", "\\x", "\\u", "\\0", "\\c", "\\R", "\\z", "#", " ", "\n", "$1", "${a}", "a", "b",
        "1", "é", "😀", "\0",
    ]);
    let part =
        prop_oneof![8 => syntax.prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[ab1é😀\\-.\r\n\u{85}\u{2028}]{0,8}", any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Nothing panics, and the same is refused or found again.
    #[test]
    fn routers_are_deterministic(
        regex in typed(),
        replacement in typed(),
        values in prop::collection::vec(value(), 1..4),
    ) {
        let first = TopicRouter::new(&regex, &replacement);
        let second = TopicRouter::new(&regex, &replacement);
        prop_assert_eq!(&first, &second);
        match (first, second) {
            (Ok(first), Ok(second)) => for value in &values {
                let topic = first.topic(value);
                prop_assert_eq!(&topic, &second.topic(value));
                prop_assert_eq!(&topic, &first.clone().topic(value));
            },
            (Err(error), _) => prop_assert!(!error.to_string().is_empty()),
            (Ok(_), Err(_)) => prop_assert!(false),
        }
    }

    /// A quoted text matches itself and nothing else.
    #[test]
    fn quoted_texts_match_themselves(text in "[^\\\\]{0,20}", other in any::<String>()) {
        let router = router(&format!("\\Q{text}\\E"), "found");
        prop_assert_eq!(router.topic(&text), "found");
        let expected = if other == text { "found" } else { other.as_str() };
        prop_assert_eq!(router.topic(&other), expected);
    }

    /// Whatever has no line terminator goes where Debezium sends it.
    #[test]
    fn the_default_router(value in any::<String>()) {
        let expected = if value.contains(node::LINE_TERMINATORS) {
            value.clone()
        } else {
            format!("outbox.event.{value}")
        };
        prop_assert_eq!(TopicRouter::default().topic(&value), expected);
    }
}
