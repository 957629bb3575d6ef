//! The Outbox Event Router: which transform it is, and its options.

use postrider_core::debezium::TopicRouter;

use crate::import::Fault;
use crate::import::connector::{Connector, Runtime, Settings};
use crate::import::draft::Draft;
use crate::import::finding::Kind;
use crate::import::setting::{Setting, Value, list, one_line};

/// The class, and the name under which Kafka Connect finds it too.
const TYPES: [&str; 2] = ["io.debezium.transforms.outbox.EventRouter", "EventRouter"];

/// The router's options that postrider has under the same names, with their defaults on both sides.
const OPTIONS: [(&str, &str); 17] = [
    ("table.op.invalid.behavior", "warn"),
    ("table.field.event.id", "id"),
    ("table.field.event.key", "aggregateid"),
    ("table.field.event.type", "type"),
    ("table.field.event.payload", "payload"),
    ("table.field.event.timestamp", ""),
    ("table.field.event.schema.version", ""),
    ("table.fields.additional.placement", ""),
    ("table.field.additional.missing", "error"),
    (EXPAND, "false"),
    ("table.json.payload.null.behavior", "ignore"),
    ("table.json.payload.empty.array.behavior", "ignore"),
    ("route.by.field", "aggregatetype"),
    (REGEX, TopicRouter::DEFAULT_REGEX),
    (REPLACEMENT, TopicRouter::DEFAULT_REPLACEMENT),
    ("route.tombstone.on.empty.payload", "false"),
    // Debezium's default has an effect only together with OpenTelemetry.
    (TRACING, ""),
];

const REGEX: &str = "route.topic.regex";
const REPLACEMENT: &str = "route.topic.replacement";
/// Whether payloads are expanded; the two after it have an effect only then.
const EXPAND: &str = "table.expand.json.payload";
const OF_EXPANSION: [&str; 2] =
    ["table.json.payload.null.behavior", "table.json.payload.empty.array.behavior"];
const TRACING: &str = "tracing.span.context.field";
const NO_SPANS: &str = "postrider makes no spans: headers have the trace context as the application \
    wrote it";

/// The same for the connector's options that show in records. `topic.prefix` has no default.
const OF_CONNECTOR: [(&str, &str); 4] = [
    ("topic.prefix", ""),
    ("decimal.handling.mode", "precise"),
    ("time.precision.mode", "adaptive"),
    ("binary.handling.mode", "bytes"),
];

/// Names that older versions of Debezium have for an option.
const RENAMED: [(&str, &str); 1] = [("debezium.op.invalid.behavior", "table.op.invalid.behavior")];
/// In Debezium 2.5 to 3.5, in place of `table.field.additional.missing`.
const ERROR_ON_MISSING: &str = "table.fields.additional.error.on.missing";

/// The router's name in the list of transforms.
pub(super) fn find(connector: &Connector) -> Result<String, Fault> {
    let transforms = connector.options.get("transforms");
    let names: Vec<&str> =
        transforms.and_then(Setting::text).map(list).into_iter().flatten().collect();
    let is_router = |name: &&&str| {
        let setting = type_of(connector, name);
        setting.and_then(Setting::text).is_some_and(|text| TYPES.contains(&text.trim()))
    };
    let routers: Vec<&&str> = names.iter().filter(is_router).collect();
    let line = transforms.map(|setting| setting.line);
    match routers.as_slice() {
        [router] => Ok((**router).to_owned()),
        [] => Err(Fault {
            line,
            message: format!(
                "no transform has the type {}: postrider publishes an outbox, and no other changes \
                 of tables",
                TYPES.first().unwrap_or(&"")
            ),
        }),
        routers => Err(Fault {
            line,
            message: format!(
                "it has {} Outbox Event Routers; import a copy of the file for each, with only that \
                 router and its tables, and run a relay for each",
                routers.len()
            ),
        }),
    }
}

/// The setting with a transform's class. Names of variables have no lower case.
pub(super) fn type_of<'a>(connector: &'a Connector, name: &str) -> Option<&'a Setting> {
    let option = |name: &str| connector.options.get(&format!("transforms.{name}.type"));
    option(name).or_else(|| option(&name.to_lowercase()))
}

/// Which of the two sets of Debezium's rules applies.
pub(super) fn profile(connector: &Connector) -> &'static str {
    match connector.runtime {
        Runtime::Connect => "connect",
        Runtime::Server => "server",
    }
}

