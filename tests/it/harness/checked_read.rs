//! Reading more records than memory should hold, each checked as it arrives.

use std::ops::ControlFlow;
use std::time::Duration;

use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers};

use testkit::check::{Check, Expected, Verdict};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;

const STOP_WITHIN: Duration = Duration::from_secs(60);

/// Events are identified by their idempotency key, which a writer of many rows knows beforehand.
pub struct CheckedRead {
    consumer: Consumer,
    check: Check,
    read: i64,
}

impl CheckedRead {
    pub fn new(fixture: &Fixture, expected: Expected) -> CheckedRead {
        CheckedRead { consumer: fixture.consumer(), check: Check::new(expected), read: 0 }
    }

    /// Reads until every expected event has arrived; fails the test with the verdict if that takes
    /// too long.
    #[track_caller]
    pub fn until_complete(&mut self, within: Duration) {
        if self.check.is_complete() {
            return;
        }
        let CheckedRead { consumer, check, read } = self;
        let complete = consumer.for_each(within, |message| {
            *read += 1;
            see(check, message);
            if check.is_complete() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(complete, "incomplete after {within:?}: {}", self.check.clone().verdict());
    }

    /// Stops the relay, which makes the end of the topics final, and reads up to it.
    #[track_caller]
    pub fn verdict_at_the_end(mut self, fixture: &mut Fixture, topics: &[String]) -> Verdict {
        let relay = fixture.relay();
        relay.terminate();
        let status = relay.wait_exit(STOP_WITHIN);
        assert!(status.success(), "{status}:\n{}", relay.log_tail(20));
        let ends = topics.iter().flat_map(|topic| self.consumer.end_offsets(topic));
        let left = ends.sum::<i64>() - self.read;
        // If asked for no records, the consumer would wait for a first one.
        let rest = match usize::try_from(left).unwrap() {
            0 => Vec::new(),
            left => self.consumer.read_n(left, STOP_WITHIN),
        };
        for record in rest {
            let key = record.key_text().unwrap_or("");
            let id = record.header("idempotency-key").unwrap_or("");
            self.check.see(&record.topic, record.partition, key, id);
        }
        self.check.verdict()
    }
}

fn see(check: &mut Check, message: &BorrowedMessage<'_>) {
    let text = |bytes| std::str::from_utf8(bytes).expect("not UTF-8");
    let headers = message.headers().expect("a record without headers");
    let id = headers
        .iter()
        .find(|header| header.key == "idempotency-key")
        .and_then(|header| header.value)
        .expect("a record without the header `idempotency-key`");
    let key = message.key().map_or("", text);
    check.see(message.topic(), message.partition(), key, text(id));
}
