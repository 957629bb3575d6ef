//! Checks an event before the database is called: the rules are those of the functions there
//! (`postrider.event_problem`), so a mistake costs neither a round trip nor a transaction. No I/O.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::error::Invalid;
use super::event::Event;

const TOPIC_BYTES_MAX: usize = 249;
const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 512;
const TENANT_BYTES_MAX: usize = 255;
const HEADERS_BYTES_MAX: usize = 1024 * 1024;
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// How much of a wrong value is shown.
const SHOWN_CHARS: usize = 60;

/// Kafka's own headers of an event, which a row's can't replace.
const OWN_HEADERS: [&str; 2] = ["id", "idempotency-key"];

pub(super) fn event(event: &Event, tenant_keys: bool) -> Result<(), Invalid> {
    topic(event.topic())?;
    let payload_bytes = event.payload.len();
    if payload_bytes > PAYLOAD_BYTES_MAX {
        let hint = "at most 16 MiB can be published; put large things elsewhere and refer to them";
        return Err(Invalid::new("payload", format!("has {payload_bytes} bytes"), hint));
    }
    let key = event.idempotency_key.as_deref();
    if let Some(key) = key {
        idempotency_key(key)?;
    }
    match event.tenant.as_deref() {
        Some(name) => {
            tenant(name)?;
            if tenant_keys {
                tenant_key(name, key)?;
            }
        }
        None if tenant_keys && key.is_some_and(|key| key.contains('/')) => {
            let problem = "contains \"/\" and the event has no tenant";
            let hint = "in this outbox such keys belong to tenants; name the tenant, or choose a \
                        key without \"/\"";
            return Err(Invalid::new("idempotency_key", problem, hint));
        }
        None => {}
    }
    headers(event)?;
    if event.traceparent.as_deref().is_some_and(|it| !is_traceparent(it)) {
        let hint = "for example 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        return Err(Invalid::new("traceparent", "is not a W3C trace context", hint));
    }
    if let Some(partition) = event.partition.filter(|partition| *partition < 0) {
        let problem = format!("is {partition}");
        return Err(Invalid::new("partition", problem, "partitions count from 0"));
    }
    let texts = [
        ("ordering_key", &event.ordering_key),
        ("type", &event.event_type),
        ("content_type", &event.content_type),
        // Later versions than W3C's first may end in anything.
        ("traceparent", &event.traceparent),
    ];
    for (argument, text) in texts {
        if let Some(text) = text {
            if text.len() > TEXT_BYTES_MAX {
                let problem = format!("has {} bytes", text.len());
                return Err(Invalid::new(argument, problem, "at most 64 KiB"));
            }
            no_nul(argument, text)?;
        }
    }
    Ok(())
}

fn topic(topic: &str) -> Result<(), Invalid> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !topic.bytes().all(legal)
        || matches!(topic, "" | "." | "..")
        || topic.len() > TOPIC_BYTES_MAX
    {
        let shown: String = topic.chars().take(SHOWN_CHARS).collect();
        return Err(Invalid::new(
            "topic",
            format!("{shown:?} is not a valid Kafka topic name"),
            "use 1 to 249 of A-Z a-z 0-9 . _ - and neither \".\" nor \"..\"",
        ));
    }
    Ok(())
}

fn idempotency_key(key: &str) -> Result<(), Invalid> {
    let argument = "idempotency_key";
    if key.is_empty() {
        return Err(Invalid::new(argument, "is empty", "leave it out and one is generated"));
    }
    if key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        let problem = format!("has {} bytes", key.len());
        return Err(Invalid::new(
            argument,
            problem,
            "at most 512 bytes; use a digest of longer keys",
        ));
    }
    no_nul(argument, key)
}

fn tenant(tenant: &str) -> Result<(), Invalid> {
    if tenant.is_empty() {
        return Err(Invalid::new("tenant", "is empty", "leave it out where there is none"));
    }
    if tenant.len() > TENANT_BYTES_MAX {
        let problem = format!("has {} bytes", tenant.len());
        return Err(Invalid::new("tenant", problem, "at most 255 bytes"));
    }
    no_nul("tenant", tenant)
}

/// Keys of tenants can't collide: no tenant's prefix begins with another's. A generated key has
/// one.
fn tenant_key(tenant: &str, key: Option<&str>) -> Result<(), Invalid> {
    if tenant.contains('/') {
        let hint = "it separates the tenant from the rest of the idempotency key";
        return Err(Invalid::new("tenant", "contains \"/\"", hint));
    }
    let rest = |key: &str| key.strip_prefix(tenant).is_some_and(|rest| rest.starts_with('/'));
    if key.is_none_or(rest) {
        Ok(())
    } else {
        Err(Invalid::new(
            "idempotency_key",
            "does not begin with the tenant and \"/\"",
            "in this outbox a key starts with the tenant and \"/\"; prefix it",
        ))
    }
}

fn headers(event: &Event) -> Result<(), Invalid> {
    let mut names = HashSet::new();
    for (name, value) in &event.headers.0 {
        let refused = |hint| {
            let shown: String = name.chars().take(SHOWN_CHARS).collect();
            Err(Invalid::new("headers", format!("can't have the name {shown:?}"), hint))
        };
        if name.is_empty() || name.contains('\0') {
            return refused("a header's name must not be empty or contain NUL");
        }
        if has_nul(value) {
            let problem = format!("have a value with NUL, that of {name:?}");
            return Err(Invalid::new("headers", problem, "Postgres can't read it"));
        }
        if OWN_HEADERS.contains(&name.as_str()) {
            return refused("id and idempotency-key are the event's own");
        }
        if !names.insert(name) {
            return refused("another header has this name");
        }
    }
    let bytes = event.headers_json().map_or(0, |json| json.len());
    if bytes > HEADERS_BYTES_MAX {
        let hint = "at most 1 MiB; put large things into the payload";
        return Err(Invalid::new("headers", format!("have {bytes} bytes"), hint));
    }
    Ok(())
}

