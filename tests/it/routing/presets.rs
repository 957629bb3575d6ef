//! Tables as other tools create them, and the records that their consumers expect.

use testkit::consumer::{Consumer, Received};
use testkit::fixture::Fixture;
use testkit::wait::poll_for;

use super::{SOON, headers, prepared, publish};

const ID: &str = "6f1c1f3e-2b1a-4c5d-8e9f-0a1b2c3d4e5f";

/// The basic table of Debezium's documentation.
#[test]
fn debezium() {
    let mut fixture = prepared(
        "preset_debezium",
        "create table outbox (id uuid not null primary key, aggregatetype varchar(255) not null,
            aggregateid varchar(255) not null, type varchar(255) not null, payload jsonb)",
    );
    fixture.set("POSTRIDER_POSTGRES_PRESET", "debezium");
    let kind = fixture.database().to_owned();
    let rows = format!(
        "insert into outbox values ('{ID}', '{kind}', '4711', 'OrderCreated', '{{\"n\": 1}}');
         insert into outbox values (gen_random_uuid(), '{kind}', '4711', 'OrderGone', null)"
    );
    let records = publish(&mut fixture, &[&format!("outbox.event.{kind}")], &rows, 2);
    assert_eq!(
        (records[0].key_text(), records[0].value_text()),
        (Some("4711"), Some("{\"n\": 1}"))
    );
    assert_eq!(headers(&records[0]), [("id", ID)]);
    assert_eq!((records[1].key_text(), records[1].value.as_deref()), (Some("4711"), None));
}

/// A column decides the record's timestamp. One that its topic's retention would delete is moved, so
/// this one is recent.
#[test]
fn debezium_with_a_timestamp_of_the_tables_own() {
    let mut fixture = prepared(
        "preset_timestamp",
        "create table outbox (id uuid not null primary key, aggregatetype text not null,
            aggregateid text not null, happened timestamp(3), payload jsonb)",
    );
    fixture.set("POSTRIDER_POSTGRES_PRESET", "debezium");
    fixture.set("POSTRIDER_DEBEZIUM_TABLE_FIELD_EVENT_TIMESTAMP", "happened");
    let kind = fixture.database().to_owned();
    let hour_ago_ms = |ago: i64| {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
        i64::try_from(now).unwrap() - ago * 3_600_000
    };
    let expect = hour_ago_ms(2);
    let rows = format!(
        "insert into outbox values
             (gen_random_uuid(), '{kind}', '1', to_timestamp({expect} / 1000.0) at time zone 'utc', '1'),
             (gen_random_uuid(), '{kind}', '1', null, '2')"
    );
    let records = publish(&mut fixture, &[&format!("outbox.event.{kind}")], &rows, 2);
    assert_eq!(records[0].timestamp_ms, Some(expect));
    // As without the option.
    assert!(records[1].timestamp_ms > Some(hour_ago_ms(1)), "{:?}", records[1].timestamp_ms);
    assert!(records.iter().all(|record| record.headers.len() == 1), "{records:?}");
}

