//! `[debezium]`: options of Debezium's Outbox Event Router under their own names, and what else of
//! Debezium shows in records.

mod conflicts;

use std::collections::BTreeMap;

use postrider_core::connect::{BinaryMode, Converter, DecimalMode, HeaderConverter, TimeMode};
use postrider_core::debezium::{
    Expansion, OnUpdate, Options, Place, Placement, Profile, TopicRouter,
};

use super::keys::{self, DEBEZIUM};
use super::problem::{Origin, Problem};
use super::raw::{Layer, Pairs, Typed};
use super::secrets;

/// What `[debezium]` says, and where.
#[derive(Clone, Default)]
pub(super) struct DebeziumSettings {
    pub(super) options: Options,
    typed: BTreeMap<String, Origin>,
}

const ID: &str = "table.field.event.id";
const KEY: &str = "table.field.event.key";
const PAYLOAD: &str = "table.field.event.payload";
const ROUTE_BY: &str = "route.by.field";
const PLACEMENT: &str = "table.fields.additional.placement";
const REGEX: &str = "route.topic.regex";
const REPLACEMENT: &str = "route.topic.replacement";
const EXPAND: &str = "table.expand.json.payload";
const NULLS: &str = "table.json.payload.null.behavior";
const EMPTY_ARRAYS: &str = "table.json.payload.empty.array.behavior";
const TOPIC_PREFIX: &str = "topic.prefix";

/// What can be set, in the order of the documentation.
const NAMES: [&str; 25] = [
    "profile",
    "key",
    "value",
    "header",
    ID,
    KEY,
    "table.field.event.type",
    PAYLOAD,
    "table.field.event.timestamp",
    "table.field.event.schema.version",
    PLACEMENT,
    "table.field.additional.missing",
    EXPAND,
    NULLS,
    EMPTY_ARRAYS,
    "table.op.invalid.behavior",
    ROUTE_BY,
    REGEX,
    REPLACEMENT,
    "route.tombstone.on.empty.payload",
    "tracing.span.context.field",
    TOPIC_PREFIX,
    "decimal.handling.mode",
    "time.precision.mode",
    "binary.handling.mode",
];

/// Reads the section. What is wrong is among the problems.
pub(super) fn check(typed: &Layer, problems: &mut Vec<Problem>) -> DebeziumSettings {
    let pairs = typed.map(&DEBEZIUM);
    let mut reader = Reader { pairs, problems };
    reader.refuse_unknown();
    let options = reader.options();
    let typed = pairs.iter().map(|(name, typed)| (name.clone(), typed.origin.clone())).collect();
    DebeziumSettings { options, typed }
}

/// The name of an option for people: `debezium.ROUTE_BY`.
pub(super) fn path(option: &str) -> String {
    if option.contains('.') { format!("debezium.{option:?}") } else { format!("debezium.{option}") }
}

