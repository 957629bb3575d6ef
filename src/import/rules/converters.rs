//! What keys, values and headers are written as.

use crate::import::connector::{Connector, Runtime, Settings, take_below};
use crate::import::draft::Draft;
use crate::import::finding::Kind;
use crate::import::setting::{Setting, Value};

/// What a converter is here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Converter {
    Text,
    Json,
    Bytes,
    /// Debezium's, which passes what is not binary on to another.
    Binary,
    Simple,
}

const CLASSES: [(&str, Converter); 6] = [
    ("org.apache.kafka.connect.storage.StringConverter", Converter::Text),
    ("org.apache.kafka.connect.json.JsonConverter", Converter::Json),
    ("org.apache.kafka.connect.converters.ByteArrayConverter", Converter::Bytes),
    ("io.debezium.converters.BinaryDataConverter", Converter::Binary),
    // Its name in Debezium 1.
    ("io.debezium.converters.ByteBufferConverter", Converter::Binary),
    ("org.apache.kafka.connect.storage.SimpleHeaderConverter", Converter::Simple),
];

const PARTS: [Part; 3] = [
    Part { key: "key", values: "string, json, json-with-schemas or bytes" },
    Part { key: "value", values: "string, json, json-with-schemas or bytes" },
    Part { key: "header", values: "simple, json or json-with-schemas" },
];

/// A part of a record.
struct Part {
    key: &'static str,
    /// What postrider can write.
    values: &'static str,
}

/// How headers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFormat {
    Simple,
    Json,
    JsonWithSchemas,
}

/// A part's converter: its class, or Debezium Server's name for it, and its options.
struct Chosen {
    converter: Option<Converter>,
    /// Where it was chosen; none if it is a default.
    setting: Option<Setting>,
    /// Whose default, if nobody chose it.
    default: &'static str,
    /// `schemas.enable`
    schemas: Option<Setting>,
    options: Settings,
}

impl Chosen {
    /// Where the format is from.
    fn why(&self) -> String {
        let mut why = match &self.setting {
            Some(setting) => format!("from {}", setting.place()),
            None => self.default.to_owned(),
        };
        if let (Some(schemas), Some(Converter::Json)) = (&self.schemas, self.converter) {
            why.push_str(&format!("; {}", schemas.place()));
        }
        why
    }

    /// Where it was chosen.
    fn place(&self, part: &Part) -> String {
        self.setting.as_ref().map_or_else(|| format!("{}.converter", part.key), Setting::place)
    }
}

/// Writes the three formats, and returns that of headers.
pub(super) fn write(connector: &mut Connector, draft: &mut Draft) -> HeaderFormat {
    let mut header = HeaderFormat::Simple;
    let common = match connector.runtime {
        Runtime::Connect => Settings::new(),
        Runtime::Server => connector.take_below("converter."),
    };
    for part in PARTS {
        let chosen = match connector.runtime {
            Runtime::Connect => of_connect(&part, connector, draft),
            Runtime::Server => of_server(&part, connector, &common),
        };
        let Some(chosen) = chosen else {
            missing(&part, draft);
            continue;
        };
        let format = format(&part, &chosen, draft);
        match format {
            Some(format) => draft.set(part.key, format, &chosen.why()),
            None => {
                let why = format!("{}; in place of {}", part.values, chosen.place(&part));
                draft.fill_in(part.key, &why);
            }
        }
        if part.key == "header" {
            header = match format {
                Some("json") => HeaderFormat::Json,
                Some("json-with-schemas") => HeaderFormat::JsonWithSchemas,
                _ => HeaderFormat::Simple,
            };
        }
        options(&part, chosen, draft);
    }
    header
}

/// The connector's converter, or the worker's.
fn of_connect(part: &Part, connector: &mut Connector, draft: &mut Draft) -> Option<Chosen> {
    let option = format!("{}.converter", part.key);
    let below = format!("{option}.");
    let own = connector.take(&option);
    let own_options = connector.take_below(&below);
    let (setting, mut options) = match (own, &mut connector.worker) {
        (Some(own), _) => (Some(own), own_options),
        (None, worker) => {
            for setting in own_options.values() {
                let meaning = format!(
                    "without {option} in the same connector Kafka Connect ignores it, so it has no \
                     effect here either"
                );
                draft.find(Kind::Operators, &setting.place(), &meaning);
            }
            match worker {
                Some(worker) => (worker.remove(&option), take_below(worker, &below)),
                None => (None, Settings::new()),
            }
        }
    };
    let default = match connector.worker {
        Some(_) => "Kafka Connect's default",
        None => "Kafka Connect's default; a worker may have another header.converter",
    };
    let converter = match &setting {
        Some(setting) => setting.text().and_then(class),
        None if part.key == "header" => Some(Converter::Simple),
        None => return None,
    };
    let schemas = options.remove("schemas.enable");
    Some(Chosen { converter, setting, default, schemas, options })
}

