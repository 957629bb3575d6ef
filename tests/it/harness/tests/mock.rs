//! The embedded broker has the same small interface.

use std::time::Duration;

use super::real_kafka::produce;
use testkit::consumer::Consumer;
use testkit::mock::MockBroker;

#[test]
fn records_are_written_and_read() {
    let mock = MockBroker::start(3);
    mock.broker().create_topic("t", 4, &[]);
    produce(&mock.brokers(), "t", 0..100);
    let consumer = Consumer::new(&mock.broker(), &["t"]);
    assert_eq!(consumer.read_n(100, Duration::from_secs(30)).len(), 100);
    assert_eq!(consumer.end_offsets("t").iter().sum::<i64>(), 100);
}

#[test]
fn a_broker_can_be_stopped() {
    let mock = MockBroker::start(1);
    mock.create_topic("t", 1);
    mock.with(|cluster| cluster.broker_down(1)).unwrap();
    assert!(!mock.broker().answers());
    mock.with(|cluster| cluster.broker_up(1)).unwrap();
    produce(&mock.brokers(), "t", 0..1);
}

#[test]
#[should_panic(expected = "real_kafka")]
fn topic_settings_are_refused() {
    MockBroker::start(1).broker().create_topic("t", 1, &[("max.message.bytes", "2000")]);
}
