//! Tables whose columns have names of their own, as other tools create them.

use super::{BINARY, number, refused, text};
use postgres::Client;
use testkit::fixture::Fixture;
use testkit::shared;

/// As in Debezium's documentation, with the primary key that its extension for Quarkus creates.
pub(super) const DEBEZIUM: &str = "CREATE TABLE outboxevent (id uuid NOT NULL PRIMARY KEY,
    aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL,
    type varchar(255) NOT NULL, payload jsonb)";

const ID: &str = "6f1c1f3e-2b1a-4c5d-8e9f-0a1b2c3d4e5f";

/// A migrated database with such a table.
#[track_caller]
pub(super) fn prepared(name: &str, sql: &str, settings: &[(&str, &str)]) -> (Fixture, Client) {
    let (server, broker) = shared::pair();
    let mut fixture = Fixture::unmigrated(BINARY, name, &server.address(), &broker);
    let mut client = fixture.client();
    client.batch_execute(sql).unwrap();
    for (setting, value) in settings {
        fixture.set(setting, value);
    }
    fixture.migrate();
    (fixture, client)
}

#[track_caller]
pub(super) fn debezium(name: &str) -> (Fixture, Client) {
    let settings = [("POSTRIDER_TABLES", "outboxevent"), ("POSTRIDER_POSTGRES_PRESET", "debezium")];
    prepared(name, DEBEZIUM, &settings)
}

#[track_caller]
fn own(name: &str, table: &str, columns: &str) -> (Fixture, Client) {
    let settings = [("POSTRIDER_TABLES", "own"), ("POSTRIDER_POSTGRES_COLUMNS", columns)];
    prepared(name, &format!("CREATE TABLE own ({table})"), &settings)
}

const EVENT: &str =
    "'orders', '{\"n\": 1}', ordering_key => 'o', type => 'Placed', outbox => 'outboxevent'";

#[test]
fn the_key_of_debeziums_table_is_its_id() {
    let (_fixture, mut client) = debezium("debezium");
    let id = text(&mut client, &format!("SELECT postrider.enqueue({EVENT})"));
    let row = "SELECT concat_ws('|', id, aggregatetype, aggregateid, type, payload) FROM outboxevent WHERE id = ";
    let expect = format!("{id}|orders|o|Placed|{{\"n\": 1}}");
    assert_eq!(text(&mut client, &format!("{row}'{id}'")), expect);

    let keyed = EVENT.replacen("1}'", &format!("1}}', '{ID}'"), 1);
    let mut ask = |function: &str| -> (String, bool) {
        let row = client.query_one(&format!("SELECT * FROM postrider.{function}({keyed})"), &[]);
        let row = row.unwrap();
        (row.get("id"), row.get("is_new"))
    };
    assert_eq!(ask("enqueue_new"), (ID.to_owned(), true));
    assert_eq!(ask("enqueue_new"), (ID.to_owned(), false));
    assert_eq!(ask("enqueue_new_bytes"), (ID.to_owned(), false));
    // Another way to write the same uuid.
    let upper = keyed.replace(ID, &format!("{{{}}}", ID.to_uppercase()));
    assert_eq!(text(&mut client, &format!("SELECT postrider.enqueue({upper})")), ID);
    let batch = format!(
        "SELECT array_to_string(postrider.enqueue_batch('outboxevent', '{{orders,orders}}', '{{1,2}}',
            '{{NULL,{ID}}}', '{{o,p}}', types => '{{a,b}}', tenants => '{{NULL,NULL}}'), ',')"
    );
    let ids = text(&mut client, &batch);
    let (generated, existing) = ids.split_once(',').unwrap();
    assert!(generated.len() == 36 && generated != ID && existing == ID, "{ids}");
    let batch = "SELECT cardinality(postrider.enqueue_batch_bytes('outboxevent', '{orders,orders}',
        '{1,2}', ordering_keys => '{o,p}', types => '{a,b}'))::bigint";
    assert_eq!(number(&mut client, batch), 2);
    assert_eq!(number(&mut client, "SELECT count(*) FROM outboxevent"), 5);

    // The table can't have the same key for another topic: that is not the same event.
    let other = format!("SELECT postrider.enqueue({})", keyed.replace("'orders'", "'mails'"));
    let message = refused(&mut client, &other, "23505");
    assert!(message.contains("which another topic has used"), "{message}");
    let bad = format!("SELECT postrider.enqueue({})", keyed.replace(ID, "order-17"));
    let message = refused(&mut client, &bad, "22023");
    assert!(message.contains("idempotency_key \"order-17\" is not a uuid"), "{message}");
    let message = refused(&mut client, &batch.replace("'{1,2}',", "'{1,2}', '{NULL,x}',"), "22023");
    assert!(message.starts_with("event 2 of 2: idempotency_key \"x\" is not a uuid"), "{message}");
}

