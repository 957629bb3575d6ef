//! One partition without a leader beside topics that work.

use std::time::Duration;

use crate::harness::metrics::state;
use testkit::check::Expected;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::mock::MockBroker;
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const IN_FLIGHT_MAX: usize = 50;
/// How far the relay may read past the stored position.
const SPAN_MAX: usize = IN_FLIGHT_MAX + 1_000;
const EVENTS: i64 = 2_000;

#[test]
fn a_stuck_record_limits_how_far_the_relay_reads_past_it() {
    let mock = MockBroker::start(1);
    let postgres = shared::postgres();
    let mut fixture = Fixture::on(BINARY, "leaderless", &postgres.address(), &mock.broker());
    fixture.set("POSTRIDER_LIMITS_IN_FLIGHT_EVENTS", &IN_FLIGHT_MAX.to_string());
    let stuck = fixture.create_topic("stuck", 1, &[]);
    let busy = fixture.create_topic("busy", 1, &[]);
    let lead = |leader: Option<i32>| {
        let topic = stuck.clone();
        mock.with(move |cluster| cluster.partition_leader(&topic, 0, leader)).unwrap();
    };
    lead(None);
    let mut client = fixture.client();
    let mut expected = Expected::default();
    let insert = "INSERT INTO outbox (topic, payload, ordering_key)
        SELECT $1, '{}', 'k' FROM generate_series(1, $2::bigint) RETURNING id";
    for (topic, count) in [(&stuck, 1), (&busy, EVENTS)] {
        for row in client.query(insert, &[topic, &count]).unwrap() {
            expected.push(topic, "k", row.get::<_, i64>(0));
        }
    }
    fixture.start_relay().wait_ready(SOON);
    wait_until("the relay to report that it is blocked", SOON, || {
        state(fixture.relay()) == "blocked-on-broker"
    });
    let ends = Consumer::new(&mock.broker(), &[&busy]).end_offsets(&busy);
    let published = usize::try_from(ends[0]).unwrap();
    assert!((1..=SPAN_MAX).contains(&published), "{published} events after the stuck one");

    lead(Some(1));
    let all = expected.len();
    fixture.relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(all, SOON);
    expected.verdict(&records).assert_exact();
}