struct Reader<'a> {
    pairs: &'a Pairs,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn refuse_unknown(&mut self) {
        let known = || NAMES.into_iter();
        for (name, Typed { origin, .. }) in self.pairs {
            if known().any(|it| it == name) {
                continue;
            }
            let shown = path(name);
            let message = if name.starts_with("tracing.") {
                format!(
                    "{shown}: postrider writes no spans; remove it. tracing.span.context.field \
                     passes the context on as headers"
                )
            } else {
                match keys::nearest(name, known().map(ToOwned::to_owned)) {
                    Some(near) => format!("unknown key {shown}; did you mean {}?", path(&near)),
                    None => format!(
                        "unknown key {shown}; only options of the Outbox Event Router belong here, \
                         without the transform's prefix"
                    ),
                }
            };
            self.problems.push(Problem::at(origin, message));
        }
    }

    fn read<T>(
        &mut self,
        option: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Typed { text, origin } = self.pairs.get(option)?;
        match parse(text.trim()) {
            Ok(value) => Some(value),
            Err(reason) => {
                let reason = secrets::reason(reason, text);
                let message = format!("{}: {reason}", secrets::setting(&path(option), text));
                self.problems.push(Problem::at(origin, message));
                None
            }
        }
    }

    fn choice<T: Copy + Default>(&mut self, option: &str, choices: &[(&str, T)]) -> T {
        self.read(option, |text| choice(text, choices)).unwrap_or_default()
    }

    fn yes_or_no(&mut self, option: &str) -> bool {
        self.read(option, |text| choice(text, &[("true", true), ("false", false)]))
            .unwrap_or_default()
    }

    fn column(&mut self, option: &str) -> Option<String> {
        self.read(option, |text| match text {
            "" => Err("name a column".to_owned()),
            text => Ok(text.to_owned()),
        })
    }

    fn options(&mut self) -> Options {
        let mut options = Options {
            profile: self.choice("profile", &Profile::ALL),
            key: self.choice("key", &Converter::ALL),
            value: self.choice("value", &Converter::ALL),
            header: self.choice("header", &HeaderConverter::ALL),
            placements: self.read(PLACEMENT, placements).unwrap_or_default(),
            ignores_missing: self
                .choice("table.field.additional.missing", &[("error", false), ("ignore", true)]),
            expansion: self.expansion(),
            tombstone_on_blank: self.yes_or_no("route.tombstone.on.empty.payload"),
            on_update: self.choice("table.op.invalid.behavior", &OnUpdate::ALL),
            topic_prefix: self.read(TOPIC_PREFIX, |text| Ok(text.to_owned())).unwrap_or_default(),
            topic: self.topic(),
            ..Options::default()
        };
        options.modes.decimals = self.choice("decimal.handling.mode", &DecimalMode::ALL);
        options.modes.times = self.choice("time.precision.mode", &TimeMode::ALL);
        options.modes.bytes = self.choice("binary.handling.mode", &BinaryMode::ALL);
        let columns = &mut options.columns;
        for (option, column) in [
            (ID, &mut columns.id),
            (KEY, &mut columns.key),
            ("table.field.event.type", &mut columns.event_type),
            (PAYLOAD, &mut columns.payload),
            (ROUTE_BY, &mut columns.route_by),
        ] {
            if let Some(name) = self.column(option) {
                *column = name;
            }
        }
        columns.timestamp = self.column("table.field.event.timestamp");
        columns.schema_version = self.column("table.field.event.schema.version");
        columns.tracing = self.column("tracing.span.context.field");
        self.check_topic_prefix(&options);
        options
    }

    fn expansion(&mut self) -> Option<Expansion> {
        let nulls = [("ignore", false), ("optional_bytes", true)];
        let empty_arrays = [("ignore", false), ("optional_string", true)];
        let expansion = Expansion {
            keeps_nulls: self.choice(NULLS, &nulls),
            keeps_empty_arrays: self.choice(EMPTY_ARRAYS, &empty_arrays),
        };
        let expands = self.yes_or_no(EXPAND);
        for option in [NULLS, EMPTY_ARRAYS] {
            if let (false, Some(Typed { origin, .. })) = (expands, self.pairs.get(option)) {
                let message = format!(
                    "{} has no effect without {} = true; set that, or remove it",
                    path(option),
                    path(EXPAND)
                );
                self.problems.push(Problem::at(origin, message));
            }
        }
        expands.then_some(expansion)
    }

    fn topic(&mut self) -> TopicRouter {
        let text = |option| self.pairs.get(option).map(|typed: &Typed| typed.text.as_str());
        let (regex, replacement) = (text(REGEX), text(REPLACEMENT));
        let Some(typed) = self.pairs.get(REGEX).or(self.pairs.get(REPLACEMENT)) else {
            return TopicRouter::default();
        };
        let regex = regex.unwrap_or(TopicRouter::DEFAULT_REGEX);
        let replacement = replacement.unwrap_or(TopicRouter::DEFAULT_REPLACEMENT);
        match TopicRouter::new(regex, replacement) {
            Ok(router) => router,
            Err(error) => {
                let about = if text(REGEX).is_some() { REGEX } else { REPLACEMENT };
                let reason = secrets::reason(error.to_string(), &typed.text);
                let message = format!("{}: {reason}", path(about));
                self.problems.push(Problem::at(&typed.origin, message));
                TopicRouter::default()
            }
        }
    }

    /// The names of an envelope's schemas begin with it.
    fn check_topic_prefix(&mut self, options: &Options) {
        let has_envelope = options.placements.iter().any(|it| it.place == Place::Envelope);
        let is_shown = options.value == Converter::JsonWithSchemas && has_envelope;
        if let (true, None, Some(typed)) =
            (is_shown, self.pairs.get(TOPIC_PREFIX), self.pairs.get(PLACEMENT))
        {
            let message = format!(
                "{} makes an envelope, and the name of its schema begins with the connector's \
                 topic.prefix; set {}",
                path(PLACEMENT),
                path(TOPIC_PREFIX)
            );
            self.problems.push(Problem::at(&typed.origin, message));
        }
    }
}

/// As Debezium does, without regard to upper and lower case.
fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        match names.split_last() {
            Some((last, [])) => format!("only {last} is possible"),
            Some((last, others)) => format!("choose {} or {last}", others.join(", ")),
            None => String::new(),
        }
    })
}

/// `type:header:eventType,tenant:envelope`.
fn placements(text: &str) -> Result<Vec<Placement>, String> {
    text.split(',').map(placement).collect()
}

fn placement(text: &str) -> Result<Placement, String> {
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let wrong = || {
        format!(
            "{text:?}: write column:header, column:envelope or column:partition, and :name after it for another name"
        )
    };
    let (column, place, alias) = match parts.as_slice() {
        [column, place] => (*column, *place, *column),
        [column, place, alias] => (*column, *place, *alias),
        _ => return Err(wrong()),
    };
    let place = choice(place, &Place::ALL).map_err(|_| wrong())?;
    if column.is_empty() || alias.is_empty() || alias.contains('\0') {
        return Err(wrong());
    }
    Ok(Placement { column: column.to_owned(), place, alias: alias.to_owned() })
}
