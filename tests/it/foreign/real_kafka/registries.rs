//! Both registries give the same answers to what a client asks.

use serde_json::{Value, json};

use crate::harness::servers::apicurio;
use testkit::name::unique;
use testkit::registry::mock::MockRegistry;
use testkit::registry::{Kind, Registry};

const AVRO: &str = r#"{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}"#;
const JSON: &str = r#"{"type":"object","properties":{"id":{"type":"integer"}}}"#;
const PROTOBUF: &str = "syntax = \"proto3\"; package shop; message Order { int64 id = 1; }";

fn on_both(check: impl Fn(&Registry)) {
    check(MockRegistry::start().registry());
    check(apicurio());
}

#[track_caller]
fn assert_refused(registry: &Registry, path: &str, code: u32) {
    let (status, body) = registry.get(path);
    assert_eq!((u32::from(status), &body["error_code"]), (code / 100, &json!(code)));
}

#[test]
fn schemas_are_found_by_subject_and_by_id() {
    on_both(|registry| {
        for (kind, schema) in [(Kind::Avro, AVRO), (Kind::Json, JSON), (Kind::Protobuf, PROTOBUF)] {
            let subject = unique("found");
            let registered = registry.register(&subject, kind, schema);
            assert_eq!(registry.register(&subject, kind, schema), registered);
            let (status, by_id) = registry.get(&format!("/schemas/ids/{}", registered.id));
            assert_eq!((status, &by_id["schema"]), (200, &json!(schema)));
            assert_eq!(by_id["schemaType"], kind.to_string());
            for version in ["latest", "1"] {
                let (status, found) =
                    registry.get(&format!("/subjects/{subject}/versions/{version}"));
                assert_eq!((status, &found["schema"]), (200, &json!(schema)));
                assert_eq!((&found["id"], &found["version"]), (&json!(registered.id), &json!(1)));
                assert_eq!(found["schemaType"], kind.to_string());
            }
            let body = json!({ "schemaType": kind.to_string(), "schema": schema }).to_string();
            let (status, found) = registry.send("POST", &format!("/subjects/{subject}"), &body);
            assert_eq!((status, &found["id"]), (200, &json!(registered.id)));
        }
    });
}

#[test]
fn what_is_missing_has_a_code() {
    on_both(|registry| {
        let subject = unique("missing");
        assert_refused(registry, &format!("/subjects/{subject}/versions/latest"), 40401);
        registry.register(&subject, Kind::Avro, AVRO);
        assert_refused(registry, &format!("/subjects/{subject}/versions/7"), 40402);
        assert_refused(registry, "/schemas/ids/99999", 40403);
        let body = json!({ "schema": "{\"type\": \"rec" }).to_string();
        let (status, answer) =
            registry.send("POST", &format!("/subjects/{subject}/versions"), &body);
        assert_eq!((status, &answer["error_code"]), (422, &json!(42201)));
    });
}

/// What Apicurio lacks, so that it is noticed when it has it.
#[test]
fn apicurio_has_no_guids() {
    let registered = apicurio().register(&unique("guid"), Kind::Avro, AVRO);
    assert_eq!(registered.guid, None);
    let path = "/schemas/guids/095d71cf-1255-6b9d-5e33-0ad575b3df5d";
    assert_eq!(apicurio().get(path), (404, Value::Null));
}
