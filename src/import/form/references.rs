//! Values that are not in the file: `${env:DB_HOST}` is filled in by Kafka Connect, and `${DB_HOST}`
//! by Debezium Server.

use crate::import::setting::Value;

/// References within references, at most.
const DEPTH_MAX: usize = 8;

/// Kafka Connect fills in `${provider:key}` and `${provider:path:key}`. Without a colon it is text,
/// such as `${routedByValue}`.
pub(super) fn of_connect(text: impl Into<String>) -> Value {
    let text = text.into();
    let is_reference = text.split("${").skip(1).any(|rest| {
        let name = rest.split_once('}').map_or("", |(name, _)| name);
        name.contains(':')
    });
    if is_reference { Value::Elsewhere(text) } else { Value::Text(text) }
}

/// Debezium Server fills in `${name}` and `${name:default}`; `$$` and `\$` are a dollar
/// (<https://smallrye.io/smallrye-config/Main/config/expressions/>).
///
/// `lookup` finds a name in the same file. With `keep`, a name that is not there is text.
pub(super) fn of_server(text: &str, keep: bool, lookup: &dyn Fn(&str) -> Option<String>) -> Value {
    match expand(text, keep, lookup, 0) {
        Ok(text) => Value::Text(text),
        Err(name) => Value::Elsewhere(format!("${{{name}}}")),
    }
}

/// The text, or the name that can't be filled in. A default is not used: the environment, which is
/// not in the file, comes first.
fn expand(
    text: &str,
    keep: bool,
    lookup: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, from)) = rest.find(['$', '\\']).and_then(|at| rest.split_at_checked(at))
    {
        expanded.push_str(before);
        if let Some(after) = from.strip_prefix("$$").or_else(|| from.strip_prefix("\\$")) {
            expanded.push('$');
            rest = after;
        } else if let Some((inner, after)) = from.strip_prefix("${").and_then(split_at_close) {
            let name = inner.split_once(':').map_or(inner, |(name, _)| name);
            match lookup(name) {
                Some(value) if depth < DEPTH_MAX => {
                    expanded.push_str(&expand(&value, keep, lookup, depth + 1)?);
                }
                None if keep => expanded.extend(["${", inner, "}"]),
                _ => return Err(name.to_owned()),
            }
            rest = after;
        } else {
            let mut chars = from.chars();
            expanded.extend(chars.next());
            rest = chars.as_str();
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Up to the brace that closes the first one, and what follows it.
fn split_at_close(text: &str) -> Option<(&str, &str)> {
    let mut open = 0;
    let close = text.char_indices().find(|(_, c)| match c {
        '{' => {
            open += 1;
            false
        }
        '}' if open == 0 => true,
        '}' => {
            open -= 1;
            false
        }
        _ => false,
    });
    let (inner, after) = text.split_at_checked(close?.0)?;
    Some((inner, after.strip_prefix('}')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: Value) -> Result<String, String> {
        match value {
            Value::Text(text) => Ok(text),
            Value::Elsewhere(name) => Err(name),
        }
    }

    #[test]
    fn of_kafka_connect() {
        #[track_caller]
        fn check(text: &str, is_text: bool) {
            let expect = if is_text { Ok(text.to_owned()) } else { Err(text.to_owned()) };
            assert_eq!(shown(of_connect(text)), expect);
        }
        check("plain", true);
        check("${routedByValue}.events", true);
        check("$1: a", true);
        check("${env:DB_HOST}", false);
        check("a-${secrets:ns/name:host}-b", false);
        check("${strimzienv:DB_HOST}", false);
        check("${open: a", true);
    }

    #[test]
    fn of_debezium_server() {
        #[track_caller]
        fn check(text: &str, expect: Result<&str, &str>) {
            let lookup = |name: &str| match name {
                "host" => Some("db-${zone}".to_owned()),
                "zone" => Some("1".to_owned()),
                "loop" => Some("${loop}".to_owned()),
                _ => None,
            };
            let expect = expect.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
            assert_eq!(shown(of_server(text, false, &lookup)), expect, "{text}");
        }
        check("plain", Ok("plain"));
        check("outbox.$${routedByValue}", Ok("outbox.${routedByValue}"));
        check("outbox.\\${routedByValue}", Ok("outbox.${routedByValue}"));
        check("outbox.$1.\\d$", Ok("outbox.$1.\\d$"));
        check("${host}:5432", Ok("db-1:5432"));
        check("${DB_HOST}", Err("${DB_HOST}"));
        check("${DB_PASSWORD:hunter2}", Err("${DB_PASSWORD}"));
        check("${A:${B:c}}x", Err("${A}"));
        check("${loop}", Err("${loop}"));
        check("${open", Ok("${open"));
        let none = |_: &str| None;
        assert_eq!(
            shown(of_server("x.${routedByValue}", true, &none)).unwrap(),
            "x.${routedByValue}"
        );
    }
}
