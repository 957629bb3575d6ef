//! `make demo`: an outbox on throwaway servers, published by the real relay, which is killed once
//! in the middle. Several writers commit and roll back, an independent consumer reads, and
//! at the end both sides are compared. Ends with 1 if the promise was broken.
//!
//! `KAFKA=real` uses Apache Kafka (or the one at `TEST_BROKERS`) instead of librdkafka's embedded
//! broker.

// A demo is test-like code: it reports failures by panics.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod reader;
mod servers;
mod summary;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::scope;
use std::time::{Duration, Instant};

use reader::{Arrival, Reader};
use servers::Servers;
use summary::{Summary, thousands};
use testkit::fixture::Fixture;
use testkit::wait::poll_for;
use writer::{Ledger, Writers};

const WRITER_COUNT: usize = 4;
const PARTITION_COUNT: i32 = 6;
/// The relay is killed after half of this time.
const WRITE_FOR: Duration = Duration::from_secs(12);
const SOON: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let story = Story(Instant::now());
    story.tell(format!("start a Postgres and {}", servers::broker_name()));
    let servers = Servers::start();
    story.tell("postrider migrate: outbox table, publication, slot");
    let mut fixture = Fixture::on(binary(), "demo", &servers.postgres(), servers.broker());
    let topic = fixture.create_topic("accounts", PARTITION_COUNT, &[]);
    story.tell("postrider run");
    fixture.start_relay().wait_ready(SOON);

    let writers = Writers::prepare(&mut fixture.client(), &topic);
    let reader = Reader::new(servers.broker(), &topic);
    let run = play(&story, &mut fixture, &writers, &reader, &topic);
    story.tell("clean up");
    drop(fixture);
    drop(servers);

    let summary = Summary::of(&topic, run, story.0.elapsed());
    println!("\n{summary}");
    if summary.promise_kept() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What happened, from both sides.
struct Run {
    ledgers: Vec<Ledger>,
    arrivals: Vec<Arrival>,
    killed_at: Instant,
    /// When the relay's successor was ready.
    ready_at: Instant,
    peak_memory_bytes: u64,
}

fn play(
    story: &Story,
    fixture: &mut Fixture,
    writers: &Writers,
    reader: &Reader,
    topic: &str,
) -> Run {
    scope(|scope| {
        let reading = scope.spawn(|| reader.read());
        let mut ledgers = vec![first_event(story, fixture, writers, reader)];
        story.tell(format!(
            "{WRITER_COUNT} writers for {} s: single rows, batches, savepoints, rollbacks",
            WRITE_FOR.as_secs()
        ));
        let clients: Vec<_> = (0..WRITER_COUNT).map(|_| fixture.client()).collect();
        let writing: Vec<_> =
            clients.into_iter().map(|client| scope.spawn(move || writers.write(client))).collect();

        let begun = Instant::now();
        watch(story, begun + WRITE_FOR / 2, writers, reader);
        let first_peak = fixture.relay().peak_rss_bytes();
        let killed_at = Instant::now();
        kill_and_restart(story, fixture);
        let ready_at = Instant::now();
        watch(story, begun + WRITE_FOR, writers, reader);

        writers.stop();
        ledgers.extend(writing.into_iter().map(|it| it.join().unwrap()));
        story.tell("the writers are done; wait for the events that are still in flight");
        let committed = writers.committed.load(Relaxed);
        let all_came =
            poll_for(SOON, || (reader.distinct.load(Relaxed) >= committed).then_some(()));
        if all_came.is_none() {
            let log = fixture.relay().log_tail(20);
            story.tell(format!("not all events arrived within {SOON:?}; the relay's log:\n{log}"));
        }
        let peak_memory_bytes = first_peak.max(fixture.relay().peak_rss_bytes());
        story.tell("stop the relay with SIGTERM, read the topic to its end");
        fixture.relay().terminate();
        let status = fixture.relay().wait_exit(SOON);
        assert!(status.success(), "the relay stopped with {status}");
        reader.finish(topic);
        Run { ledgers, arrivals: reading.join().unwrap(), killed_at, ready_at, peak_memory_bytes }
    })
}

/// Connections, topics and the broker's code are cold at first. Events usually don't wait for that,
/// so one event is sent before all others.
fn first_event(story: &Story, fixture: &mut Fixture, writers: &Writers, reader: &Reader) -> Ledger {
    let ledger = writers.write_one(fixture.client());
    let begun = Instant::now();
    let arrived = poll_for(SOON, || (reader.distinct.load(Relaxed) > 0).then_some(()));
    assert!(arrived.is_some(), "nothing arrives:\n{}", fixture.relay().log_tail(20));
    let took = begun.elapsed().as_millis();
    story.tell(format!("a first event has arrived after {took} ms"));
    ledger
}

fn kill_and_restart(story: &Story, fixture: &mut Fixture) {
    story.tell("kill -9 the relay, in the middle of everything");
    fixture.relay().kill9();
    fixture.start_relay().wait_ready(SOON);
    story.tell("a new relay continues from the slot's position");
}

/// Prints once a second how many events both sides have.
fn watch(story: &Story, until: Instant, writers: &Writers, reader: &Reader) {
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::sleep(left.min(Duration::from_secs(1)));
        story.tell(format!(
            "  {:>7} committed   {:>7} read back",
            thousands(writers.committed.load(Relaxed)),
            thousands(reader.distinct.load(Relaxed)),
        ));
    }
}

/// The relay's binary, which cargo puts beside this one.
fn binary() -> PathBuf {
    let demo = std::env::current_exe().expect("no path of this program");
    let folder = demo.ancestors().nth(1).expect("too short a path");
    let binary = folder.join("postrider");
    assert!(binary.exists(), "{} is missing: `make demo` builds it", binary.display());
    binary
}

/// Prints lines with their time.
struct Story(Instant);

impl Story {
    fn tell(&self, line: impl std::fmt::Display) {
        println!("{:>5.1} s  {line}", self.0.elapsed().as_secs_f64());
    }
}