fn has_nul(value: &Json) -> bool {
    match value {
        Json::String(text) => text.contains('\0'),
        Json::Array(values) => values.iter().any(has_nul),
        Json::Object(members) => {
            members.iter().any(|(name, value)| name.contains('\0') || has_nul(value))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Postgres can't store it in a text.
fn no_nul(argument: &'static str, text: &str) -> Result<(), Invalid> {
    if text.contains('\0') {
        Err(Invalid::new(argument, "contains NUL", "Postgres can't store it"))
    } else {
        Ok(())
    }
}

/// <https://www.w3.org/TR/trace-context/#traceparent-header>: later versions may add parts.
fn is_traceparent(text: &str) -> bool {
    let mut parts = text.splitn(5, '-');
    let mut hex = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits)?;
        let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        part.bytes().all(lower).then_some(part)
    };
    let (Some(version), Some(trace), Some(span), Some(_)) = (hex(2), hex(32), hex(16), hex(2))
    else {
        return false;
    };
    let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    version != "ff" && !zero(trace) && !zero(span) && (version != "00" || parts.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(event: Event, expect: Option<&str>) {
        let said = super::event(&event, false).err().map(|error| error.to_string());
        match (&said, expect) {
            (Some(said), Some(part)) => assert!(said.contains(part), "{said}"),
            (None, None) => {}
            _ => panic!("{said:?} instead of {expect:?}"),
        }
    }

    fn to(topic: &str) -> Event {
        Event::tombstone(topic)
    }

    #[test]
    fn topics_are_those_of_kafka() {
        check(to("orders.v1_X-9"), None);
        check(to(&"t".repeat(249)), None);
        for topic in ["", ".", "..", "a b", "ü", "a/b", "a\n", &"t".repeat(250)] {
            check(to(topic), Some("is not a valid Kafka topic name"));
        }
    }

    #[test]
    fn sizes_are_checked() {
        let bytes = |count| Event::bytes("t", vec![0; count]);
        check(bytes(PAYLOAD_BYTES_MAX), None);
        check(bytes(PAYLOAD_BYTES_MAX + 1), Some("payload has 16777217 bytes"));
        check(to("t").idempotency_key("k".repeat(512)), None);
        check(to("t").idempotency_key("é".repeat(257)), Some("has 514 bytes"));
        check(to("t").idempotency_key(""), Some("idempotency_key is empty"));
        check(to("t").tenant(""), Some("tenant is empty"));
        check(to("t").tenant("t".repeat(256)), Some("tenant has 256 bytes"));
        check(to("t").partition(0), None);
        check(to("t").partition(-1), Some("partition is -1"));
        check(to("t").ordering_key("a\0"), Some("ordering_key contains NUL"));
        let text = "x".repeat(TEXT_BYTES_MAX);
        check(to("t").ordering_key(&*text).event_type(&*text).content_type(&*text), None);
        check(to("t").ordering_key(format!("{text}x")), Some("ordering_key has 65537 bytes"));
        check(to("t").event_type(format!("{text}x")), Some("type has 65537 bytes"));
        check(to("t").content_type(format!("{text}x")), Some("content_type has 65537 bytes"));
        // {"a":"…"}
        check(to("t").header("a", "x".repeat(HEADERS_BYTES_MAX - 8)), None);
        check(
            to("t").header("a", "x".repeat(HEADERS_BYTES_MAX)),
            Some("headers have 1048584 bytes"),
        );
    }

    #[test]
    fn headers_have_names_of_their_own() {
        check(to("t").header("a", 1).header("b", "x").header("c", serde_json::Value::Null), None);
        for name in ["", "id", "idempotency-key", "a\0b"] {
            check(to("t").header(name, 1), Some("headers can't have the name"));
        }
        check(to("t").header("a", 1).header("a", 2), Some("another header has this name"));
        check(to("t").header("a", serde_json::json!({"b": ["\0"]})), Some("a value with NUL"));
    }

    #[test]
    fn a_trace_context_has_the_form_of_w3c() {
        let with = |traceparent: &str| to("t").traceparent(traceparent);
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        check(with(good), None);
        check(with(&good.replacen("00", "cc", 1)), None);
        check(with(&format!("{}-more", good.replacen("00", "cc", 1))), None);
        for bad in [
            "",
            "00",
            &good.to_uppercase(),
            &good.replacen("00", "ff", 1),
            &format!("{good}-more"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        ] {
            check(with(bad), Some("traceparent is not a W3C trace context"));
        }
    }

    #[test]
    fn tenants_are_kept_apart_where_that_is_the_rule() {
        let problem = |event: Event| super::event(&event, true).err().map(|it| it.to_string());
        assert_eq!(problem(to("t").tenant("a").idempotency_key("a/1")), None);
        assert_eq!(problem(to("t").tenant("a")), None);
        assert_eq!(problem(to("t").idempotency_key("1")), None);
        let said = problem(to("t").idempotency_key("a/1")).unwrap();
        assert!(said.contains("contains \"/\" and the event has no tenant"), "{said}");
        check(to("t").idempotency_key("a/1"), None);
        for key in ["1", "a", "ab/1", "/1"] {
            let said = problem(to("t").tenant("a").idempotency_key(key)).unwrap();
            assert!(said.contains("does not begin with the tenant"), "{said}");
        }
        let said = problem(to("t").tenant("a/b").idempotency_key("a/b/1")).unwrap();
        assert!(said.contains("tenant contains \"/\""), "{said}");
        check(to("t").tenant("a").idempotency_key("1"), None);
    }
}
