//! Committed events are published: exactly those, in order, as the contract requires.

mod columns;
mod contract;
mod foreign;
mod protobuf;
mod real_kafka;
mod record;

use std::time::Duration;

use testkit::check::Expected;
use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_committed_event_arrives_and_a_rolled_back_one_does_not() {
    let mut fixture = Fixture::new(BINARY, "first");
    let topic = fixture.create_topic("orders", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    let insert = "insert into outbox (topic, payload, ordering_key) values ($1, '{}', $2) \
                  returning id::text";
    let mut expected = Expected::default();
    for number in 0..20 {
        let mut transaction = client.transaction().unwrap();
        let key = format!("key-{}", number % 3);
        let id: String = transaction.query_one(insert, &[&topic, &key]).unwrap().get(0);
        if number % 4 == 0 {
            transaction.rollback().unwrap();
        } else {
            transaction.commit().unwrap();
            expected.push(&topic, &key, id);
        }
    }
    let records = fixture.consumer().read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
}
