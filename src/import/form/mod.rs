//! The forms that a connector's configuration has: which one a text is, and what it says.

mod env;
mod json;
mod properties;
mod references;
mod resources;
mod server;
mod tree;
mod yaml;

use std::path::Path;

use super::Fault;
use super::connector::{Connector, Runtime};
use super::setting::{Setting, Value};

/// What is said of a text that is none of the forms.
const FORMS: &str = "import reads a connector's JSON or properties file of Kafka Connect, Debezium \
    Server's application.properties, application.yaml or DEBEZIUM_… variables, and Strimzi's \
    KafkaConnector";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Yaml,
    Properties,
    Environment,
}

/// A name with its value, as a line of the file has them.
struct Pair {
    /// The name with dots.
    name: String,
    /// The name as it was written.
    written: String,
    line: usize,
    text: String,
}

/// The connector of a text. `name`: the file's.
pub(super) fn read(text: &str, name: &Path) -> Result<Connector, Vec<Fault>> {
    match form(text, name) {
        Form::Json => resources::connector(vec![json::parse(text).map_err(one)?]),
        Form::Yaml => resources::connector(yaml::parse(text).map_err(one)?),
        Form::Environment => server::connector(env::parse(text)?),
        Form::Properties => {
            let pairs = properties::parse(text)?;
            if pairs.iter().any(|pair| server::is_its_name(&pair.name)) {
                server::connector(pairs)
            } else {
                of_connect(pairs)
            }
        }
    }
}

fn one(fault: Fault) -> Vec<Fault> {
    vec![fault]
}

/// The content decides, and the ending of the file's name where the content does not.
fn form(text: &str, name: &Path) -> Form {
    let ending = name.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let start = text.trim_start();
    // TOML, for example, also begins with a bracket.
    let start = start.strip_prefix('[').map_or(start, str::trim_start);
    if start.starts_with('{') {
        return Form::Json;
    }
    let has = |beginnings: &[&str]| {
        text.lines().any(|line| beginnings.iter().any(|beginning| line.starts_with(beginning)))
    };
    if has(&["debezium."]) {
        Form::Properties
    } else if text.lines().any(env::is_debezium) {
        Form::Environment
    } else if has(&["apiVersion:", "kind:", "---", "debezium:"]) {
        Form::Yaml
    } else {
        match ending {
            "json" => Form::Json,
            "yaml" | "yml" => Form::Yaml,
            "env" => Form::Environment,
            _ => Form::Properties,
        }
    }
}

/// The properties file of a connector in a standalone worker.
fn of_connect(pairs: Vec<Pair>) -> Result<Connector, Vec<Fault>> {
    let mut connector = Connector::new(Runtime::Connect, None);
    for Pair { name, written, line, text } in pairs {
        let value = references::of_connect(text);
        connector.options.insert(name, Setting { written, line, value });
    }
    if !connector.options.contains_key("connector.class") {
        let is_worker = connector.options.contains_key("bootstrap.servers");
        return Err(one(Fault::of_file(if is_worker {
            "this is the configuration of a Kafka Connect worker; name the file of its connector"
                .to_owned()
        } else {
            format!("there is no connector in it; {FORMS}")
        })));
    }
    name_it(&mut connector);
    Ok(connector)
}

/// Its option `name`, if it has no name yet.
fn name_it(connector: &mut Connector) {
    let name = connector.options.get("name").and_then(Setting::text).map(ToOwned::to_owned);
    connector.name = connector.name.take().or(name);
}

/// A value that is in the file.
fn written(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_decides() {
        #[track_caller]
        fn check(name: &str, text: &str, expect: Form) {
            assert_eq!(form(text, Path::new(name)), expect, "{name}: {text}");
        }
        check("x", "\n {\"name\": 1}", Form::Json);
        check("x.yaml", "{}", Form::Json);
        check("x", "[ {\"name\": 1}]", Form::Json);
        check("x", "[postgres]", Form::Properties);
        check("x.json", "name", Form::Json);
        check("x", "# c\napiVersion: v1\nkind: List", Form::Yaml);
        check("x", "---\nspec:\n  class: a", Form::Yaml);
        check("x", "debezium:\n  sink:\n    type: kafka", Form::Yaml);
        check("x.yml", "spec:\n  class: a", Form::Yaml);
        check("x", "debezium.sink.type=kafka", Form::Properties);
        check("x.env", "debezium.sink.type=kafka", Form::Properties);
        check("x", "name=a\nconnector.class=b", Form::Properties);
        check("x", "HOME=/root\nDEBEZIUM_SINK_TYPE=kafka", Form::Environment);
        check("x", "export DEBEZIUM_SINK_TYPE=kafka", Form::Environment);
        check("x.properties", "DEBEZIUM_SINK_TYPE=kafka", Form::Environment);
        check("prod.env", "", Form::Environment);
        check("standard input", "", Form::Properties);
    }
}