/// `debezium.format.…`
fn of_server(part: &Part, connector: &mut Connector, common: &Settings) -> Option<Chosen> {
    let setting = connector.formats.remove(part.key);
    // Debezium Server lets the more special ones win.
    let mut options = common.clone();
    options.extend(connector.take_below(&format!("{}.converter.", part.key)));
    let is_of_part = |name: &str| {
        PARTS.iter().any(|it| {
            name.strip_prefix(it.key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let general = connector.formats.iter().filter(|(name, _)| !is_of_part(name));
    options.extend(general.map(|(name, setting)| (name.clone(), setting.clone())));
    options.extend(take_below(&mut connector.formats, &format!("{}.", part.key)));
    let given_class = options.remove("class").and_then(|class_of| class_of.text().and_then(class));
    let has_registry = options.contains_key("apicurio.registry.url");
    let name = setting.as_ref().map_or(Some("json"), Setting::text).map(str::trim);
    let converter = match name {
        Some("json" | "jsonbytearray") if given_class.is_none() && !has_registry => {
            Some(Converter::Json)
        }
        Some("simplestring") if given_class.is_none() => Some(Converter::Text),
        Some("binary") if given_class.is_none() => Some(Converter::Binary),
        _ => given_class,
    };
    let schemas = options.remove("schemas.enable");
    Some(Chosen { converter, setting, default: "Debezium Server's default", schemas, options })
}

fn class(text: &str) -> Option<Converter> {
    CLASSES.iter().find(|(class, _)| *class == text.trim()).map(|(_, converter)| *converter)
}

/// What a part is written as; none if that is not possible here.
fn format(part: &Part, chosen: &Chosen, draft: &mut Draft) -> Option<&'static str> {
    let has_schemas = chosen.schemas.as_ref().is_none_or(|setting| !setting.is("false"));
    let is_header = part.key == "header";
    match chosen.converter {
        Some(Converter::Json) if has_schemas => Some("json-with-schemas"),
        Some(Converter::Json) => Some("json"),
        Some(Converter::Text) if is_header => {
            let meaning = "simple is the nearest: headers from bytea, numeric and structured columns \
                           look different, text and numbers are the same";
            draft.find(Kind::Consumers, &chosen.place(part), meaning);
            Some("simple")
        }
        Some(Converter::Text) => Some("string"),
        Some(Converter::Bytes | Converter::Binary) if !is_header => Some("bytes"),
        Some(Converter::Simple) if is_header => Some("simple"),
        _ => {
            let class = match chosen.setting.as_ref().map(|setting| &setting.value) {
                Some(Value::Elsewhere(_)) => "a converter that is not named in the file",
                _ => "this converter",
            };
            let meaning =
                format!("postrider has no counterpart of {class}; it has {}", part.values);
            draft.find(Kind::Consumers, &chosen.place(part), &meaning);
            None
        }
    }
}

/// The converter's own options.
fn options(part: &Part, chosen: Chosen, draft: &mut Draft) {
    let delegate = chosen.options.get("delegate.converter.type").cloned();
    if chosen.converter == Some(Converter::Binary)
        && let Some(setting) = delegate
    {
        let meaning = format!(
            "debezium.{} = bytes is right if the column is bytea; otherwise write this converter's \
             format in its place",
            part.key
        );
        draft.find(Kind::Consumers, &setting.place(), &meaning);
    }
    for (name, setting) in chosen.options {
        let is_json = chosen.converter == Some(Converter::Json);
        let meaning = match name.as_str() {
            _ if chosen.converter.is_none() => continue,
            "schemas.cache.size" | "converter.type" => continue,
            "decimal.format" if !is_json || setting.is("base64") => continue,
            "replace.null.with.default" if !is_json || setting.is("true") => continue,
            "encoding" | "converter.encoding" if setting.is("utf-8") || setting.is("utf8") => {
                continue;
            }
            name if name.starts_with("delegate.converter.type") => continue,
            "decimal.format" => "numeric columns are written in base64, as by default",
            "replace.null.with.default" => {
                "NULL in a column that has a default is written as that default, as by default"
            }
            _ => "postrider does not have this option of the converter",
        };
        draft.find(Kind::Consumers, &setting.place(), meaning);
    }
}

/// A connector without a converter, of a worker that is not in the file.
fn missing(part: &Part, draft: &mut Draft) {
    let option = format!("{}.converter", part.key);
    draft.fill_in(part.key, &format!("{}; what the worker's {option} is", part.values));
    let meaning = format!(
        "the connector does not set it, so the worker's applies: write debezium.{} after its {option} \
         and {option}.schemas.enable",
        part.key
    );
    draft.find(Kind::FillIn, &option, &meaning);
}
