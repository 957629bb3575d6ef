//! What can't be imported: everything that is wrong at once, with its line and the fix.

use std::path::Path;

use super::{SECRET, import};

#[track_caller]
fn check(name: &str, text: &str, expect: &[&str]) {
    let error = import(text, Path::new(name)).err().expect("a file that can't be imported");
    let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), expect.len(), "{problems:#?}");
    for (problem, part) in problems.iter().zip(expect) {
        assert!(problem.starts_with(part), "{problem}\nis not\n{part}");
        assert!(!problem.contains(SECRET), "{problem}");
    }
}

const CLASS: &str = "connector.class=io.debezium.connector.postgresql.PostgresConnector\n";
const ROUTER: &str = "transforms=a\ntransforms.a.type=io.debezium.transforms.outbox.EventRouter\n";

#[test]
fn what_is_none_of_the_forms() {
    let none = "x: there is no connector in it; import reads a connector's JSON";
    check("x", "", &[none]);
    check("x", "hunter2", &[none]);
    check("x", "{}", &[none]);
    check("x", "[{\"name\": \"a\"}]", &[none]);
    check("x", "apiVersion: v1\nkind: Secret\ndata:\n  password: hunter2\n", &[none]);
    check("x", "[postgres]\nurl = 'postgres://u:hunter2@h/d'\n", &[none]);
    check("x.yaml", "a: 'hunter2\n", &["x.yaml:1: not YAML"]);
    check("x.json", "{\"password\": \"hunter2\"", &["x.json:1: not JSON: EOF"]);
    check("x", "services:\n  debezium:\n    image: x\n", &[none]);
}

#[test]
fn a_worker_is_not_a_connector() {
    let text = "bootstrap.servers=kafka:9092\nkey.converter=x\noffset.storage.topic=y\n";
    check(
        "w.properties",
        text,
        &["w.properties: this is the configuration of a Kafka Connect worker"],
    );
    let text =
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnect\nspec:\n  bootstrapServers: a:1\n";
    check("w.yaml", text, &["w.yaml: there is no connector in it"]);
}

#[test]
fn several_connectors_are_named() {
    let one = |name: &str| {
        format!("---\nkind: KafkaConnector\nmetadata:\n  name: {name}\nspec:\n  class: x\n")
    };
    check(
        "x",
        &[one("a"), one("b")].concat(),
        &["x: it has 2 connectors: a (line 2), b (line 8); keep one"],
    );
    check(
        "x",
        "[{\"name\": \"a\", \"config\": {}},\n {\"name\": \"b\", \"config\": {}}]",
        &["x: it has 2 connectors: a (line 1), b (line 2); keep one"],
    );
}

#[test]
fn other_connectors_sinks_and_transforms() {
    let mysql = "connector.class=io.debezium.connector.mysql.MySqlConnector\n";
    check(
        "x",
        &[mysql, "transforms=a\ntransforms.a.type=x\n"].concat(),
        &[
            "x:1: connector.class is not io.debezium.connector.postgresql.PostgresConnector: postrider \
             reads the outbox of a Postgres database only",
            "x:2: no transform has the type io.debezium.transforms.outbox.EventRouter: postrider \
             publishes an outbox",
        ],
    );
    check("x", CLASS, &["x: no transform has the type"]);
    check("x", &[mysql, ROUTER].concat(), &["x:1: connector.class is not io.debezium"]);
    let two = "transforms=a,b\ntransforms.b.type=io.debezium.transforms.outbox.EventRouter\n";
    check(
        "x",
        &[CLASS, ROUTER, two].concat(),
        &["x:4: it has 2 Outbox Event Routers; import a copy"],
    );
    let server = "debezium.sink.type=kinesis\ndebezium.source.connector.class=x\n";
    check("x", server, &["x:1: debezium.sink.type = kinesis: postrider publishes to Kafka only"]);
    let name = "debezium.sink.type=kafka\n";
    check("x", name, &["x: connector.class is not set", "x: no transform has the type"]);
}

#[test]
fn profiles_of_quarkus() {
    let text = "debezium.sink.type=kafka\n%dev.debezium.source.database.password=hunter2\n\
                %prod.debezium.sink.type=kafka\n%prod.quarkus.log.level=INFO\n";
    check(
        "x",
        text,
        &[
            "x:2: this line is for profile dev alone; import a file for the profile that runs: with \
             debezium.source.database.password in place of %dev.debezium.source.database.password",
            "x:3: this line is for profile prod alone",
        ],
    );
    let yaml = "debezium:\n  sink:\n    type: kafka\n\"%dev\":\n  debezium:\n    sink:\n      type: kafka\n";
    check("x", yaml, &["x:7: this line is for profile dev alone"]);
}

#[test]
fn values_that_are_not_text() {
    let text = "{\"config\": {\"connector.class\": \"x\",\n\"a\": [\"hunter2\"],\n\"b\": {}, \"c\": null}}";
    let fix = "takes text; write it in quotes, on one line";
    check("x", text, &[&format!("x:2: a {fix}"), &format!("x:3: b {fix}")]);
}

#[test]
fn all_wrong_lines_of_a_file() {
    check("x", "a=\\u12\nb=c\nd=\\uzzzz", &["x:1: \\u without", "x:3: \\u without"]);
    let env = "hunter2\nDEBEZIUM_SINK_TYPE=kafka\nhunter2\n";
    check("x", env, &["x:1: this line sets no variable", "x:3: this line sets no variable"]);
}
