//! How much later the relay's first event comes than pg_recvlogical's first frame of the same log,
//! both measured from the start of their processes.
//!
//! The relay's first event has come when a consumer has the first event of the log. The consumer
//! reads only its topic, and waits for it before the relay starts. The relay's own count of
//! acknowledged events would be a little earlier, but requesting it every few milliseconds takes
//! one of two cores, and with many topics the text of the metrics is cached for a while.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::backlog::{create_slots, finish};
use crate::growth::{CREATE_FILL, add_dead};
use crate::recvlogical;
use crate::report::median;
use crate::running::stop;
use crate::servers::Servers;
use crate::table::{Table, Target};
use crate::{BINARY, tell};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const ROUNDS: usize = 5;
/// Ten for each topic in the case with the most topics.
const ROWS: usize = 10_000;
const ROWS_PER_TRANSACTION: usize = 10;
const PAYLOAD_BYTES: usize = 200;
const LATER_MS_MAX: f64 = 300.0;
const SOON: Duration = Duration::from_secs(60);
/// Long enough that nothing of the previous round arrives any more.
const QUIET: Duration = Duration::from_millis(500);

/// What the relay finds when it starts.
#[derive(Clone, Copy, Serialize)]
struct Case {
    name: &'static str,
    /// With one partition each; the log has events of all of them.
    topics: usize,
    /// Dead events of the relay's slot in the side table.
    dead: usize,
}

const CASES: &[Case] = &[
    Case { name: "empty side table", topics: 1, dead: 0 },
    Case { name: "100,000 dead events", topics: 1, dead: 100_000 },
    Case { name: "1,000 topics", topics: 1_000, dead: 0 },
];

#[derive(Serialize)]
pub(crate) struct Start {
    case: Case,
    rounds: Vec<Round>,
}

/// Both contestants, one directly after the other.
#[derive(Serialize)]
struct Round {
    recvlogical_ms: f64,
    relay_ms: f64,
}

impl Start {
    fn median(&self, value: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(value))
    }

    /// The median of the rounds' differences: runs of one round meet the same state of the machine.
    fn later_ms(&self) -> f64 {
        self.median(|round| round.relay_ms - round.recvlogical_ms)
    }
}

pub(crate) fn measure(servers: &Servers) -> Vec<Start> {
    CASES.iter().map(|case| measure_case(servers, *case)).collect()
}

pub(crate) fn add_to(table: &mut Table, starts: &[Start]) {
    table.heading(format!(
        "from the start of the process to the first event, median of {ROUNDS}, in ms:\n\
         pg_recvlogical until its first frame, the relay until a consumer has the event, how much later"
    ));
    for start in starts {
        let both = [|round: &Round| round.recvlogical_ms, |round: &Round| round.relay_ms];
        let both = both.map(|value| start.median(value)).to_vec();
        table.row(start.case.name, both, 0, Target::None);
        table.row("  later", vec![start.later_ms()], 0, Target::AtMost(LATER_MS_MAX));
    }
}

fn measure_case(servers: &Servers, case: Case) -> Start {
    tell(format!("start with {}", case.name));
    let address = servers.postgres.address();
    let mut fixture = Fixture::on(BINARY, "start", &address, &servers.broker);
    for number in 0..case.topics {
        fixture.create_topic(&format!("events{number}"), 1, &[]);
    }
    let slots: Vec<String> =
        (0..ROUNDS).flat_map(|round| [yardstick_slot(round), relay_slot(round)]).collect();
    create_slots(&fixture, &slots);
    let first_topic = write(&fixture, case);
    let consumer = Consumer::new(fixture.broker(), &[&first_topic]);
    let rounds =
        (0..ROUNDS).map(|round| play(servers, &mut fixture, case, &consumer, round)).collect();
    let start = Start { case, rounds };
    tell(format!("  {:.0} ms later", start.later_ms()));
    start
}

/// Uses one writer, so that the first event of the log is known. Returns that event's topic.
fn write(fixture: &Fixture, case: Case) -> String {
    let Case { topics, .. } = case;
    let prefix = fixture.topic("events");
    let call = format!(
        "CALL fill('{prefix}', {topics}, {PAYLOAD_BYTES}, 1, {ROWS}, {ROWS_PER_TRANSACTION})"
    );
    let mut client = fixture.client();
    client.batch_execute(CREATE_FILL).unwrap();
    client.batch_execute("SET synchronous_commit = off").unwrap();
    client.batch_execute(&call).expect("cannot write the backlog");
    finish(fixture, ROWS);
    let sql = "SELECT topic FROM outbox ORDER BY id LIMIT 1";
    client.query_one(sql, &[]).unwrap().get(0)
}

fn play(
    servers: &Servers,
    fixture: &mut Fixture,
    case: Case,
    consumer: &Consumer,
    round: usize,
) -> Round {
    if case.dead > 0 {
        let mut client = fixture.client();
        client.batch_execute("TRUNCATE postrider.undelivered").unwrap();
        add_dead(&mut client, &relay_slot(round), case.dead);
        // As autovacuum would do, which is off here.
        for sql in ["VACUUM ANALYZE postrider.undelivered", "CHECKPOINT"] {
            client.batch_execute(sql).unwrap();
        }
    }
    consumer.drain_quiet(QUIET);
    let yardstick =
        |fixture: &Fixture| first_frame_ms(servers, fixture, yardstick_slot(round).as_str());
    // The order alternates, because the second run finds warmer caches.
    let (recvlogical_ms, relay_ms) = if round.is_multiple_of(2) {
        (yardstick(fixture), first_event_ms(fixture, &relay_slot(round), consumer))
    } else {
        let relay_ms = first_event_ms(fixture, &relay_slot(round), consumer);
        (yardstick(fixture), relay_ms)
    };
    tell(format!("  pg_recvlogical {recvlogical_ms:.0} ms, relay {relay_ms:.0} ms"));
    Round { recvlogical_ms, relay_ms }
}

fn first_frame_ms(servers: &Servers, fixture: &Fixture, slot: &str) -> f64 {
    let took = recvlogical::first_frame(servers, fixture.database(), slot);
    wait_until("the walsender of pg_recvlogical to end", SOON, || {
        let sql = "SELECT active FROM pg_replication_slots WHERE slot_name = $1";
        !fixture.client().query_one(sql, &[&slot]).unwrap().get::<_, bool>(0)
    });
    took.as_secs_f64() * 1_000.0
}

/// Includes creating the relay's folder and guardian, which takes about 2 ms.
fn first_event_ms(fixture: &mut Fixture, slot: &str, consumer: &Consumer) -> f64 {
    fixture.set("POSTRIDER_SLOT", slot);
    let begun = Instant::now();
    let relay = fixture.start_relay();
    let first = consumer.next(SOON);
    let took = begun.elapsed();
    assert!(first.is_some(), "no event came:\n{}", relay.log_tail(20));
    stop(relay);
    took.as_secs_f64() * 1_000.0
}

fn yardstick_slot(round: usize) -> String {
    format!("bench_start_recvlogical_{round}")
}

fn relay_slot(round: usize) -> String {
    format!("bench_start_relay_{round}")
}
