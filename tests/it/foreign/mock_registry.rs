//! The mock registry answers as Confluent's does, and fails when a test wants it to.

use std::time::Duration;

use openssl::base64::decode_block;
use serde_json::{Value, json};

use testkit::proxy::Proxy;
use testkit::registry::mock::MockRegistry;
use testkit::registry::{Kind, Login, Registry};
use testkit::wait::wait_until;

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_schema_has_one_id_and_one_guid() {
    let mock = MockRegistry::start();
    let registry = mock.registry();
    let first = registry.register("a-value", Kind::Avro, "\"string\"");
    assert_eq!(registry.register("a-value", Kind::Avro, "\"string\""), first);
    assert_eq!(registry.register("b-value", Kind::Avro, "\"string\""), first);
    let second = registry.register("a-value", Kind::Avro, "\"long\"");
    assert_eq!((first.id, second.id), (1, 2));

    // printf '"string"' | md5sum
    assert_eq!(first.guid.as_deref(), Some("095d71cf-1255-6b9d-5e33-0ad575b3df5d"));
    let schema = json!({ "guid": first.guid, "schemaType": "AVRO", "schema": "\"string\"" });
    assert_eq!(registry.get("/schemas/ids/1"), (200, schema.clone()));
    let path = format!("/schemas/guids/{}", first.guid.unwrap());
    assert_eq!(registry.get(&path), (200, schema));

    assert_eq!(registry.get("/subjects"), (200, json!(["a-value", "b-value"])));
    assert_eq!(registry.get("/subjects/a-value/versions"), (200, json!([1, 2])));
    let (_, latest) = registry.get("/subjects/a-value/versions/latest");
    assert_eq!((&latest["id"], &latest["version"]), (&json!(2), &json!(2)));
    assert_eq!(latest["subject"], "a-value");
}

/// What it contains is read by Confluent's client.
#[test]
fn a_protobuf_schema_is_also_there_in_serialized_form() {
    let mock = MockRegistry::start();
    let schema = "syntax = \"proto3\"; message A { int32 n = 1; }";
    let registered = mock.registry().register("p-value", Kind::Protobuf, schema);
    for path in ["/schemas/ids/1", "/subjects/p-value/versions/latest"] {
        let (_, as_text) = mock.registry().get(path);
        let (_, serialized) = mock.registry().get(&format!("{path}?format=serialized"));
        assert_eq!(as_text["schema"], schema);
        assert_eq!(as_text["guid"].as_str(), registered.guid.as_deref());
        assert_eq!(serialized["guid"], as_text["guid"]);
        let descriptor = decode_block(serialized["schema"].as_str().unwrap());
        assert!(descriptor.is_ok_and(|it| it.windows(6).any(|window| window == b"proto3")));
    }
}

#[test]
fn only_the_right_login_is_served() {
    let login = Login::Basic { user: "reader".to_owned(), password: "secret".to_owned() };
    let mock = MockRegistry::start_for(login);
    mock.registry().register("a-value", Kind::Avro, "\"string\"");
    for wrong in [None, Some(Login::Bearer("secret".to_owned()))] {
        let (status, body) = mock.registry().with_login(wrong).get("/subjects");
        assert_eq!((status, &body["error_code"]), (401, &json!(401)));
    }
    let token = MockRegistry::start_for(Login::Bearer("token".to_owned()));
    assert_eq!(token.registry().get("/subjects"), (200, json!([])));
}

#[test]
fn trouble_begins_and_ends_when_a_test_says_so() {
    let mock = MockRegistry::start();
    mock.answer(503, "{\"error_code\": 50003}");
    assert_eq!(mock.registry().get("/subjects"), (503, json!({ "error_code": 50003 })));
    mock.answer(200, "<html>");
    assert_eq!(mock.registry().get("/subjects"), (200, Value::Null));

    mock.hold();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| mock.registry().get("/subjects"));
        wait_until("the third request", SOON, || mock.requests().len() == 3);
        assert!(!waiting.is_finished());
        mock.recover();
        assert_eq!(waiting.join().unwrap(), (200, json!([])));
    });
    assert_eq!(mock.requests(), ["GET /subjects"; 3]);

    let proxy = Proxy::to(mock.registry().port());
    let behind_proxy: Registry = mock.registry().at(proxy.port());
    assert_eq!(behind_proxy.get("/subjects"), (200, json!([])));
    proxy.refuse();
    assert!(behind_proxy.try_send("GET", "/subjects", "").is_err());
}
