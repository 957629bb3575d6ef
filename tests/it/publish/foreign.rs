//! A publication of somebody else sends more than outbox inserts: the rest is ignored and counted.

use super::{BINARY, SOON};
use crate::harness::metrics::{metric, metric_sum};
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::shared;

#[test]
fn changes_other_than_outbox_inserts_are_counted_and_not_published() {
    let (postgres, broker) = shared::pair();
    let mut fixture = Fixture::unmigrated(BINARY, "foreign", &postgres.address(), &broker);
    let mut client = fixture.client();
    client
        .batch_execute(
            "create table other (id int primary key, topic text, payload json);
             create publication postrider for all tables",
        )
        .unwrap();
    fixture.migrate();
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);

    let traffic = "
        insert into outbox (topic, payload) values ('{topic}', '\"first\"');
        insert into other select g, '{topic}', '\"no outbox\"' from generate_series(1, 10) g;
        update outbox set payload = '\"changed\"';
        update other set payload = '\"changed\"' where id <= 3;
        begin;
        delete from other where id <= 4;
        delete from outbox;
        select pg_logical_emit_message(true, 'outbox', 'transactional');
        select pg_logical_emit_message(false, 'outbox', 'at once');
        insert into outbox (topic, payload) values ('{topic}', '\"in between\"');
        commit;
        begin;
        select pg_logical_emit_message(false, 'outbox', 'of a transaction that never was');
        insert into outbox (topic, payload) values ('{topic}', '\"rolled back\"');
        rollback;
        truncate other;
        truncate outbox;
        insert into outbox (topic, payload) values ('{topic}', '\"last\"')";
    client.batch_execute(&traffic.replace("{topic}", &topic)).unwrap();

    let records = fixture.consumer().read_n(3, SOON);
    let values: Vec<_> = records.iter().filter_map(Received::value_text).collect();
    assert_eq!(values, ["\"first\"", "\"in between\"", "\"last\""]);
    // The last event comes after all the others in the stream, so they are counted by now.
    let relay = fixture.relay();
    for (kind, count) in
        [("other_table", 10.0), ("update", 4.0), ("delete", 5.0), ("truncate", 2.0)]
    {
        let series = format!("postrider_ignored_messages_total{{kind=\"{kind}\"}}");
        assert_eq!(metric(relay, &series), Some(count), "{kind}");
    }
    // Confirmed to the end: ignored changes hold nothing back.
    testkit::wait::wait_until("all events to be counted", SOON, || {
        metric_sum(fixture.relay(), "outbox_published_total") == 3.0
    });
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    assert_eq!(fixture.consumer().end_offsets(&topic), [3]);
}
