//! Java's properties files
//! (<https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html#load(java.io.Reader)>).

use std::iter::Peekable;
use std::str::Chars;

use super::Pair;
use crate::import::Fault;

/// The names and values, in the order of the file.
pub(super) fn parse(text: &str) -> Result<Vec<Pair>, Vec<Fault>> {
    let mut pairs = Vec::new();
    let mut faults = Vec::new();
    for (line, text) in logical_lines(text) {
        match pair(&text) {
            Ok((name, text)) => pairs.push(Pair { written: name.clone(), name, line, text }),
            Err(message) => faults.push(Fault::at(line, message)),
        }
    }
    if faults.is_empty() { Ok(pairs) } else { Err(faults) }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Lines with what continues them, without comments; each with the number of its first.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = Vec::new();
    let mut natural = text.split('\n').enumerate();
    while let Some((at, line)) = natural.next() {
        let mut line = line.trim_start_matches(is_blank).to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        while is_continued(&line) {
            line.pop();
            match natural.next() {
                Some((_, next)) => line.push_str(next.trim_start_matches(is_blank)),
                None => break,
            }
        }
        lines.push((at + 1, line));
    }
    lines
}

/// An even number of backslashes stands for half as many, and continues nothing.
fn is_continued(line: &str) -> bool {
    line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

fn pair(line: &str) -> Result<(String, String), String> {
    let mut chars = line.chars().peekable();
    let name = unescaped(&mut chars, |c| is_blank(c) || matches!(c, '=' | ':'))?;
    skip_blanks(&mut chars);
    if chars.next_if(|c| matches!(c, '=' | ':')).is_some() {
        skip_blanks(&mut chars);
    }
    Ok((name, unescaped(&mut chars, |_| false)?))
}

fn skip_blanks(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| is_blank(*c)).is_some() {}
}

/// Up to a character that ends it and is not escaped.
fn unescaped(
    chars: &mut Peekable<Chars<'_>>,
    is_end: impl Fn(char) -> bool,
) -> Result<String, String> {
    // Escapes are UTF-16: a character may take two of them.
    let mut units: Vec<u16> = Vec::new();
    let mut buffer = [0; 2];
    while let Some(c) = chars.next_if(|c| !is_end(*c)) {
        let c = match c {
            '\\' => match chars.next() {
                None => break,
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    units.push(code_unit(chars)?);
                    continue;
                }
                Some(other) => other,
            },
            c => c,
        };
        units.extend_from_slice(c.encode_utf16(&mut buffer));
    }
    String::from_utf16(&units)
        .map_err(|_| "one half of a character; write both, as in \\ud83d\\ude00".to_owned())
}

fn code_unit(chars: &mut Peekable<Chars<'_>>) -> Result<u16, String> {
    let digits: String = chars.by_ref().take(4).collect();
    let is_hex = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unit = is_hex.then(|| u16::from_str_radix(&digits, 16).ok()).flatten();
    unit.ok_or_else(|| {
        "\\u without four hexadecimal digits; write it as in \\u00e9, and a backslash as \\\\"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str, usize)]) {
        let pairs = parse(text).ok().unwrap();
        let pairs: Vec<_> =
            pairs.iter().map(|it| (it.name.as_str(), it.text.as_str(), it.line)).collect();
        assert_eq!(pairs, expect, "{text}");
    }

    #[test]
    fn separators() {
        check("a=b\na = b\na:b\na b\na\t: b", &[1, 2, 3, 4, 5].map(|line| ("a", "b", line)));
        check("a", &[("a", "", 1)]);
        check("a==b\na=:b\na : = b", &[("a", "=b", 1), ("a", ":b", 2), ("a", "= b", 3)]);
        check("a=b c \n", &[("a", "b c ", 1)]);
        check(r"a\ b\=c\:d=e", &[("a b=c:d", "e", 1)]);
        check("=x", &[("", "x", 1)]);
    }

    #[test]
    fn comments_and_blank_lines() {
        check("# a=b\n  ! c=d\n\n \t\n\u{c}e=f # g\n", &[("e", "f # g", 5)]);
        // A comment is not continued, and within a continued line # is a character.
        check("# a \\\nb=c\nd=e\\\n#f", &[("b", "c", 2), ("d", "e#f", 3)]);
    }

    #[test]
    fn continued_lines() {
        check("a=b,\\\n   c,\\\r\n\td\ne=f", &[("a", "b,c,d", 1), ("e", "f", 4)]);
        check("a=b\\\\\nc=d", &[("a", "b\\", 1), ("c", "d", 2)]);
        check("a\\\nb=c\\", &[("ab", "c", 1)]);
        check("a=\\\n\nb=c", &[("a", "", 1), ("b", "c", 3)]);
        check("a=1\rb=2\r\nc=3", &[("a", "1", 1), ("b", "2", 2), ("c", "3", 3)]);
    }

    #[test]
    fn escapes() {
        check(r"a=\u0041\u00E9\ud83d\ude00\t\n\q\\", &[("a", "A\u{e9}\u{1f600}\t\nq\\", 1)]);
        check(r"a=(?<routedByValue>.*)\\.x", &[("a", r"(?<routedByValue>.*)\.x", 1)]);
        check("größe=\u{1f600}", &[("größe", "\u{1f600}", 1)]);
    }

    #[test]
    fn wrong_escapes_are_reported_together() {
        let faults = parse("a=\\u00\nb=c\nd=\\u+123\ne=\\ud83d").err().unwrap();
        let lines: Vec<_> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [Some(1), Some(3), Some(4)]);
        assert!(faults[0].message.contains("four hexadecimal digits"));
        assert!(faults[2].message.contains("one half"));
    }
}