/// The router's options, and those of the connector that show in records.
pub(super) fn write(router: &str, connector: &mut Connector, draft: &mut Draft) {
    for (option, default) in OF_CONNECTOR {
        if let Some(setting) = connector.take(option) {
            copy(option, default, &setting, draft);
        }
    }
    let mut options = connector.take_below(&format!("transforms.{router}."));
    options.append(&mut connector.take_below(&format!("transforms.{}.", router.to_lowercase())));
    for name in ["type", "predicate", "negate"] {
        if let Some(setting) = options.remove(name) {
            // Transforms have these in common.
            connector.options.insert(format!("transforms.{router}.{name}"), setting);
        }
    }
    for (old, new) in RENAMED {
        if let Some(setting) = options.remove(old) {
            options.entry(new.to_owned()).or_insert(setting);
        }
    }
    without_effect(&mut options, draft);
    check_topic(&options, draft);
    for (option, default) in OPTIONS {
        if let Some(setting) = options.remove(option) {
            copy(option, default, &setting, draft);
        }
    }
    if let Some(setting) = options.remove(ERROR_ON_MISSING)
        && setting.is("false")
    {
        draft.copy("table.field.additional.missing", "ignore", &setting);
    }
    for (name, setting) in options {
        unknown(&name, &setting, draft);
    }
}

/// postrider refuses options that have no effect.
fn without_effect(options: &mut Settings, draft: &mut Draft) {
    // If it is not known whether payloads are expanded, people decide about all three.
    if options.get(EXPAND).is_some_and(|it| it.is("true") || it.text().is_none()) {
        return;
    }
    for option in OF_EXPANSION {
        if let Some(setting) = options.remove(option) {
            let meaning = format!("without {EXPAND} it has no effect in Debezium, and none here");
            draft.find(Kind::Operators, &setting.place(), &meaning);
        }
    }
}

/// Not every regular expression of Java can be run, and none is approximated.
fn check_topic(options: &Settings, draft: &mut Draft) {
    let text = |option| options.get(option).and_then(Setting::text);
    let regex = text(REGEX).unwrap_or(TopicRouter::DEFAULT_REGEX);
    let replacement = text(REPLACEMENT).unwrap_or(TopicRouter::DEFAULT_REPLACEMENT);
    if let (Err(error), Some(setting)) =
        (TopicRouter::new(regex, replacement), options.get(REGEX).or(options.get(REPLACEMENT)))
    {
        let meaning = format!("postrider does not start with it: {error}");
        draft.find(Kind::Consumers, &setting.place(), &meaning);
    }
}

fn copy(option: &str, default: &str, setting: &Setting, draft: &mut Draft) {
    let text = setting.text().unwrap_or_default();
    if setting.text().is_some() && text == default {
        return;
    }
    if option == TRACING {
        draft.find(Kind::Consumers, &setting.place(), NO_SPANS);
    }
    if ["true", "false"].contains(&default) && (setting.is("true") || setting.is("false")) {
        draft.copy(option, setting.is("true"), setting);
    } else {
        copy_text(option, setting, draft);
    }
}

/// A text, or that it is to be filled in.
pub(super) fn copy_text(key: &str, setting: &Setting, draft: &mut Draft) {
    match &setting.value {
        Value::Text(text) => draft.copy(key, text.as_str(), setting),
        Value::Elsewhere(reference) => elsewhere(key, reference, setting, draft),
    }
}

/// A value that the file only refers to.
pub(super) fn elsewhere(key: &str, reference: &str, setting: &Setting, draft: &mut Draft) {
    let place = setting.place();
    draft.fill_in(key, &format!("{place}, refers to {reference}"));
    draft.find(Kind::FillIn, &place, &format!("the file has only a reference, {reference}"));
}

fn unknown(name: &str, setting: &Setting, draft: &mut Draft) {
    let place = setting.place();
    match name {
        "tracing.operation.name" => draft.find(Kind::Consumers, &place, NO_SPANS),
        "tracing.with.context.field.only" if setting.is("true") => {}
        "tracing.with.context.field.only" => draft.find(
            Kind::Consumers,
            &place,
            "postrider makes no spans: rows without a trace context have no headers for it",
        ),
        "table.field.event.payload.id" => draft.find(
            Kind::Consumers,
            &place,
            "an option of Debezium 1, without counterpart: the key is table.field.event.key",
        ),
        name => {
            let options = OPTIONS.iter().map(|(option, _)| (*option).to_owned());
            let near = crate::config::keys::nearest(name, options);
            let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            let meaning = format!(
                "the Outbox Event Router has no option {}{near}, so it has no effect in Debezium, \
                 and none here",
                one_line(name)
            );
            draft.find(Kind::Operators, &place, &meaning);
        }
    }
}
