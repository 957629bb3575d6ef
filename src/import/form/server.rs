//! Debezium Server's settings, however they were written: `debezium.source.…` and the like.

use std::collections::BTreeMap;

use super::{FORMS, Pair, references};
use crate::import::Fault;
use crate::import::connector::{Connector, Runtime};
use crate::import::setting::Setting;

const PREFIX: &str = "debezium.";
const PRODUCER: &str = "debezium.sink.kafka.producer.";

/// Whether a name is that of one of its settings, also in a profile of Quarkus.
pub(super) fn is_its_name(name: &str) -> bool {
    let name = match name.strip_prefix('%').and_then(|rest| rest.split_once('.')) {
        Some((_, name)) => name,
        None => name,
    };
    name.starts_with(PREFIX)
}

pub(super) fn connector(pairs: Vec<Pair>) -> Result<Connector, Vec<Fault>> {
    let mut faults: Vec<Fault> = pairs.iter().filter_map(profile).collect();
    let texts: BTreeMap<String, String> =
        pairs.iter().map(|pair| (pair.name.clone(), pair.text.clone())).collect();
    let mut connector = Connector::new(Runtime::Server, None);
    let mut sink = None;
    for Pair { name, written, line, text } in pairs {
        // The groups of this option's regular expression look like references.
        let keep = name.ends_with(".route.topic.replacement");
        let value = references::of_server(&text, keep, &|name| texts.get(name).cloned());
        let setting = Setting { written, line, value };
        if name == "debezium.sink.type" {
            sink = Some(setting);
        } else {
            place(&mut connector, &name, setting);
        }
    }
    connector.process.retain(|name, _| !is_referred_to(name, &texts));
    faults.extend(wrong_sink(sink.as_ref(), &connector));
    if faults.is_empty() { Ok(connector) } else { Err(faults) }
}

fn profile(pair: &Pair) -> Option<Fault> {
    let (profile, name) = pair.name.strip_prefix('%')?.split_once('.')?;
    let message = format!(
        "this line is for profile {profile} alone; import a file for the profile that runs: with \
         {name} in place of %{profile}.{name}, and without the lines of other profiles"
    );
    name.starts_with(PREFIX).then(|| Fault::at(pair.line, message))
}

/// Puts a setting where Debezium Server takes it.
fn place(connector: &mut Connector, name: &str, setting: Setting) {
    let below = |prefix: &str| name.strip_prefix(prefix).map(ToOwned::to_owned);
    if let Some(option) = below("debezium.source.") {
        connector.options.insert(option, setting);
    } else if let Some(format) = below("debezium.format.") {
        connector.formats.insert(format, setting);
    } else if let Some(property) = below(PRODUCER) {
        connector.producer.insert(property, setting);
    } else if let Some(option) = below(PREFIX)
        && ["transforms", "predicates"].contains(&option.split('.').next().unwrap_or_default())
    {
        connector.options.insert(option, setting);
    } else {
        connector.process.insert(name.to_owned(), setting);
    }
}

fn is_referred_to(name: &str, texts: &BTreeMap<String, String>) -> bool {
    let references = [format!("${{{name}}}"), format!("${{{name}:")];
    !name.starts_with(PREFIX)
        && texts.values().any(|text| references.iter().any(|it| text.contains(it.as_str())))
}

fn wrong_sink(sink: Option<&Setting>, connector: &Connector) -> Option<Fault> {
    let Some(sink) = sink else {
        let is_other = connector.options.is_empty();
        return is_other.then(|| Fault::of_file(format!("there is no connector in it; {FORMS}")));
    };
    let message = match sink.text() {
        Some("kafka") => return None,
        Some(other) if other.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') => {
            format!("{} = {other}: postrider publishes to Kafka only", sink.written)
        }
        _ => format!("{} is not kafka: postrider publishes to Kafka only", sink.written),
    };
    Some(Fault::at(sink.line, message))
}
