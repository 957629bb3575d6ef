//! How long a good event that follows events for missing topics waits: from just before COMMIT is
//! sent until a consumer has it, compared with the same event alone. Nothing may create the topics.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::report::median;
use crate::running::stop;
use crate::servers::Servers;
use crate::table::{Table, Target};
use crate::{BINARY, tell};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;

const ROUNDS: usize = 3;
/// Missing topics, each with one event.
const TOPICS: i64 = 1_000;
const LATER_MS_MAX: f64 = 2_000.0;
const SOON: Duration = Duration::from_secs(30);
const WITHIN: Duration = Duration::from_secs(600);

const FILL: &str = "INSERT INTO outbox (topic, payload)
    SELECT $1::text || '.' || n, '{}' FROM generate_series(1, $2::bigint) n";
const INSERT: &str = "INSERT INTO outbox (topic, payload) VALUES ($1, '{}')";

#[derive(Serialize)]
pub(crate) struct Missing {
    topics: i64,
    rounds: Vec<Round>,
}

#[derive(Serialize)]
struct Round {
    alone_ms: f64,
    behind_ms: f64,
}

impl Missing {
    fn median(&self, value: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(value))
    }

    fn later_ms(&self) -> f64 {
        self.median(|round| round.behind_ms - round.alone_ms)
    }

    pub(crate) fn add_to(&self, table: &mut Table) {
        let topics = self.topics;
        table.heading(format!("an event after {topics} events for {topics} missing topics, ms"));
        let alone = self.median(|round| round.alone_ms);
        table.row("without them", vec![alone], 1, Target::None);
        let behind = self.median(|round| round.behind_ms);
        table.row("after them", vec![behind], 1, Target::None);
        table.row("  later", vec![self.later_ms()], 1, Target::AtMost(LATER_MS_MAX));
    }
}

pub(crate) fn measure(servers: &Servers) -> Missing {
    tell(format!("an event after {TOPICS} events for missing topics"));
    let rounds = (0..ROUNDS).map(|_| play(servers)).collect();
    Missing { topics: TOPICS, rounds }
}

/// Each round has its own relay and database: parked events are retried, and topics that are known
/// to be missing are not looked up.
fn play(servers: &Servers) -> Round {
    let mut fixture = Fixture::on(BINARY, "missing", &servers.postgres.address(), &servers.broker);
    let topic = fixture.create_topic("good", 1, &[]);
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let consumer = fixture.consumer();
    // The relay knows the good topic, and the consumer waits for its next record.
    measure_one(&fixture, &consumer, &topic, None);
    let alone_ms = measure_one(&fixture, &consumer, &topic, None);
    let behind_ms = measure_one(&fixture, &consumer, &topic, Some(&missing));
    assert_none_was_created(&fixture, &missing);
    stop(fixture.relay());
    tell(format!("  alone {alone_ms:.0} ms, after them {behind_ms:.0} ms"));
    Round { alone_ms, behind_ms }
}

/// An event, alone in its transaction or after the others.
fn measure_one(fixture: &Fixture, consumer: &Consumer, topic: &str, missing: Option<&str>) -> f64 {
    let mut client = fixture.client();
    let mut transaction = client.transaction().unwrap();
    if let Some(missing) = missing {
        transaction.execute(FILL, &[&missing, &TOPICS]).unwrap();
    }
    transaction.execute(INSERT, &[&topic]).unwrap();
    let begun = Instant::now();
    transaction.commit().unwrap();
    assert!(consumer.next(WITHIN).is_some(), "the event did not come within {WITHIN:?}");
    begun.elapsed().as_secs_f64() * 1_000.0
}

/// If brokers create topics automatically, none is missing.
fn assert_none_was_created(fixture: &Fixture, missing: &str) {
    let created = fixture.broker().partition_count(&format!("{missing}.1"));
    assert!(created.is_none(), "the broker creates topics: set auto.create.topics.enable=false");
}
