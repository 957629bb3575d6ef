//! How fast a backlog is published, and what that takes.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use testkit::consumer::Consumer;
use testkit::debezium::PARTITIONS;
use testkit::debezium::server::DebeziumServer;

use crate::servers::Servers;
use crate::site::Site;

const TOPIC: &str = "outbox.event.drain";
const TRANSACTIONS: u32 = 20_000;
const ROWS_EACH: u32 = 10;
/// Payloads of about 200 bytes, a thousand keys.
const WRITE: &str = "DO $$ BEGIN
    FOR t IN 1..{TRANSACTIONS} LOOP
        INSERT INTO outbox (aggregatetype, aggregateid, type, payload)
            SELECT 'drain', ((t * 7 + r) % 1000)::text, 'Measured',
                jsonb_build_object('transaction', t, 'row', r, 'text', repeat('measure ', 20))
            FROM generate_series(1, {ROWS_EACH}) r;
        COMMIT;
    END LOOP;
END $$";
/// Debezium Server with the options that its own script gives the JVM, which are none, and with a small heap.
const HEAPS: [(&str, &str, &[&str]); 2] =
    [("Debezium Server", "default", &[]), ("Debezium Server, -Xmx512m", "small", &["-Xmx512m"])];
const WITHIN: Duration = Duration::from_secs(300);

/// What a process has used so far.
struct Usage {
    at: Instant,
    cpu: Duration,
}

struct Figures {
    start: Duration,
    events_per_second: f64,
    cpu_seconds_per_million: f64,
}

/// Prints the figures of both, each alone with a backlog of the same rows.
pub(crate) fn compare(servers: &Servers) -> bool {
    let events = TRANSACTIONS * ROWS_EACH;
    println!("\nA backlog of {events} events, {ROWS_EACH} in each transaction");
    let mut site = Site::new(servers, "drain");
    servers.broker().create_topic(TOPIC, PARTITIONS, &[]);
    site.fixture.migrate();
    let slots = HEAPS.map(|(_, suffix, _)| format!("{}_{suffix}", site.fixture.slot()));
    let mut client = site.fixture.client();
    for slot in &slots {
        let create = "SELECT FROM pg_create_logical_replication_slot($1, 'pgoutput')";
        client.execute(create, &[slot]).expect("cannot create a slot");
    }
    let write = WRITE.replace("{TRANSACTIONS}", &TRANSACTIONS.to_string());
    let write = write.replace("{ROWS_EACH}", &ROWS_EACH.to_string());
    client.batch_execute(&write).expect("cannot write the backlog");
    client.batch_execute("CHECKPOINT").expect("cannot write a checkpoint");

    println!("  {:26}  events/s  CPU s per 1M  peak memory  first event after", "");
    let consumer = Consumer::new(&servers.broker(), &[TOPIC]);
    for ((name, _, options), slot) in HEAPS.iter().zip(&slots) {
        let mut debezium = DebeziumServer::new(&site.server_properties(slot));
        let begun = Instant::now();
        debezium.start_with(options);
        let figures = measure(&consumer, begun, events, || debezium.cpu_time());
        print(name, figures, debezium.peak_rss_bytes());
        debezium.kill9();
    }

    let begun = Instant::now();
    site.fixture.start_relay();
    let relay = site.fixture.relay();
    let figures = measure(&consumer, begun, events, || relay.cpu_time());
    print("postrider", figures, relay.peak_rss_bytes());
    true
}

/// From the first record that arrives to the last one.
fn measure(
    consumer: &Consumer,
    begun: Instant,
    events: u32,
    cpu_time: impl Fn() -> Duration,
) -> Figures {
    let usage = || Usage { at: Instant::now(), cpu: cpu_time() };
    let (mut first, mut read) = (None, 0);
    let is_complete = consumer.for_each(WITHIN, |_| {
        first.get_or_insert_with(usage);
        read += 1;
        if read == events { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let (first, last) = (first.expect("no event arrives"), usage());
    assert!(is_complete, "{read} of {events} events arrive");
    let cpu = last.cpu - first.cpu;
    Figures {
        start: first.at - begun,
        events_per_second: f64::from(events) / (last.at - first.at).as_secs_f64(),
        cpu_seconds_per_million: cpu.as_secs_f64() / f64::from(events) * 1e6,
    }
}

fn print(name: &str, figures: Figures, peak_memory_bytes: u64) {
    let Figures { start, events_per_second, cpu_seconds_per_million } = figures;
    println!(
        "  {name:26}  {events_per_second:8.0}  {cpu_seconds_per_million:12.1}  {:8} MiB  {:.1} s",
        peak_memory_bytes / 1024 / 1024,
        start.as_secs_f64(),
    );
}
