//! `tracing.span.context.field`: a `java.util.Properties` that a tracer has written as text.

/// Its entries, in their order.
pub(super) fn properties(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim_start);
    let entries = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
    entries.map(entry).collect()
}

/// Name and value are separated by `=`, `:` or white space, unless a backslash precedes it.
fn entry(line: &str) -> (String, String) {
    let mut is_escaped = false;
    let end = line.find(|char: char| {
        let ends = !is_escaped && (matches!(char, '=' | ':') || char.is_whitespace());
        is_escaped = char == '\\' && !is_escaped;
        ends
    });
    let (name, rest) = line.split_at_checked(end.unwrap_or(line.len())).unwrap_or((line, ""));
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start();
    (unescaped(name), unescaped(value))
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            plain.push(char);
            continue;
        }
        match chars.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let char = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                plain.push(char.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_as_java_writes_them() {
        let text = "#Thu Nov 19 12\\:00\\:00 UTC 2026\ntraceparent=00-ab-cd-01\n\
                    tracestate=a\\=1,b\\=\\u00e9\n  baggage : x y\n\n";
        let expect = [
            ("traceparent", "00-ab-cd-01"),
            ("tracestate", "a=1,b=é"),
            ("baggage", "x y"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(properties(text), expect);
    }
}
