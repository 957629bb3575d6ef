//! `tracing.span.context.field`: a `java.util.Properties` that a tracer has written as text.

/// Where W3C's trace context has the ids, and what vendors add to them.
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The headers that continue the trace; none if it has no valid context.
pub(super) fn trace_context(text: &str) -> Vec<(&'static str, String)> {
    let entries = properties(text);
    let find = |name| entries.iter().rfind(|(known, _)| known == name).map(|(_, it)| it.as_str());
    let Some(traceparent) = find(TRACEPARENT).and_then(traceparent) else { return Vec::new() };
    let tracestate = find(TRACESTATE).filter(|it| !it.is_empty());
    let tracestate = tracestate.map(|it| (TRACESTATE, it.to_owned()));
    std::iter::once((TRACEPARENT, traceparent)).chain(tracestate).collect()
}

/// The ids of trace and parent, and whether it is recorded, as version 00 has them.
fn traceparent(text: &str) -> Option<String> {
    let mut parts = text.splitn(5, '-');
    let mut part = |digits: usize| {
        let is_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        parts.next().filter(|it| it.len() == digits && it.bytes().all(is_hex))
    };
    let is_id = |id: &&str| id.bytes().any(|byte| byte != b'0');
    let version = part(2).filter(|version| *version != "ff")?;
    let (trace, parent) = (part(32).filter(is_id)?, part(16).filter(is_id)?);
    let is_recorded = u8::from_str_radix(part(2)?, 16).ok()? & 1;
    // Only later versions can have more.
    let is_whole = version != "00" || parts.next().is_none();
    is_whole.then(|| format!("00-{trace}-{parent}-{is_recorded:02x}"))
}

/// The entries, in their order.
fn properties(text: &str) -> Vec<(String, String)> {
    let mut lines = text.lines();
    let mut entries = Vec::new();
    while let Some(line) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = line.to_owned();
        // A line that ends with an odd number of backslashes continues.
        while whole.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1 {
            whole.pop();
            match lines.next() {
                Some(line) => whole.push_str(line.trim_start()),
                None => break,
            }
        }
        entries.push(entry(&whole));
    }
    entries
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
                    tracestate=a\\=1,b\\\n   \\=\\u00e9\n  baggage : x y\n\n";
        let expect =
            [("traceparent", "00-ab-cd-01"), ("tracestate", "a=1,b=é"), ("baggage", "x y")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(properties(text), expect);
    }

    #[test]
    fn only_a_valid_context_is_passed_on() {
        const PARENT: &str = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
        let check = |text: &str, expect: &[&str]| {
            let names: Vec<_> = trace_context(text).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, expect, "{text}");
        };
        check(&format!("traceparent=00-{PARENT}-01"), &["traceparent"]);
        check(&format!("traceparent=01-{PARENT}-01-more"), &["traceparent"]);
        let both = ["traceparent", "tracestate"];
        check(&format!("tracestate=a\\=1\ntraceparent=00-{PARENT}-00\nother=1"), &both);
        for wrong in [
            "",
            "traceparent=x",
            "tracestate=a",
            &format!("traceparent=00-{PARENT}-01-more"),
            &format!("traceparent=ff-{PARENT}-01"),
            &format!("traceparent=00-{}-01", PARENT.to_uppercase()),
            &format!("traceparent=00-{:032}-b7ad6b7169203331-01", 0),
        ] {
            check(wrong, &[]);
        }
    }
}