#[test]
fn a_column_that_would_have_no_value_is_named_with_its_argument() {
    let (_fixture, mut client) = debezium("needed");
    let mut check = |sql: String, what: &str, fix: &str| {
        let error = client.batch_execute(&sql).expect_err(&sql);
        let all = format!("{error:?}");
        assert!(all.contains(what) && all.contains(fix), "{all}");
        assert!(!all.contains("secret"), "{all}");
    };
    let without = |argument: &str| {
        let event = EVENT.replace(argument, "").replace("\"n\": 1", "\"n\": \"secret\"");
        format!("SELECT postrider.enqueue({event})")
    };
    check(without("ordering_key => 'o', "), "column \\\"aggregateid\\\"", "pass ordering_key");
    check(without("type => 'Placed', "), "column \\\"type\\\"", "pass type");
    check(
        without("nothing").replace("'orders'", "NULL"),
        "topic is missing",
        "name the Kafka topic",
    );
    // Postgres's own error would quote the payload.
    let nul = without("nothing").replace("secret", "secret \\u0000");
    check(nul.clone(), "can't be stored in a column of type jsonb", "json or text do");
    let bytes = nul.replace("enqueue(", "enqueue_bytes(").replace("\\u", "\\\\u");
    check(bytes, "payload can't be stored", "must be bytea");
    client
        .batch_execute(
            "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql
                AS 'BEGIN NEW.aggregateid := 7; RETURN NEW; END';
             CREATE TRIGGER fill BEFORE INSERT ON outboxevent FOR EACH ROW EXECUTE FUNCTION fill()",
        )
        .unwrap();
    let by_trigger =
        format!("SELECT postrider.enqueue({})", EVENT.replace("ordering_key => 'o', ", ""));
    client.batch_execute(&by_trigger).unwrap();
    assert_eq!(text(&mut client, "SELECT aggregateid FROM outboxevent"), "7");
}

const ODD: &str = r#"
    "it's %s $1" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "Ziel" varchar(40), "Body, raw" bytea,
    "select" char(20), "group" text, "tenantId" uuid, meta jsonb, trace text, kind mood, "Type" text,
    part smallint, at timestamptz NOT NULL, UNIQUE ("Ziel", "select")"#;
const ODD_NAMES: &str = r#"id="it's %s $1",topic="Ziel",payload="Body, raw",idempotency_key="select",ordering_key="group",tenant="tenantId",headers=meta,traceparent=trace,type=kind,content_type="Type",partition=part,created_at=at"#;
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn every_argument_is_written_whatever_its_columns_name_and_type() {
    let sql = format!("CREATE TYPE mood AS ENUM ('fine'); CREATE TABLE own ({ODD})");
    let settings = [("POSTRIDER_TABLES", "own"), ("POSTRIDER_POSTGRES_COLUMNS", ODD_NAMES)];
    let (_fixture, mut client) = prepared("odd", &sql, &settings);
    let rest = format!(
        "'key', 'order', '{ID}', '{{\"h\": 1}}', '{TRACE}', 'fine', 'own', 'text/plain', 3"
    );
    let one = format!("SELECT postrider.enqueue('orders', '{{\"b\":  1}}', {rest})");
    let first = text(&mut client, &one);
    assert_eq!(text(&mut client, &one), first);
    let row = r#"SELECT concat_ws('|', "it's %s $1", "Ziel", convert_from("Body, raw", 'UTF8'), "select", "group",
        "tenantId", meta, trace, kind, "Type", part, at = xact_start(at)) FROM own ORDER BY 1"#;
    let row = row.replace("xact_start(at)", "at");
    let expect = format!(
        "{first}|orders|{{\"b\":  1}}|key                 |order|{ID}|{{\"h\": 1}}|{TRACE}|fine|text/plain|3|t"
    );
    assert_eq!(text(&mut client, &row), expect);
    let batch = format!(
        "SELECT array_to_string(postrider.enqueue_batch_bytes('own', '{{orders,orders}}', '{{\"\\\\x00ff\",b}}',
            '{{key,other}}', '{{o,o}}', '{{{ID},NULL}}', '{{\"{{}}\",NULL}}', '{{{TRACE},NULL}}',
            '{{fine,NULL}}', '{{a,NULL}}', '{{3,NULL}}'), ',')"
    );
    let ids = text(&mut client, &batch);
    let (existing, new) = ids.split_once(',').unwrap();
    assert!(existing == first && new != first, "{ids}");
    let sql =
        r#"SELECT count(*) FROM own WHERE "group" = 'o' AND "Body, raw" = 'b' AND kind IS NULL"#;
    assert_eq!(number(&mut client, sql), 1);
    let bad = one.replace("'fine'", "'bad'").replace("'key'", "'new'");
    let message = refused(&mut client, &bad, "22P02");
    assert!(message.contains("invalid input value for enum mood: \"bad\""), "{message}");
}

