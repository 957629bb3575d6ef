//! What is refused, and how that reads.

use super::*;

/// Patterns that Java takes, with where they are wrong for us, and why.
const ONLY_IN_JAVA: &[(&str, usize, &str, RegexFault)] = &[
    ("a(?=b)", 2, "(?=", RegexFault::LookAhead),
    ("(?!b).*", 1, "(?!", RegexFault::LookAhead),
    (".*(?<=b)", 3, "(?<=", RegexFault::LookBack),
    ("(?<!b)a", 1, "(?<!", RegexFault::LookBack),
    ("(?>a)b", 1, "(?>", RegexFault::Atomic),
    (".*+", 1, ".*+", RegexFault::Possessive),
    ("a(b)?+", 2, "(b)?+", RegexFault::Possessive),
    ("a{2}+", 1, "a{2}+", RegexFault::Possessive),
    (r"(.)\1", 4, r"\1", RegexFault::BackReference),
    (r"(?<a>.)\k<a>", 8, r"\k", RegexFault::BackReference),
    (r"\Ga", 1, r"\G", RegexFault::LastMatch),
    (r"a\bb", 2, r"\b", RegexFault::WordBoundary),
    (r"\Ba", 1, r"\B", RegexFault::WordBoundary),
    (r"\b{g}a", 1, r"\b", RegexFault::WordBoundary),
    (r"\X", 1, r"\X", RegexFault::Grapheme),
    (r"\N{LATIN SMALL LETTER A}", 1, r"\N", RegexFault::CharacterName),
    ("(?iu)a", 1, "(?iu", RegexFault::UnicodeCase),
    (r"(?U)\w", 1, "(?U", RegexFault::UnicodeClasses),
    ("(?c)a", 1, "(?c", RegexFault::CanonicalEquivalence),
    ("(?m)^a", 5, "^", RegexFault::LineAnchor),
    ("(?m)a$", 6, "$", RegexFault::LineAnchor),
    ("a$b?", 2, "$", RegexFault::EndBeforeMore),
    (r"(a\Z)*b?", 3, r"\Z", RegexFault::EndBeforeMore),
    ("(a*)*", 1, "(a*)*", RegexFault::RepeatedEmpty),
    ("(a|)+", 1, "(a|)+", RegexFault::RepeatedEmpty),
    ("^*a", 1, "^*", RegexFault::RepeatedAnchor),
    (r"\R+", 1, r"\R+", RegexFault::RepeatedLineBreak),
    (r"(a\R)?", 1, r"(a\R)?", RegexFault::RepeatedLineBreak),
    ("a{1001}", 2, "{1001", RegexFault::TooManyRepetitions),
    ("(?:(a.)b)*(.*)", 4, "(a.)", RegexFault::GroupInRepetition),
    (r"\uD83D", 1, r"\uD83D", RegexFault::Surrogate),
    (r"\x{DE00}", 1, r"\x{DE00}", RegexFault::Surrogate),
    (r"\p{IsEmoji}", 1, r"\p{IsEmoji}", RegexFault::Property),
    (r"\p{IsOsage}", 1, r"\p{IsOsage}", RegexFault::Property),
    (r"\p{InGreek}", 1, r"\p{InGreek}", RegexFault::Block),
    (r"\p{blk=Greek}", 1, r"\p{blk=Greek}", RegexFault::Block),
    (r"[\v-a]", 2, r"\", RegexFault::VerticalTabRange),
    ("[a&&]", 5, "]", RegexFault::Intersection),
    ("[&&a]", 2, "&", RegexFault::Intersection),
    ("[a&&&b]", 3, "&", RegexFault::Intersection),
    ("[a&&[b]&c]", 8, "&", RegexFault::Intersection),
    ("[a&&[b]c&&d]", 9, "&", RegexFault::Intersection),
    ("(?x)[a b]", 7, " ", RegexFault::Blank),
    ("(?x)( ?:a)", 6, " ", RegexFault::Blank),
    (r"(?x)\Qa\E", 7, "a", RegexFault::QuoteInComments),
    (r"(?x)\01 2", 5, r"\0", RegexFault::EscapeInComments),
    ("(?x)#\0", 6, r"\u{0}", RegexFault::NulInComment),
    ("a{2}{3}", 5, "{", RegexFault::NothingToRepeat),
];

/// Patterns that Java refuses too; `topics.json` has more of them.
const WRONG: &[(&str, usize, &str, RegexFault)] = &[
    ("*a", 1, "*", RegexFault::NothingToRepeat),
    ("a{b", 2, "{", RegexFault::Repetition),
    ("a{3,2}", 2, "{3,2}", RegexFault::RepetitionRange),
    ("a(b|c", 2, "(b|c", RegexFault::UnclosedGroup),
    ("a)b", 2, ")", RegexFault::UnopenedGroup),
    ("(?q)", 1, "(?q", RegexFault::GroupKind),
    ("(?<1a>b)", 1, "(?<1a", RegexFault::GroupName),
    ("(?<a>b)(?<a>c)", 8, "(?<a>", RegexFault::GroupNameTwice),
    ("a[bc", 2, "[bc", RegexFault::UnclosedClass),
    ("[c-a]", 2, "c-a", RegexFault::ClassRange),
    (r"a\y", 2, r"\y", RegexFault::Escape),
    (r"a\", 2, r"\", RegexFault::TrailingBackslash),
    (r"\08", 1, r"\0", RegexFault::Octal),
    (r"\x{12", 1, r"\x{12", RegexFault::Hexadecimal),
    (r"\c", 1, r"\c", RegexFault::Control),
];

#[test]
fn patterns() {
    for (regex, place, part, expected) in ONLY_IN_JAVA.iter().chain(WRONG) {
        match TopicRouter::new(regex, if regex.contains('(') { "$0$1" } else { "$0" }) {
            Err(TopicRouterError::Regex { construct, at, fault, .. }) => {
                assert_eq!((at, construct.as_str(), fault), (*place, *part, *expected), "{regex}");
            }
            other => panic!("{regex}: {other:?}"),
        }
    }
}

const REPLACEMENTS: &[(&str, usize, &str, ReplacementFault)] = &[
    ("a$3", 2, "$3", ReplacementFault::NoSuchGroup),
    ("${b}", 1, "${b}", ReplacementFault::NoSuchGroup),
    ("$", 1, "$", ReplacementFault::Reference),
    ("ab$x", 3, "$", ReplacementFault::Reference),
    ("${", 1, "${", ReplacementFault::Reference),
    ("${1}", 1, "${1}", ReplacementFault::Reference),
    ("${a-b}", 1, "${a", ReplacementFault::Reference),
    (r"é\", 2, r"\", ReplacementFault::TrailingBackslash),
];

#[test]
fn replacements() {
    for (replacement, place, part, expected) in REPLACEMENTS {
        match TopicRouter::new("(?<a>.)(.)", replacement) {
            Err(TopicRouterError::Replacement { construct, at, fault, .. }) => {
                assert_eq!((at, construct.as_str(), fault), (*place, *part, *expected));
            }
            other => panic!("{replacement}: {other:?}"),
        }
    }
}

#[test]
fn sentences() {
    for (regex, replacement, expected) in [
        (
            "a(?=b)",
            "x",
            "the regular expression `a(?=b)` has `(?=` at character 2: postrider can't look ahead; \
             write the pattern without `(?=…)` and `(?!…)`",
        ),
        (
            "\\w+\\b.*",
            "x",
            "the regular expression `\\w+\\b.*` has `\\b` at character 4: what counts as a word's \
             boundary depends on Java's version and on combining marks; write out which characters \
             surround it, for example `[^A-Za-z0-9_]`",
        ),
        (
            "(.*\n",
            "x",
            "the regular expression `(.*\\n` has `(.*\\n` at character 1: a group is not closed; \
             write `)`, or `\\(` for the parenthesis",
        ),
        (
            "a{2000}",
            "x",
            "the regular expression `a{2000}` has `{2000` at character 2: at most 1000 repetitions \
             can be counted; write `*` or `+`",
        ),
        (
            "((\\p{L}{50}){50}){50}",
            "x",
            "the regular expression `((\\p{L}{50}){50}){50}` is too large when it is compiled; \
             use fewer repetitions and properties",
        ),
        (
            "(.*)",
            "orders.$2",
            "the replacement `orders.$2` has `$2` at character 8: the regular expression has no \
             such group; write a group's number or name",
        ),
        (
            "(.*)",
            "US$",
            "the replacement `US$` has `$` at character 3: a group is written `$1` or `${name}`; \
             write `\\$` for the character",
        ),
    ] {
        assert_eq!(TopicRouter::new(regex, replacement).unwrap_err().to_string(), expected);
    }
}

#[test]
fn sizes() {
    let long = "a".repeat(REGEX_CHARACTERS_MAX + 1);
    assert_eq!(TopicRouter::new(&long, ""), Err(TopicRouterError::RegexTooLong(2001)));
    assert_eq!(TopicRouter::new("", &long), Err(TopicRouterError::ReplacementTooLong(2001)));
    let deep = format!("{}{}", "(".repeat(51), ")".repeat(51));
    let classes = format!("{}a{}", "[".repeat(51), "]".repeat(51));
    for regex in [deep, classes] {
        let Err(TopicRouterError::Regex { fault, at, .. }) = TopicRouter::new(&regex, "") else {
            panic!("{regex}")
        };
        assert_eq!((fault, at), (RegexFault::TooDeep, 51));
    }
    // As many levels of the engine's syntax as fit.
    let intersections = format!("[a{}]", "&&a".repeat(600));
    assert_eq!(router(&intersections, "x").topic("a"), "x");
    let nested = format!("{}a{}", "[^".repeat(50), "]".repeat(50));
    assert_eq!(router(&nested, "x").topic("a"), "x");
}
