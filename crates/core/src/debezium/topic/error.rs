//! Why a regular expression or a replacement is refused.

use super::parse::GROUP_DEPTH_MAX;
use super::quantifier::REPETITIONS_MAX;
use super::{REGEX_CHARACTERS_MAX, REPLACEMENT_CHARACTERS_MAX};

/// A regular expression or a replacement that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicRouterError {
    /// A part of the regular expression.
    #[error("the regular expression `{regex}` has `{construct}` at character {at}: {fault}")]
    Regex {
        /// As it was typed.
        regex: String,
        /// The part.
        construct: String,
        /// Where the part begins; the first character is 1.
        at: usize,
        /// What is wrong with it.
        fault: RegexFault,
    },
    /// More than anyone means to write.
    #[error(
        "the regular expression has {0} characters, and {REGEX_CHARACTERS_MAX} are possible; \
         shorten it"
    )]
    RegexTooLong(usize),
    /// It would take too much memory.
    #[error(
        "the regular expression `{0}` is too large when it is compiled; \
         use fewer repetitions and properties"
    )]
    RegexTooLarge(String),
    /// Nothing known is of this kind: what was read can be written for the engine.
    #[error("the engine can't compile the regular expression `{0}`; write it in another way")]
    RegexUnknown(String),
    /// A part of the replacement.
    #[error("the replacement `{replacement}` has `{construct}` at character {at}: {fault}")]
    Replacement {
        /// As it was typed.
        replacement: String,
        /// The part.
        construct: String,
        /// Where the part begins; the first character is 1.
        at: usize,
        /// What is wrong with it.
        fault: ReplacementFault,
    },
    /// More than anyone means to write.
    #[error(
        "the replacement has {0} characters, and {REPLACEMENT_CHARACTERS_MAX} are possible; \
         shorten it"
    )]
    ReplacementTooLong(usize),
}

/// What is wrong with a part of a regular expression: first what only Java's engine can do, then
/// what Java refuses too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegexFault {
    #[error("postrider can't look ahead; write the pattern without `(?=…)` and `(?!…)`")]
    LookAhead,
    #[error("postrider can't look back; write the pattern without `(?<=…)` and `(?<!…)`")]
    LookBack,
    #[error("postrider has no atomic groups; write `(?:…)`")]
    Atomic,
    #[error("postrider has no possessive repetitions; write the repetition without the second `+`")]
    Possessive,
    #[error("postrider can't refer back to a group; write out what it has to match")]
    BackReference,
    #[error("every match begins at the beginning of the value here; write `^`")]
    LastMatch,
    #[error(
        "what counts as a word's boundary depends on Java's version and on combining marks; \
         write out which characters surround it, for example `[^A-Za-z0-9_]`"
    )]
    WordBoundary,
    #[error(
        "postrider does not know where one visible character ends; \
         write the characters themselves"
    )]
    Grapheme,
    #[error("postrider does not know characters by name; write `\\x{{…}}` with its code")]
    CharacterName,
    #[error("postrider ignores the case of ASCII letters only; write the pattern without `u`")]
    UnicodeCase,
    #[error(
        "postrider's `\\w`, `\\d` and `\\s` are those of ASCII; \
         write `\\p{{IsAlphabetic}}`, `\\p{{IsDigit}}` or `\\p{{IsWhite_Space}}` without `U`"
    )]
    UnicodeClasses,
    #[error("postrider compares characters as they are; write the pattern without `c`")]
    CanonicalEquivalence,
    #[error("postrider has no anchors of lines; write the pattern without `(?m)`")]
    LineAnchor,
    #[error("nothing can follow the end of the text; write it at the end, or write `\\z`")]
    EndBeforeMore,
    #[error(
        "what is repeated can be empty, and then Java's choice can't be reproduced; \
         repeat something that has at least one character"
    )]
    RepeatedEmpty,
    #[error("an anchor is repeated; write it once")]
    RepeatedAnchor,
    #[error("Java takes a repeated `\\R` for one piece; write `[\\n\\r]` or another class")]
    RepeatedLineBreak,
    #[error("at most {REPETITIONS_MAX} repetitions can be counted; write `*` or `+`")]
    TooManyRepetitions,
    #[error(
        "the replacement uses a group inside of another that is repeated, where Java keeps \
         parts of matches that it gave up; repeat without the inner group"
    )]
    GroupInRepetition,
    #[error("groups are nested deeper than {GROUP_DEPTH_MAX}; write a flatter pattern")]
    TooDeep,
    #[error("half of a surrogate pair is not a character; write the character or `\\x{{…}}`")]
    Surrogate,
    #[error(
        "postrider does not know this property; \
         write one of the general categories, POSIX classes or scripts, or a class like `[a-z]`"
    )]
    Property,
    #[error(
        "postrider does not know blocks of Unicode; write a range like `[\\x{{370}}-\\x{{3FF}}]`"
    )]
    Block,
    #[error("`\\v` is a class here and one character there; write `\\x0B` or the class alone")]
    VerticalTabRange,
    #[error("this `&` can be read in several ways; write `[[…]&&[…]]`, or `\\&` for the character")]
    Intersection,
    #[error("white space has no place here when `(?x)` is on; leave it out or escape it")]
    Blank,
    #[error("`\\Q` and `(?x)` can't be used together; escape single characters")]
    QuoteInComments,
    #[error("this escape can't be used when `(?x)` is on; write `\\x{{…}}`")]
    EscapeInComments,
    #[error("a comment has the character NUL; leave it out")]
    NulInComment,
    #[error("there is nothing to repeat; write `\\` before it if it is meant as a character")]
    NothingToRepeat,
    #[error("a repetition is written `{{2}}`, `{{2,}}` or `{{2,3}}`; write `\\{{` for the brace")]
    Repetition,
    #[error("a repetition's second number is less than its first; exchange them")]
    RepetitionRange,
    #[error("a group is not closed; write `)`, or `\\(` for the parenthesis")]
    UnclosedGroup,
    #[error("no group is open here; write `\\)` for the parenthesis")]
    UnopenedGroup,
    #[error("there is no such kind of group; write `(?:…)`, `(?<name>…)` or `(…)`")]
    GroupKind,
    #[error("a group's name has ASCII letters and digits, a letter first: `(?<name>…)`; change it")]
    GroupName,
    #[error("two groups have this name; change one of them")]
    GroupNameTwice,
    #[error("a class is not closed; write `]`, or `\\[` for the bracket")]
    UnclosedClass,
    #[error("a range ends before it begins, or has a class at its end; write it like `a-z`")]
    ClassRange,
    #[error("Java has no such escape; write the character without `\\`")]
    Escape,
    #[error("a `\\` ends the pattern; write `\\\\` for the character")]
    TrailingBackslash,
    #[error("an octal escape is `\\0` and one to three digits, at most 377; complete it")]
    Octal,
    #[error("a hexadecimal escape is `\\x41`, `\\x{{1F600}}` or `\\u0041`; complete it")]
    Hexadecimal,
    #[error("a control character is written `\\cA`; write the letter")]
    Control,
}

/// What is wrong with a part of a replacement. Java reports it when the first event matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplacementFault {
    #[error("the regular expression has no such group; write a group's number or name")]
    NoSuchGroup,
    #[error("a group is written `$1` or `${{name}}`; write `\\$` for the character")]
    Reference,
    #[error("a `\\` ends the replacement; write `\\\\` for the character")]
    TrailingBackslash,
}

/// A text for a message: control characters would disturb the log, and are written as escapes.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}
