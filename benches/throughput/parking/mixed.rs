//! A backlog for ten topics, with or without events that can't be published.

use crate::backlog::{self, create_slots};
use crate::servers::Servers;
use crate::{BINARY, PARTITION_COUNT};
use testkit::fixture::Fixture;

const TOPIC_COUNT: usize = 10;
const ROWS_PER_TRANSACTION: usize = 10;
/// One event of this many is bad.
const BAD_EVERY: usize = 100;
/// A large event has 10,240 digits: about 5,100 bytes when compressed.
const LIMIT: (&str, &str) = ("max.message.bytes", "4000");
const ZSTD: (&str, &str) = ("POSTRIDER_KAFKA_PROPERTIES_COMPRESSION_TYPE", "zstd");

/// Row n goes to topic n % 10; each topic has up to 10,000 keys. A bad event has a key of its own,
/// so that nothing waits for it.
const CREATE_FILL: &str = r#"
    CREATE PROCEDURE fill(kind text, prefix text, first bigint, last bigint, size bigint)
    LANGUAGE plpgsql AS $$
    DECLARE
        filler CONSTANT text := rpad('', 170, 'abcdefghij');
    BEGIN
        WHILE first <= last LOOP
            INSERT INTO outbox (topic, ordering_key, type, tenant, headers, payload)
            SELECT CASE bad WHEN 'topic' THEN 'not a topic!' WHEN 'known' THEN prefix || 'small'
                            ELSE prefix || 'events_' || n % 10 END,
                   CASE WHEN bad IS NULL THEN 'customer-' || n / 10 % 10000 ELSE 'bad-' || n END,
                   'order.placed', 'tenant-' || n % 100,
                   CASE bad WHEN 'headers' THEN '[1]'::json END,
                   CASE WHEN bad IN ('known', 'large')
                        THEN (SELECT to_json(string_agg(md5(n || '-' || m), ''))
                                FROM generate_series(1, 320) m)
                        ELSE ('{"order":' || n || ',"text":"' || filler || '"}')::json END
            FROM generate_series(first, least(first + size - 1, last)) n,
                 LATERAL (SELECT CASE WHEN n % 100 <> 9 THEN NULL
                                      WHEN kind = 'large' THEN 'large'
                                      WHEN kind = 'rejected'
                                      THEN (ARRAY['known', 'topic', 'headers'])[n / 100 % 3 + 1]
                                 END AS bad) kinds;
            COMMIT;
            first := first + size;
        END LOOP;
    END $$"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only small events.
    Plain,
    /// Some are for a topic that is known to accept only smaller ones, some have no topic, and some
    /// have headers that are not an object.
    Rejected,
    /// Some of the last topic are large, and compressed, so that only the broker knows their size.
    Taken,
    /// The same, but too large.
    Refused,
}

impl Kind {
    fn rows(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Rejected => "rejected",
            Kind::Taken | Kind::Refused => "large",
        }
    }
}

pub(super) struct Mixed {
    pub(super) fixture: Fixture,
    pub(super) kind: Kind,
    pub(super) slots: Vec<String>,
    /// A position after the last event.
    pub(super) end: String,
    rows: usize,
}

impl Mixed {
    /// Creates a slot for each run, and writes the rows once.
    pub(super) fn write(servers: &Servers, kind: Kind, rows: usize, runs: usize) -> Mixed {
        let address = servers.postgres.address();
        let mut fixture = Fixture::on(BINARY, "bench", &address, &servers.broker);
        for number in 0..TOPIC_COUNT {
            let refuses = kind == Kind::Refused && number == TOPIC_COUNT - 1;
            let limit = refuses.then_some(LIMIT);
            fixture.create_topic(&format!("events_{number}"), PARTITION_COUNT, limit.as_slice());
        }
        fixture.create_topic("small", PARTITION_COUNT, &[LIMIT]);
        if matches!(kind, Kind::Taken | Kind::Refused) {
            fixture.set(ZSTD.0, ZSTD.1);
        }
        let slots: Vec<String> = (0..runs).map(|run| format!("{}_{run}", fixture.slot())).collect();
        create_slots(&fixture, &slots);
        fixture.client().batch_execute(CREATE_FILL).unwrap();
        let start = format!("'{}', '{}'", kind.rows(), fixture.topic(""));
        backlog::fill(&fixture, &start, rows, ROWS_PER_TRANSACTION);
        let end = backlog::finish(&fixture, rows);
        Mixed { fixture, kind, slots, end, rows }
    }

    /// The topic whose events don't count.
    pub(super) fn left_out(&self) -> Option<String> {
        let last = || self.fixture.topic(&format!("events_{}", TOPIC_COUNT - 1));
        matches!(self.kind, Kind::Taken | Kind::Refused).then(last)
    }

    /// Events that have to be published whatever happens to the bad ones.
    pub(super) fn counted_events(&self) -> usize {
        match self.kind {
            Kind::Plain => self.rows,
            Kind::Rejected => self.rows - self.bad_events(),
            Kind::Taken | Kind::Refused => self.rows - self.rows / TOPIC_COUNT,
        }
    }

    /// Events that end in the side table.
    pub(super) fn parked_events(&self) -> usize {
        match self.kind {
            Kind::Plain | Kind::Taken => 0,
            Kind::Rejected | Kind::Refused => self.bad_events(),
        }
    }

    fn bad_events(&self) -> usize {
        self.rows / BAD_EVERY
    }
}
