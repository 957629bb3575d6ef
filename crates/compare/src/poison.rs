//! An event that can't be published, between others that can.

use std::collections::BTreeSet;
use std::time::Duration;

use testkit::consumer::Consumer;
use testkit::debezium::PARTITIONS;
use testkit::debezium::server::DebeziumServer;
use testkit::wait::{poll_for, wait_until};

use crate::servers::Servers;
use crate::site::Site;
use crate::slot::streams;

const SOON: Duration = Duration::from_secs(60);
/// Long enough for events that are published after the poison.
const NOTHING_FOR: Duration = Duration::from_secs(2);
/// Before the poison, and after it.
const OTHERS: usize = 5;

struct Poison {
    what: &'static str,
    /// Part of the database's name and of topics.
    name: &'static str,
    /// The columns aggregatetype and payload.
    values: &'static str,
}

const POISONS: &[Poison] = &[
    Poison { what: "an illegal topic name", name: "illegal", values: "'Customer Order', '{}'" },
    Poison {
        what: "larger than the topic takes",
        name: "large",
        values: "'large', jsonb_build_object('text', repeat('x', 2000000))",
    },
];

/// Prints what becomes of the others. Returns whether postrider has published all of them.
pub(crate) fn compare(servers: &Servers) -> bool {
    println!(
        "\nOne event that can't be published, {OTHERS} events before it and {OTHERS} after it"
    );
    POISONS.iter().all(|poison| {
        println!("  {}", poison.what);
        let debezium = by_debezium(servers, poison);
        println!("    Debezium Server: {debezium}");
        let (published, parked) = by_postrider(servers, poison);
        println!("    postrider: {published} of {} others published, {parked}", 2 * OTHERS);
        published == 2 * OTHERS
    })
}

/// Each publisher has topics and a database of its own.
fn prepare(servers: &Servers, poison: &Poison, publisher: &str) -> (Site, String, Consumer) {
    let site = Site::new(servers, &format!("poison_{publisher}"));
    let kind = format!("{}.{publisher}", poison.name);
    let topic = format!("outbox.event.{kind}");
    servers.broker().create_topic(&topic, PARTITIONS, &[]);
    let consumer = Consumer::new(&servers.broker(), &[&topic]);
    (site, kind, consumer)
}

/// Every event in a transaction of its own, and with a key of its own.
fn write(site: &Site, poison: &Poison, kind: &str) {
    let mut client = site.fixture.client();
    let columns = "INSERT INTO outbox (aggregateid, type, aggregatetype, payload) VALUES";
    let mut others = |part: &str| {
        for number in 0..OTHERS {
            let key = format!("{part}-{number}");
            let sql = format!("{columns} ('{key}', 'Other', '{kind}', '{{}}')");
            client.batch_execute(&sql).expect("cannot write an event");
        }
    };
    others("before");
    let sql = format!("{columns} ('poison', 'Poison', {})", poison.values);
    site.fixture.client().batch_execute(&sql).expect("cannot write the poison");
    others("after");
}

/// The keys that have arrived since the last call.
fn read(consumer: &Consumer, keys: &mut BTreeSet<String>, quiet: Duration) {
    let records = consumer.drain_quiet(quiet);
    keys.extend(records.iter().filter_map(|record| record.key_text().map(str::to_owned)));
}

fn by_debezium(servers: &Servers, poison: &Poison) -> String {
    let (site, kind, consumer) = prepare(servers, poison, "debezium");
    let slot = site.fixture.slot();
    let mut server = DebeziumServer::new(&site.server_properties(slot));
    server.start();
    let mut client = site.fixture.client();
    wait_until("Debezium Server to stream", SOON, || streams(&mut client, slot));
    write(&site, poison, &kind);
    let mut keys = BTreeSet::new();
    let mut ends = Vec::new();
    // The second time as if somebody had started it again.
    for _ in 0..2 {
        let ended = poll_for(SOON, || {
            read(&consumer, &mut keys, Duration::from_millis(100));
            (keys.len() >= 2 * OTHERS || !server.is_running()).then_some(())
        });
        assert!(ended.is_some(), "Debezium Server neither publishes nor ends");
        let Some(class) = server.failure() else { break };
        ends.push(class);
        server.start();
    }
    server.kill9();
    read(&consumer, &mut keys, NOTHING_FOR);
    let published = format!("{} of {} others published", keys.len(), 2 * OTHERS);
    match ends.as_slice() {
        [] => published,
        [first] => format!("ends once with {first}, {published}"),
        [first, ..] => format!("ends with {first}, also when it is started again; {published}"),
    }
}

fn by_postrider(servers: &Servers, poison: &Poison) -> (usize, String) {
    let (mut site, kind, consumer) = prepare(servers, poison, "postrider");
    site.fixture.migrate();
    site.fixture.start_relay().wait_ready(SOON);
    write(&site, poison, &kind);
    let mut client = site.fixture.client();
    let mut parked = || {
        let sql = "SELECT reason, status FROM postrider.undelivered";
        let rows = client.query(sql, &[]).expect("cannot read parked events");
        let told = |row: &postgres::Row| {
            format!("the poison parked as {} ({})", row.get::<_, &str>(0), row.get::<_, &str>(1))
        };
        rows.iter().map(told).collect::<Vec<_>>().join("; ")
    };
    let mut keys = BTreeSet::new();
    poll_for(SOON, || {
        read(&consumer, &mut keys, Duration::from_millis(100));
        (keys.len() >= 2 * OTHERS && !parked().is_empty()).then_some(())
    });
    (keys.len(), parked())
}
