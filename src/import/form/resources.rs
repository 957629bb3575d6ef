//! JSON and YAML: what was posted to Kafka Connect's REST API, Strimzi's resources, and the YAML of
//! Debezium Server.

use super::tree::{Node, Tree};
use super::{FORMS, Pair, name_it, references, server, written};
use crate::import::Fault;
use crate::import::connector::{Connector, Runtime, Settings};
use crate::import::setting::{Setting, one_line};

/// The one connector of these documents.
pub(super) fn connector(documents: Vec<Tree>) -> Result<Connector, Vec<Fault>> {
    let mut faults = Vec::new();
    let documents: Vec<&Tree> = documents.iter().flat_map(items).collect();
    let is_kind = |kind: &str| {
        let has = move |tree: &&&Tree| tree.get("kind").and_then(Tree::text) == Some(kind);
        documents.iter().filter(has).copied().collect::<Vec<_>>()
    };
    let strimzi = is_kind("KafkaConnector");
    let others = documents.iter().copied().filter(|tree| is_connector(tree));
    let all: Vec<&Tree> = strimzi.iter().copied().chain(others).collect();
    let connector = match all.as_slice() {
        [] => return server_or_none(&documents),
        [one] if strimzi.is_empty() => of_rest(one, &mut faults),
        [one] => {
            let mut connector = of_strimzi(one, &mut faults);
            if let [worker] = is_kind("KafkaConnect").as_slice() {
                connector.worker = Some(worker_of_strimzi(worker, &mut faults));
            }
            connector
        }
        all => {
            let names: Vec<String> = all.iter().map(|tree| name_and_line(tree)).collect();
            return Err(vec![Fault::of_file(format!(
                "it has {} connectors: {}; keep one, and import each for itself",
                all.len(),
                names.join(", ")
            ))]);
        }
    };
    if faults.is_empty() { Ok(connector) } else { Err(faults) }
}

/// The items of a list of resources, or the document itself.
fn items(document: &Tree) -> Vec<&Tree> {
    let items = document.get("items").unwrap_or(document);
    match &items.node {
        Node::List(items) => items.iter().collect(),
        _ => vec![document],
    }
}

/// `{"name": …, "config": {…}}`, or only what is in `config`.
fn is_connector(tree: &Tree) -> bool {
    tree.get("kind").is_none()
        && (tree.get("config").is_some_and(Tree::is_map) || tree.get("connector.class").is_some())
}

fn name_and_line(tree: &Tree) -> String {
    let name = tree.path(&["metadata", "name"]).or_else(|| tree.get("name")).and_then(Tree::text);
    format!("{} (line {})", one_line(name.unwrap_or("without a name")), tree.line)
}

fn of_rest(tree: &Tree, faults: &mut Vec<Fault>) -> Connector {
    let name = tree.get("name").and_then(Tree::text).map(ToOwned::to_owned);
    let mut connector = Connector::new(Runtime::Connect, name);
    // An option of the connector can't be called `config`.
    let config = tree.get("config").filter(|config| config.is_map()).unwrap_or(tree);
    connector.options = settings(config, faults);
    name_it(&mut connector);
    connector
}

/// <https://strimzi.io/docs/operators/latest/configuring#type-KafkaConnectorSpec-reference>
fn of_strimzi(tree: &Tree, faults: &mut Vec<Fault>) -> Connector {
    let name = tree.path(&["metadata", "name"]).and_then(Tree::text).map(ToOwned::to_owned);
    let mut connector = Connector::new(Runtime::Connect, name);
    if let Some(config) = tree.path(&["spec", "config"]) {
        connector.options = settings(config, faults);
    }
    if let Some(class) = tree.path(&["spec", "class"])
        && let Some(text) = class.text()
    {
        let setting =
            Setting { written: "spec.class".to_owned(), line: class.line, value: written(text) };
        connector.options.insert("connector.class".to_owned(), setting);
    }
    connector
}

/// <https://strimzi.io/docs/operators/latest/configuring#type-KafkaConnectSpec-reference>
fn worker_of_strimzi(tree: &Tree, faults: &mut Vec<Fault>) -> Settings {
    let mut worker = Settings::new();
    if let Some(config) = tree.path(&["spec", "config"]) {
        worker = settings(config, faults);
    }
    for (name, property) in
        [("bootstrapServers", "bootstrap.servers"), ("tls", "tls"), ("authentication", "sasl")]
    {
        if let Some(member) = tree.path(&["spec", name]) {
            let value = written(member.text().unwrap_or_default());
            let setting = Setting { written: format!("spec.{name}"), line: member.line, value };
            worker.insert(property.to_owned(), setting);
        }
    }
    worker
}

/// Names and values. A value that is null is not set.
fn settings(config: &Tree, faults: &mut Vec<Fault>) -> Settings {
    let mut settings = Settings::new();
    for (name, Tree { line, node }) in config.members() {
        let value = match node {
            Node::Text(text) => references::of_connect(text.as_str()),
            Node::Null => continue,
            Node::List(_) | Node::Map(_) => {
                let name = one_line(name);
                let message = format!("{name} takes text; write it in quotes, on one line");
                faults.push(Fault::at(*line, message));
                continue;
            }
        };
        settings.insert(name.clone(), Setting { written: name.clone(), line: *line, value });
    }
    settings
}

/// The documents have no connector of Kafka Connect.
fn server_or_none(documents: &[&Tree]) -> Result<Connector, Vec<Fault>> {
    let is_server = |tree: &&Tree| tree.get("debezium").is_some_and(Tree::is_map);
    if !documents.iter().any(is_server) {
        return Err(vec![Fault::of_file(format!("there is no connector in it; {FORMS}"))]);
    }
    let mut pairs = Vec::new();
    for document in documents {
        flatten("", document, &mut pairs);
    }
    server::connector(pairs)
}

/// Names within names have dots between them, as in the YAML of Quarkus
/// (<https://quarkus.io/guides/config-yaml#configuration-property-conflicts>).
fn flatten(prefix: &str, tree: &Tree, pairs: &mut Vec<Pair>) {
    let mut add = |text: String| {
        let (name, written) = (prefix.to_owned(), prefix.to_owned());
        pairs.push(Pair { name, written, line: tree.line, text });
    };
    match &tree.node {
        Node::Null => {}
        Node::Text(text) => add(text.clone()),
        Node::List(items) => {
            add(items.iter().filter_map(Tree::text).collect::<Vec<_>>().join(","));
        }
        Node::Map(members) => {
            for (name, member) in members {
                let path = match name.as_str() {
                    "~" => prefix.to_owned(),
                    name if prefix.is_empty() => name.to_owned(),
                    name => format!("{prefix}.{name}"),
                };
                flatten(&path, member, pairs);
            }
        }
    }
}
