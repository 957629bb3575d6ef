//! Predicates, and the transforms before and after the Outbox Event Router.

use super::router::type_of;
use crate::import::connector::Connector;
use crate::import::draft::Draft;
use crate::import::finding::Kind;
use crate::import::setting::{Setting, list, one_line};

/// What consumers miss without a transform, by the end of its class.
const EFFECTS: [(&str, &str); 12] = [
    (
        "RegexRouter",
        "topics keep the names that the Event Router gives them; route.topic.regex and \
                     route.topic.replacement in [debezium] can change them",
    ),
    (
        "ByLogicalTableRouter",
        "topics keep the names that the Event Router gives them; \
                              route.topic.regex and route.topic.replacement in [debezium] can change them",
    ),
    ("TimestampRouter", "topics keep the names that the Event Router gives them"),
    (
        "InsertHeader",
        "records do not have its header; a constant can be written into [route.headers]",
    ),
    ("DropHeaders", "records keep the headers that it drops"),
    (
        "HeaderFrom",
        "records do not have its headers; table.fields.additional.placement in [debezium] \
                    makes headers of columns",
    ),
    ("Filter", "records that it leaves out are published"),
    ("ContentBasedRouter", "records go to the topics of the Event Router"),
    ("PartitionRouting", "records go to the partitions of their keys"),
    (
        "DecodeLogicalDecodingMessageContent",
        "messages written without a table are not published; \
                                             postrider.emit writes such events",
    ),
    (
        "ActivateTracingSpan",
        "postrider makes no spans: headers with a trace context have the \
                             application's span",
    ),
    ("ExtractNewRecordState", "it has no effect on events of the Event Router"),
];

/// Lists predicates and further transforms, and takes their options.
pub(super) fn find(router: &str, connector: &mut Connector, draft: &mut Draft) {
    let of_router = format!("transforms.{router}.");
    let mut options = connector.take_below(&of_router);
    options.remove("type");
    options.remove("negate");
    if let Some(predicate) = options.remove("predicate") {
        let meaning = "postrider publishes each row of postgres.tables; name only tables that the \
                       predicate let through. Changes of other tables are not published";
        draft.find(Kind::Consumers, &predicate.place(), meaning);
    }
    let names: Vec<String> = match connector.options.get("transforms").and_then(Setting::text) {
        Some(text) => list(text).map(ToOwned::to_owned).collect(),
        None => Vec::new(),
    };
    for name in names.iter().filter(|name| *name != router) {
        other(name, connector, draft);
    }
    connector.take("transforms");
    connector.take("predicates");
    connector.take_below("predicates.");
    for (name, setting) in connector.take_below("transforms.") {
        let alias = name.split('.').next().unwrap_or_default();
        if !names.iter().any(|known| known.eq_ignore_ascii_case(alias)) {
            let meaning = "there is no transform of this name in transforms, so it has no effect in \
                           Debezium, and none here";
            draft.find(Kind::Operators, &setting.place(), meaning);
        }
    }
}

fn other(name: &str, connector: &Connector, draft: &mut Draft) {
    let class = type_of(connector, name);
    let text =
        class.and_then(Setting::text).unwrap_or("a class that the file does not name").trim();
    let simple = text.trim_end_matches("$Key").trim_end_matches("$Value");
    let simple = simple.rsplit('.').next().unwrap_or_default();
    let effect = EFFECTS.iter().find(|(known, _)| *known == simple);
    let kind = match simple {
        "ExtractNewRecordState" => Kind::Operators,
        _ => Kind::Consumers,
    };
    let meaning = format!(
        "{} is not run: {}",
        one_line(text),
        effect.map_or("what it changes in records is not changed", |(_, effect)| effect)
    );
    let place = class.map_or_else(|| format!("transforms, {}", one_line(name)), Setting::place);
    draft.find(kind, &place, &meaning);
}