/// A table can change while its rows are read, and a time can be one that the side table can't store.
#[test]
fn debezium_while_the_table_changes() {
    let mut fixture = prepared(
        "preset_changes",
        "create table outbox (id uuid not null primary key, aggregatetype text not null,
            aggregateid bigint, happened timestamp, payload text)",
    );
    fixture.set("POSTRIDER_POSTGRES_PRESET", "debezium");
    fixture.set("POSTRIDER_DEBEZIUM_KEY", "json");
    fixture.set("POSTRIDER_DEBEZIUM_HEADER", "json");
    fixture.set("POSTRIDER_DEBEZIUM_TABLE_FIELD_EVENT_TIMESTAMP", "happened");
    let placed = "happened:header";
    fixture.set("POSTRIDER_DEBEZIUM_TABLE_FIELDS_ADDITIONAL_PLACEMENT", placed);
    let kind = fixture.database().to_owned();
    let insert = |id: u32, key: &str, happened: &str, kind: &str| {
        format!(
            "insert into outbox values ('00000000-0000-4000-8000-{id:012}', '{kind}', {key}, \
                 '{happened}', 'x');"
        )
    };
    let missing = format!("{kind}-missing");
    let rows = format!(
        "{} {} alter table outbox alter aggregateid type text; {} {}",
        insert(1, "1", "2026-11-19 12:00:00", &kind),
        insert(2, "2", "-infinity", &missing),
        insert(3, "'three'", "infinity", &kind),
        insert(4, "'four'", "2026-11-19 12:00:00", &kind),
    );
    let topic = format!("outbox.event.{kind}");
    let records = publish(&mut fixture, &[&topic], &rows, 3);
    let keys = |records: &[Received]| {
        records.iter().map(|record| record.key_text().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&records), ["1", "\"three\"", "\"four\""]);
    // Now the relay is looking.
    let change = "alter table outbox alter aggregateid type int using 5,
                      alter happened type timestamptz;";
    let rows = format!("{change} {}", insert(5, "5", "2026-11-19 12:00:00Z", &kind));
    fixture.unset("POSTRIDER_DEBEZIUM_TABLE_FIELD_EVENT_TIMESTAMP");
    let records = restarted_with(&mut fixture, &topic, &rows, 4);
    assert_eq!(keys(&records[3..]), ["5"]);
    assert_eq!(headers(&records[3])[1], ("happened", "\"2026-11-19T12:00:00.000000Z\""));
    let parked = "select ordering_key from postrider.undelivered where status = 'pending'";
    let parked = fixture.client().query_one(parked, &[]).unwrap();
    assert_eq!(parked.get::<_, Option<&str>>(0), Some("2"));
}

/// What the record's key is made of can differ where the key does not: a later event of the key waits
/// for one that is parked.
#[test]
fn debezium_keeps_the_order_of_records_with_one_key() {
    let mut fixture = prepared(
        "preset_keys",
        "create table outbox (id uuid not null primary key, aggregatetype text not null,
            aggregateid numeric default 7, payload text)",
    );
    fixture.set("POSTRIDER_POSTGRES_PRESET", "debezium");
    fixture.set("POSTRIDER_DEBEZIUM_KEY", "json");
    fixture.set("POSTRIDER_DEBEZIUM_DECIMAL_HANDLING_MODE", "double");
    let kind = fixture.database().to_owned();
    let topic = format!("outbox.event.{kind}");
    fixture.broker().create_topic(&topic, 1, &[("max.message.bytes", "1000")]);
    fixture.migrate();
    let insert = |key: &str, payload: &str| {
        format!("insert into outbox values (gen_random_uuid(), '{kind}', {key}, {payload});")
    };
    let large = "repeat('x', 2000)";
    let rows = [
        insert("1.0", large),
        insert("1.00", "'waits'"),
        insert("null", large),
        insert("7", "'waits'"),
        insert("8", "'goes on'"),
    ];
    fixture.client().batch_execute(&rows.concat()).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = Consumer::new(fixture.broker(), &[&topic]).read_n(1, SOON);
    assert_eq!((records[0].key_text(), records[0].value_text()), (Some("8.0"), Some("goes on")));
    let parked = "select ordering_key, reason from postrider.undelivered order by id";
    let mut client = fixture.client();
    let parked = poll_for(SOON, || {
        let rows = client.query(parked, &[]).unwrap();
        let rows: Vec<(String, String)> = rows.iter().map(|it| (it.get(0), it.get(1))).collect();
        (rows.len() == 4).then_some(rows)
    });
    let parked = parked.expect("not parked");
    let of = |key: &str| {
        let reasons = parked.iter().filter(|(it, _)| it == key).map(|(_, reason)| reason.as_str());
        reasons.collect::<Vec<_>>()
    };
    assert_eq!(of("1.0"), ["too-large", "behind"]);
    assert_eq!(of("7.0"), ["too-large", "behind"]);
}

