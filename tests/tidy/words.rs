//! Plain English: words that stand for a thing's usual name, or that readers have misunderstood.

use crate::scan::{Kind, scan, without_tests};
use crate::{exceptions, files};

/// Nowhere, not even in a comment. With what to write instead.
const EVERYWHERE: &[(&str, &str)] = &[
    ("anew", "again, recreated, restarted"),
    ("mend", "fix, repair"),
    ("mended", "fixed, repaired"),
    ("mends", "fixes, repairs"),
    ("heal", "fix, repair"),
    ("heals", "fixes, repairs"),
    ("whoever", "say who: a client, an operator, another relay"),
    ("besides", "also, in addition"),
    ("for ever", "forever"),
    ("in company", "together with others"),
    ("is no", "is not a"),
    ("are no", "are not, there are none"),
    ("so many", "this many, a number"),
    ("come again", "are repeated, are sent again"),
    ("comes again", "is repeated, is sent again"),
    ("told", "reported, confirmed, notified"),
    ("made new", "recreated"),
    ("who may", "say who, and what they are allowed to do"),
    ("who may not", "say who, and what they are not allowed to do"),
];

/// Nowhere that users read: pages, messages, help, SQL that they see.
const TEXT: &[(&str, &str)] = &[
    ("behind", "after (positions), waiting for (keys); it is right for a lag only"),
    ("tell", "report, confirm, notify"),
    ("tells", "reports, confirms, notifies"),
    ("say", "report, print, state"),
    ("go on", "continue"),
    ("goes on", "continues"),
    ("going on", "continuing"),
    ("may not", "must not, cannot, might not"),
    ("passes by", "skips"),
    ("by themselves", "automatically"),
];

/// Where such a word is right: what stands before it, and after it.
const RIGHT: &[(&str, &str, &str)] = &[
    ("there ", "is no", ""),
    ("there ", "are no", ""),
    ("", "is no", " longer"),
    ("", "are no", " longer"),
];

#[test]
fn plain_english() {
    let mut findings = Vec::new();
    for file in files::rust() {
        let source = if file.path.starts_with("tests/") { "" } else { without_tests(&file.text) };
        if file.path.ends_with("/tests.rs") || file.path.contains("/tests/") {
            continue;
        }
        let is_help = file.path.starts_with("src/cli/");
        for piece in scan(source) {
            let is_doc = piece.text.starts_with("///");
            let is_text = piece.kind == Kind::Literal || (is_help && is_doc);
            if piece.kind != Kind::Code {
                find(&file.path, piece.line, piece.text, is_text, &mut findings);
            }
        }
    }
    for file in files::pages().into_iter().chain(texts()) {
        find(&file.path, 1, &file.text, true, &mut findings);
    }
    exceptions::check("not plain English", findings, exceptions::WORDS);
}

/// Migrations before this one have been applied in databases, and stay as they are.
const FIRST_IN_PLAIN_ENGLISH: u32 = 28;

/// What people read that is neither a page nor Rust.
fn texts() -> Vec<files::File> {
    let endings = [".sql", ".yml", ".proto", ".toml", "Dockerfile", "Makefile", "setup", ".svg"];
    let folders =
        ["docs", "docker-compose.yml", "proto", "scripts", "Dockerfile", "Makefile", "Cargo.toml"];
    let mut texts = files::below(&folders, &endings);
    texts.extend(files::below(&["migrations"], &[".sql"]).into_iter().filter(|file| {
        let number = file.path.trim_start_matches("migrations/").split('_').next().unwrap();
        // The template of the outbox table has no number.
        number.parse::<u32>().is_ok_and(|number| number >= FIRST_IN_PLAIN_ENGLISH)
    }));
    texts
}

fn find(path: &str, line: usize, text: &str, is_text: bool, findings: &mut Vec<(String, String)>) {
    let words = EVERYWHERE.iter().chain(TEXT.iter().filter(|_| is_text));
    for (at, content) in text.lines().enumerate() {
        let lower = content.to_lowercase();
        for (word, better) in words.clone() {
            if has_word(&lower, word) {
                let what = format!("\"{word}\" (better: {better}) in: {}", content.trim());
                findings.push((format!("{path}:{}", line + at), what));
            }
        }
    }
}

/// Whether the words stand there as words. Code between backticks is not prose.
fn has_word(line: &str, word: &str) -> bool {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    prose.match_indices(word).any(|(at, found)| {
        let (before, after) = (&prose[..at], &prose[at + found.len()..]);
        let is_idiom = RIGHT.iter().any(|(start, idiom, end)| {
            word == *idiom && before.ends_with(start) && after.starts_with(end)
        });
        !is_idiom
            && !before.chars().next_back().is_some_and(is_part)
            && !after.chars().next().is_some_and(is_part)
    })
}

#[test]
fn words_are_whole() {
    assert!(has_word("what is no event", "is no"));
    assert!(!has_word("what is not", "is no"));
    assert!(!has_word("there is no slot, which is no longer needed", "is no"));
    assert!(!has_word("a `behind` b", "behind"));
}
