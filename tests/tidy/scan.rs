//! Rust source, cut into code, comments and string literals.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Code,
    Comment,
    Literal,
}

pub(crate) struct Piece<'a> {
    pub(crate) kind: Kind,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) text: &'a str,
}

/// The source without its unit tests, which stand at its end.
pub(crate) fn without_tests(source: &str) -> &str {
    match source.find("\n#[cfg(test)]\nmod tests {") {
        Some(end) => &source[..end],
        None => source,
    }
}

pub(crate) fn scan(source: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut start, mut at, mut line) = (0, 0, 1);
    let mut add = |kind, range: std::ops::Range<usize>| {
        let text = &source[range];
        pieces.push(Piece { kind, line, text });
        line += text.matches('\n').count();
    };
    while at < source.len() {
        let rest = &source[at..];
        let found = match () {
            () if rest.starts_with("//") => {
                Some((Kind::Comment, rest.find('\n').unwrap_or(rest.len())))
            }
            () if rest.starts_with('"') => Some((Kind::Literal, quoted(rest))),
            () if rest.starts_with("r\"") || rest.starts_with("r#") => {
                raw(rest).map(|length| (Kind::Literal, length))
            }
            () => None,
        };
        let Some((kind, length)) = found else {
            at += code(rest);
            continue;
        };
        add(Kind::Code, start..at);
        add(kind, at..at + length);
        at += length;
        start = at;
    }
    add(Kind::Code, start..at);
    pieces
}

/// The length of a piece of code without a literal's beginning: a word, a character literal, one character.
fn code(rest: &str) -> usize {
    let word = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').map(char::len_utf8);
    let word: usize = word.sum();
    if word > 0 {
        return word;
    }
    ["'\"'", "'\\\"'", "'\\''", "'\\\\'"]
        .iter()
        .find(|quote| rest.starts_with(**quote))
        .map_or_else(|| rest.chars().next().unwrap().len_utf8(), |quote| quote.len())
}

fn quoted(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let body = rest[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(2 + hashes + body.find(&end)? + end.len())
}

#[test]
fn literals_and_comments() {
    let source = "let a = \"b \\\" // c\"; // d \"e\"\nlet f = r#\"g \"h\" i\"#; let j = '\"';";
    let found = scan(source);
    let texts = |kind| found.iter().filter(move |piece| piece.kind == kind).map(|piece| piece.text);
    assert_eq!(texts(Kind::Literal).collect::<Vec<_>>(), ["\"b \\\" // c\"", "r#\"g \"h\" i\"#"]);
    assert_eq!(texts(Kind::Comment).collect::<Vec<_>>(), ["// d \"e\""]);
    assert_eq!(found.last().unwrap().line, 2);
}
