//! Topics, keys and headers made of any column, whatever its type.

use super::{BINARY, SOON, headers, prepared, publish};
use crate::harness::outbox::without_slot;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;

const EVENTS: &str = r#"
    create type region as enum ('eu', 'us');
    create domain label as varchar(40);
    create table events (id bigint generated always as identity primary key, tenant text,
        kind text, payload json, "Region" region, urgent boolean, price numeric(9, 2),
        at timestamptz, note label, body bytea, secret text)"#;

const FILE: &str = r#"
[postgres]
tables = ["public.events"]

[route]
topic = 'DATABASE.{tenant:lower|shared}.{"Region"}'
key = ["note", "id"]
default_headers = false
headers = { eventType = "{kind}", source = "shop", left-out = "{secret}", all = "{urgent}/{price}/{at}/{tenant|none}" }
"#;

fn with_file(fixture: &mut Fixture, folder: &tempfile::TempDir, text: &str) {
    let file = folder.path().join("postrider.toml");
    std::fs::write(&file, text.replace("DATABASE", fixture.database())).unwrap();
    fixture.set("POSTRIDER_CONFIG", file.to_str().unwrap());
}

const ROWS: &str = "
    insert into events (tenant, kind, payload, \"Region\", urgent, price, at, note) values
        ('ACME', 'paid', '1', 'eu', true, 12.50, '2026-03-01 12:00:00+02', 'n-1'),
        (null, 'paid', '2', 'eu', false, 7, '2026-03-01 12:00:00+02', null)";

#[test]
fn any_column_can_be_in_a_topic_a_key_or_a_header() {
    let mut fixture = prepared("templates", EVENTS);
    let folder = tempfile::tempdir().unwrap();
    with_file(&mut fixture, &folder, FILE);
    // What a value looks like does not depend on the database's settings.
    let settings = format!(
        "alter database {0} set timezone = 'Asia/Tokyo'; alter database {0} set datestyle = 'German'",
        fixture.database()
    );
    fixture.client().batch_execute(&settings).unwrap();
    let [acme, shared] = ["acme", "shared"].map(|it| format!("{}.{it}.eu", fixture.database()));
    let mut records = publish(&mut fixture, &[&acme, &shared], ROWS, 2);
    records.sort_by(|one, other| one.topic.cmp(&other.topic));
    let [first, second] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!((first.topic.as_str(), first.key_text()), (acme.as_str(), Some("n-1")));
    let expect = [
        ("all", "true/12.50/2026-03-01 10:00:00+00/ACME"),
        ("eventType", "paid"),
        ("source", "shop"),
    ];
    assert_eq!(headers(first), expect);
    assert_eq!((second.topic.as_str(), second.key_text()), (shared.as_str(), Some("2")));
    assert_eq!(second.header("all"), Some("false/7.00/2026-03-01 10:00:00+00/none"));
}

/// The first two are read from the table, the others from the log.
#[test]
fn a_row_that_is_read_from_its_table_goes_where_it_would_have_gone() {
    let mut fixture = prepared("templates_table", EVENTS);
    let folder = tempfile::tempdir().unwrap();
    with_file(&mut fixture, &folder, FILE);
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    let settings = format!("alter database {} set timezone = 'Asia/Tokyo'", fixture.database());
    fixture.client().batch_execute(&settings).unwrap();
    let [acme, shared] = ["acme", "shared"].map(|it| format!("{}.{it}.eu", fixture.database()));
    publish(&mut fixture, &[&acme, &shared], ROWS, 2);
    fixture.client().batch_execute(ROWS).unwrap();
    let records = Consumer::new(fixture.broker(), &[&acme, &shared]).read_n(4, SOON);
    for topic in [&acme, &shared] {
        let of_topic: Vec<_> = records.iter().filter(|it| it.topic == *topic).collect();
        let [from_table, from_log] = of_topic.as_slice() else { panic!("{records:?}") };
        assert_eq!(headers(from_table), headers(from_log));
        assert_eq!(from_table.value, from_log.value);
    }
}

#[test]
fn a_table_without_a_topic_column_has_a_constant_topic() {
    let mut fixture = prepared(
        "no_topic",
        "create table audit (id int primary key, payload jsonb, topic_of_talk text)",
    );
    fixture.set("POSTRIDER_TABLES", "audit");
    let topic = fixture.topic("audit");
    fixture.set("POSTRIDER_ROUTE_TOPIC", &topic);
    fixture.set("POSTRIDER_ROUTE_HEADERS", "talk={topic_of_talk},source=audit,id=");
    let rows = r#"insert into audit values (7, '{"a": 1}', 'weather'), (8, null, null)"#;
    let records = publish(&mut fixture, &[&topic], rows, 2);
    assert_eq!(headers(&records[0]), [("source", "audit"), ("talk", "weather")]);
    // A row without an idempotency key uses its id.
    assert_eq!([records[0].key_text(), records[1].key_text()], [Some("7"), Some("8")]);
    assert_eq!(
        (headers(&records[1]), records[1].value.as_deref()),
        (vec![("source", "audit")], None)
    );
}

#[test]
fn events_without_a_table_are_routed_too() {
    let mut fixture = Fixture::new(BINARY, "route_messages");
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
    fixture.set("POSTRIDER_ROUTE_TOPIC", "{topic}.v1");
    fixture.set("POSTRIDER_ROUTE_HEADERS", "type=,eventType={type}");
    fixture.migrate();
    let topic = fixture.create_topic("orders.v1", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let emit = format!(
        "select postrider.emit('{}', '{{}}', type => 'paid', ordering_key => 'k')",
        topic.trim_end_matches(".v1")
    );
    fixture.client().batch_execute(&emit).unwrap();
    let record = &fixture.consumer().read_n(1, SOON)[0];
    assert_eq!((record.key_text(), record.header("eventType")), (Some("k"), Some("paid")));
    assert_eq!(record.header("type"), None);
}

/// The publication need not be told: a row of the default table has all columns.
#[test]
fn the_default_table_works_with_a_template_over_its_columns() {
    let mut fixture = without_slot("route_default");
    let (topic, prefix) = (fixture.topic("t.acme"), fixture.database().to_owned());
    fixture.set("POSTRIDER_ROUTE_TOPIC", &format!("{prefix}.t.{{tenant}}"));
    let rows = "insert into public.outbox (topic, payload, tenant) values ('ignored', '1', 'acme')";
    let records = publish(&mut fixture, &[&topic], rows, 1);
    assert_eq!(records[0].header("tenant"), Some("acme"));
}
