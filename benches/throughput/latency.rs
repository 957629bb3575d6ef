//! How late events are: from just before a writer sends COMMIT until a consumer has the record.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::scope;
use std::time::{Duration, Instant};

use postgres::Client;
use serde::Serialize;

use crate::running::{record_id, stop};
use crate::servers::Servers;
use crate::{BINARY, PARTITION_COUNT, tell};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::percentiles::Percentiles;

const EVENTS_PER_SECOND: u32 = 1_000;
const WRITER_COUNT: u32 = 4;
const WARM_UP: Duration = Duration::from_secs(3);
const MEASURE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(30);

const INSERT: &str = "
    INSERT INTO outbox (topic, ordering_key, type, tenant, payload)
    VALUES ($1, $2, 'order.placed', 'tenant-1',
            json_build_object('order', $2::text, 'text', rpad('', 160, 'abcdefghij')))
    RETURNING id";

#[derive(Serialize)]
pub(crate) struct Latency {
    pub(crate) events: usize,
    /// Less than requested if COMMIT takes the writers too long.
    pub(crate) events_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

struct Written {
    id: i64,
    /// Just before COMMIT was sent.
    committed_at: Instant,
}

pub(crate) fn measure(servers: &Servers) -> Latency {
    tell(format!("latency at {EVENTS_PER_SECOND} events/s for {} s", MEASURE.as_secs()));
    let address = servers.postgres.address();
    let mut fixture = Fixture::on(BINARY, "bench", &address, &servers.broker);
    let topic = fixture.create_topic("events", PARTITION_COUNT, &[]);
    fixture.start_relay().wait_ready(SOON);
    let latency = of_running(&fixture, &topic, MEASURE);
    stop(fixture.relay());
    latency
}

/// The latency of events for a separate topic, while the relay runs.
pub(crate) fn of_running(fixture: &Fixture, topic: &str, measure: Duration) -> Latency {
    let consumer = Consumer::new(fixture.broker(), &[topic]);
    let warm_until = Instant::now() + WARM_UP;
    let until = warm_until + measure;
    let expected = AtomicUsize::new(usize::MAX);
    let (written, arrived) = scope(|scope| {
        let reading = scope.spawn(|| read(&consumer, until, &expected));
        let writing: Vec<_> = (0..WRITER_COUNT)
            .map(|number| {
                let client = fixture.client();
                scope.spawn(move || write(client, topic, number, until))
            })
            .collect();
        let written: Vec<Written> =
            writing.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        expected.store(written.len(), Relaxed);
        (written, reading.join().unwrap())
    });
    summarise(&written, &arrived, warm_until)
}

/// One row per transaction, at a steady pace.
fn write(mut client: Client, topic: &str, number: u32, until: Instant) -> Vec<Written> {
    let insert = client.prepare(INSERT).unwrap();
    let pace = Duration::from_secs(1) * WRITER_COUNT / EVENTS_PER_SECOND;
    let mut written = Vec::new();
    // Writers don't start at the same moment.
    let mut next = Instant::now() + pace * number / WRITER_COUNT;
    while Instant::now() < until {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let key = format!("customer-{number}-{}", written.len() % 2_500);
        let mut transaction = client.transaction().unwrap();
        let id = transaction.query_one(&insert, &[&topic, &key]).unwrap().get(0);
        let committed_at = Instant::now();
        transaction.commit().unwrap();
        written.push(Written { id, committed_at });
        next += pace;
    }
    written
}

fn read(consumer: &Consumer, until: Instant, expected: &AtomicUsize) -> HashMap<i64, Instant> {
    let mut arrived = HashMap::new();
    let within = until.saturating_duration_since(Instant::now()) + SOON;
    // Checks after every record; the last one may come before it is known to be the last.
    let deadline = Instant::now() + within;
    while arrived.len() < expected.load(Relaxed) {
        assert!(Instant::now() < deadline, "only {} events arrived", arrived.len());
        consumer.for_each(Duration::from_millis(100), |message| {
            arrived.entry(record_id(message)).or_insert_with(Instant::now);
            if arrived.len() < expected.load(Relaxed) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
    }
    arrived
}

fn summarise(written: &[Written], arrived: &HashMap<i64, Instant>, warm_until: Instant) -> Latency {
    let counted: Vec<&Written> =
        written.iter().filter(|event| event.committed_at >= warm_until).collect();
    let latency = |event: &&Written| {
        let arrived_at = arrived.get(&event.id).expect("an event was lost");
        arrived_at.saturating_duration_since(event.committed_at)
    };
    let last = counted.iter().map(|event| event.committed_at).max().expect("nothing was written");
    let percentiles = Percentiles::of(counted.iter().map(latency).collect());
    let ms = |duration: Duration| duration.as_secs_f64() * 1_000.0;
    Latency {
        events: counted.len(),
        events_per_second: counted.len() as f64 / (last - warm_until).as_secs_f64(),
        p50_ms: ms(percentiles.at(50)),
        p90_ms: ms(percentiles.at(90)),
        p99_ms: ms(percentiles.at(99)),
        max_ms: ms(percentiles.max()),
    }
}