#[test]
fn arguments_that_share_a_column_must_agree() {
    let (_fixture, mut client) = own(
        "shared",
        "id int GENERATED ALWAYS AS IDENTITY, topic text, body json, aggregate text, part int,
            UNIQUE (topic, aggregate)",
        "payload=body,ordering_key=aggregate,tenant=aggregate,idempotency_key=aggregate,headers=body,partition=part,content_type=part",
    );
    let mut check = |arguments: &str, expect: &str| {
        let sql = format!("SELECT postrider.enqueue('t', '{{}}', outbox => 'own', {arguments})");
        match expect.strip_prefix("refused: ") {
            Some(what) => {
                let message = refused(&mut client, &sql, "22023");
                assert!(message.starts_with(what), "{message}");
            }
            None => {
                let id = text(&mut client, &sql);
                let row =
                    format!("SELECT concat_ws('|', aggregate, part) FROM own WHERE id = {id}");
                assert_eq!(text(&mut client, &row), expect, "{sql}");
            }
        }
    };
    check("ordering_key => 'a'", "a");
    check("ordering_key => 'b', tenant => 'b', \"partition\" => 7, content_type => '7'", "b|7");
    check("ordering_key => 'c', tenant => 'd'", "refused: ordering_key and tenant differ");
    check("\"partition\" => 7, content_type => '8'", "refused: content_type and partition differ");
    check("headers => '{\"a\": 1}'", "refused: headers can't be stored: column \"body\"");
    // The one that is given is the key, and finds the first event.
    check("tenant => 'a', content_type => '9'", "a");
    check("idempotency_key => 'a'", "a");
    let batch = "SELECT postrider.enqueue_batch('own', '{t,t}', '{1,2}', ordering_keys => '{e,f}', tenants => '{NULL,TENANT}')";
    let message = refused(&mut client, &batch.replace("TENANT", "g"), "22023");
    assert!(message.starts_with("event 2 of 2: ordering_key and tenant differ"), "{message}");
    client.batch_execute(&batch.replace("TENANT", "f")).unwrap();
    client.batch_execute(&batch.replace("TENANT", "f")).unwrap();
    let rows = text(&mut client, "SELECT string_agg(aggregate, ',' ORDER BY id) FROM own");
    assert_eq!(rows, "a,b,e,f");
}

#[test]
fn an_argument_without_a_column_is_refused_unless_it_is_null() {
    let (_fixture, mut client) = own(
        "lacking",
        "destination text, body json, headers json",
        "topic=destination,payload=body,headers=,tenant=",
    );
    client
        .batch_execute("SELECT postrider.enqueue('t', '1', outbox => 'own', headers => NULL)")
        .unwrap();
    let batch = "SELECT postrider.enqueue_batch('own', '{t}', '{1}', headers => '{NULL}', types => '{NULL}')";
    client.batch_execute(batch).unwrap();
    for (argument, what, fix) in [
        (
            "headers => '{}'",
            "no column for headers: the configuration maps it to none",
            "postgres.columns",
        ),
        ("tenant => 't'", "no column for tenant", "leave tenant out"),
        ("type => 't'", "table own has no column type", "postgres.columns (type = \"...\")"),
    ] {
        let sql = format!("SELECT postrider.enqueue('t', '1', outbox => 'own', {argument})");
        let message = refused(&mut client, &sql, "42703");
        assert!(message.contains(what) && message.contains(fix), "{message}");
    }
    client.batch_execute("ALTER TABLE own RENAME destination TO target").unwrap();
    let message =
        refused(&mut client, "SELECT postrider.enqueue('t', '1', outbox => 'own')", "42703");
    let what = "table own has no column \"destination\", which the configuration maps topic to";
    assert!(message.starts_with(what), "{message}");
}

#[test]
fn a_table_without_a_topic_accepts_none() {
    let (_fixture, mut client) =
        own("no_topic", "topic text, payload json, idempotency_key text UNIQUE, id serial", "");
    // As if the configuration named the topic of all events.
    let sql = "ALTER TABLE own DROP COLUMN topic";
    client.batch_execute(sql).unwrap();
    for columns in ["{}", "{\"topic\": \"\"}"] {
        let sql =
            format!("UPDATE postrider.outbox_columns SET columns = '{columns}'; TRUNCATE own");
        client.batch_execute(&sql).unwrap();
        let one = "SELECT postrider.enqueue(NULL, '1', 'k', outbox => 'own')";
        let id = text(&mut client, one);
        assert_eq!(text(&mut client, one), id);
        let batch = "SELECT (postrider.enqueue_batch('own', NULL, '{1,2}', '{l,k}'))[2]";
        assert_eq!(text(&mut client, batch), id);
        for sql in [one.replace("NULL", "'t'"), batch.replace("NULL", "'{t,t}'")] {
            refused(&mut client, &sql, "42703");
        }
        assert_eq!(number(&mut client, "SELECT count(*) FROM own"), 2);
    }
    let message =
        refused(&mut client, "SELECT postrider.enqueue('t', '1', outbox => 'own')", "42703");
    assert!(message.contains("pass NULL"), "{message}");
}
