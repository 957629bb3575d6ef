//! The headers that Debezium adds for OpenLineage, also to events that nobody traces.

use crate::import::connector::Connector;
use crate::import::draft::Draft;
use crate::import::setting::Setting;

use super::converters::HeaderFormat;

/// What a connector for Postgres is called there, and its only task.
const CONNECTOR: &str = "postgresql";
const TASK: &str = "0";
/// Debezium makes one at each start. OpenLineage requires a UUID.
const RUN: &str = "00000000-0000-0000-0000-000000000000";

/// The headers that a connector adds.
pub(super) struct ContextHeaders {
    logical_name: Setting,
}

/// None if the connector adds none.
pub(super) fn read(connector: &mut Connector) -> Option<ContextHeaders> {
    let is_off = connector.take("extended.headers.enabled").is_some_and(|it| it.is("false"));
    // Debezium 1, which had no such headers, called the prefix so.
    if let Some(name) = connector.take("database.server.name")
        && !connector.options.contains_key("topic.prefix")
    {
        connector.options.insert("topic.prefix".to_owned(), name);
        return None;
    }
    let logical_name = connector.options.get("topic.prefix")?.clone();
    (!is_off).then_some(ContextHeaders { logical_name })
}

pub(super) fn write(headers: Option<&ContextHeaders>, format: HeaderFormat, draft: &mut Draft) {
    let Some(ContextHeaders { logical_name }) = headers else { return };
    draft.comment(
        "Debezium adds these headers to each record since 3.2, and runId since 3.4, unless \
         extended.headers.enabled is false. They are for OpenLineage: remove them if your consumers \
         do not read them. runId was another UUID after each start.",
    );
    let name = "__debezium.context.connectorLogicalName";
    match logical_name.text() {
        Some(text) => draft.copy(name, template(text, format), logical_name),
        None => draft.fill_in(name, &logical_name.place()),
    }
    for (name, value, why) in [
        ("connectorName", CONNECTOR, "of each connector for Postgres"),
        ("runId", RUN, "any UUID"),
        ("taskId", TASK, "of each connector for Postgres"),
    ] {
        draft.set(&format!("__debezium.context.{name}"), template(value, format), why);
    }
}

/// The value as a header converter writes it, with the braces of a template doubled.
fn template(value: &str, format: HeaderFormat) -> String {
    let quoted = || serde_json::Value::from(value).to_string();
    let text = match format {
        HeaderFormat::Simple => value.to_owned(),
        HeaderFormat::Json => quoted(),
        HeaderFormat::JsonWithSchemas => {
            format!(r#"{{"schema":{{"type":"string","optional":false}},"payload":{}}}"#, quoted())
        }
    };
    text.replace('{', "{{").replace('}', "}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_templates_of_what_was_sent() {
        #[track_caller]
        fn check(format: HeaderFormat, expect: &str) {
            let text = template("a{\"b", format);
            let template = postrider_core::route::Template::parse(&text).unwrap();
            assert_eq!(template.constant().as_deref(), Some(expect));
        }
        check(HeaderFormat::Simple, "a{\"b");
        check(HeaderFormat::Json, r#""a{\"b""#);
        let expect = r#"{"schema":{"type":"string","optional":false},"payload":"a{\"b"}"#;
        check(HeaderFormat::JsonWithSchemas, expect);
    }
}