/// Restarts the relay, and writes rows when it is there.
#[track_caller]
fn restarted_with(fixture: &mut Fixture, topic: &str, sql: &str, count: usize) -> Vec<Received> {
    fixture.relay().terminate();
    fixture.relay().wait_exit(SOON);
    fixture.start_relay().wait_ready(SOON);
    fixture.client().batch_execute(sql).unwrap();
    Consumer::new(fixture.broker(), &[topic]).read_n(count, SOON)
}

/// As Hibernate creates it for Quarkus' extension, which deletes each row in the transaction that
/// has inserted it. Before Hibernate 6 the time had no time zone.
#[test]
fn quarkus() {
    for (name, time) in
        [("preset_quarkus", "timestamp(6) with time zone"), ("preset_q5", "timestamp")]
    {
        let mut fixture = prepared(
            name,
            &format!(
                "create table OutboxEvent (timestamp {time} not null, id uuid not null,
                     tracingspancontext varchar(256), aggregateid varchar(255) not null,
                     aggregatetype varchar(255) not null, payload varchar(8000),
                     type varchar(255) not null, primary key (id))"
            ),
        );
        fixture.set("POSTRIDER_TABLES", "outboxevent").set("POSTRIDER_POSTGRES_PRESET", "quarkus");
        let kind = fixture.database().to_owned();
        let rows = format!(
            "begin;
             insert into OutboxEvent (aggregateid, aggregatetype, payload, timestamp,
                     tracingspancontext, type, id)
                 values ('7', '{kind}', '{{\"n\":1}}', now(), E'#now\\ntraceparent=00-a-b-01\\n',
                     'OrderCreated', '{ID}');
             delete from OutboxEvent where id = '{ID}';
             commit"
        );
        let records = publish(&mut fixture, &[&format!("outbox.event.{kind}")], &rows, 1);
        let record = &records[0];
        assert_eq!(
            (record.key_text(), record.value_text()),
            (Some("7"), Some("{\"n\":1}")),
            "{name}"
        );
        assert_eq!(headers(record), [("id", ID)], "{name}");
    }
}

/// The table of the Open Outbox relay.
#[test]
fn open_outbox() {
    let mut fixture = prepared(
        "preset_open",
        "create table openoutbox_events (event_id uuid primary key, event_type text not null,
            partition_key text, payload bytea not null, headers jsonb not null default '{}',
            status text not null default 'PENDING', attempts int not null default 0,
            last_error text, available_at timestamptz not null default now(), locked_by text,
            locked_at timestamptz, delivered_at timestamptz,
            created_at timestamptz not null default now(),
            updated_at timestamptz not null default now(),
            constraint check_valid_status
                check (status in ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD')))",
    );
    fixture
        .set("POSTRIDER_TABLES", "openoutbox_events")
        .set("POSTRIDER_POSTGRES_PRESET", "open-outbox");
    let topic = fixture.topic("orders");
    let rows = format!(
        "insert into openoutbox_events (event_id, event_type, partition_key, payload, headers) values
             ('{ID}', '{topic}', 'order-7', '\\x00ff', '{{\"trace\": \"t\"}}'),
             (gen_random_uuid(), '{topic}', null, '', '{{}}');
         update openoutbox_events set status = 'DELIVERED'"
    );
    let records = publish(&mut fixture, &[&topic], &rows, 2);
    assert_eq!(
        (records[0].key_text(), records[0].value.as_deref()),
        (Some("order-7"), Some(&[0, 0xFF][..]))
    );
    assert_eq!(headers(&records[0]), [("X-Event-ID", ID), ("trace", "t")]);
    assert_eq!((records[1].key_text(), records[1].value.as_deref()), (None, Some(&b""[..])));
}
