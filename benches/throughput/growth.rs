//! What many topics, large events and a full side table cost.

use postgres::Client;
use serde::Serialize;

use crate::backlog::{Backlog, Kind, create_slots, fill, finish};
use crate::drain::{RelayRun, run_relay};
use crate::producer::{self, Bare};
use crate::recvlogical::{self, Values};
use crate::servers::Servers;
use crate::table::{Table, Target};
use crate::{BINARY, tell};
use testkit::fixture::Fixture;

const ROWS: usize = 400_000;
const ROWS_PER_TRANSACTION: usize = 10;
/// Cases with large events have about as many bytes as those with small ones.
const BYTES_MAX: usize = 1_200_000_000;
const YARDSTICK_SLOT: &str = "bench_growth_recvlogical";
const RELAY_SLOT: &str = "bench_growth_relay";

/// What grows.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// With one partition each.
    topics: usize,
    payload_bytes: usize,
    /// Dead events in the side table.
    dead: usize,
}

/// The case that those with many topics are compared with.
const ONE_TOPIC: &str = "1 topic";

const CASES: &[Case] = &[
    Case { name: ONE_TOPIC, topics: 1, payload_bytes: 200, dead: 0 },
    Case { name: "10 topics", topics: 10, payload_bytes: 200, dead: 0 },
    Case { name: "100 topics", topics: 100, payload_bytes: 200, dead: 0 },
    Case { name: "1,000 topics", topics: 1_000, payload_bytes: 200, dead: 0 },
    Case { name: "payload 1.6 kB", topics: 1, payload_bytes: 1_600, dead: 0 },
    Case { name: "payload 16 kB", topics: 1, payload_bytes: 16_000, dead: 0 },
    Case { name: "payload 100 kB", topics: 1, payload_bytes: 100_000, dead: 0 },
    Case { name: "100,000 dead events", topics: 1, payload_bytes: 200, dead: 100_000 },
];

#[derive(Serialize)]
pub(crate) struct Growth {
    pub(crate) case: Case,
    rows: usize,
    recvlogical_seconds: f64,
    relay: RelayRun,
    /// A bare producer, to the same topics.
    bare: Option<Bare>,
    /// The ratio to the rate of one topic in the same run, if that was measured.
    to_one_topic: Option<f64>,
}

impl Growth {
    pub(crate) fn rate(&self) -> f64 {
        self.rows as f64 / self.relay.seconds
    }

    /// The ratio to pg_recvlogical on the same log.
    pub(crate) fn ratio(&self) -> f64 {
        self.recvlogical_seconds / self.relay.seconds
    }

    /// The ratio to the slower one of the two that each do half of the work.
    pub(crate) fn ratio_to_slower(&self) -> f64 {
        let bare = self.bare.as_ref().map_or(0.0, |bare| bare.seconds);
        self.recvlogical_seconds.max(bare) / self.relay.seconds
    }

    pub(crate) fn cpu_micros_per_event(&self) -> f64 {
        self.relay.cpu_seconds * 1e6 / self.rows as f64
    }

    pub(crate) fn peak_memory_mib(&self) -> f64 {
        self.relay.peak_memory_bytes as f64 / f64::from(1 << 20)
    }
}

/// Each topic is the prefix with a number.
pub(crate) const CREATE_FILL: &str = r#"
    CREATE PROCEDURE fill(topic text, topics bigint, payload_bytes int, first bigint, last bigint,
                          rows_per_transaction bigint)
    LANGUAGE plpgsql AS $$
    DECLARE
        filler CONSTANT text := rpad('', payload_bytes - 30, 'abcdefghij');
    BEGIN
        WHILE first <= last LOOP
            INSERT INTO outbox (topic, ordering_key, type, tenant, payload)
            SELECT topic || n % topics, 'customer-' || n % 10000, 'order.placed', 'tenant-' || n % 100,
                   ('{"order":' || n || ',"text":"' || filler || '"}')::json
            FROM generate_series(first, least(first + rows_per_transaction - 1, last)) n;
            COMMIT;
            first := first + rows_per_transaction;
        END LOOP;
    END $$"#;

const DEAD: &str = r#"INSERT INTO postrider.undelivered (slot, source_table, row_id, topic, ordering_key, key,
        value, value_bytes, headers, commit_lsn, ordinal, "timestamp", form, status, reason)
    SELECT $1, 'public.outbox', n::text, 'dead', 'k' || n, 'k', convert_to(repeat('x', 200), 'UTF8'), 200, '[]',
        '0/1', n, now(), 'whole', 'dead', 'too-large' FROM generate_series(1, $2::bigint) n"#;

/// Fills the slot's part of the side table.
pub(crate) fn add_dead(client: &mut Client, slot: &str, count: usize) {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    client.execute(DEAD, &[&slot, &count]).expect("cannot write dead events");
}

/// The cases with one of these in their names; all if the list is empty.
pub(crate) fn measure(servers: &Servers, wanted_rows: usize, names: &[String]) -> Vec<Growth> {
    let wanted = CASES.iter().filter(|case| {
        names.is_empty() || names.iter().any(|name| case.name.contains(name.as_str()))
    });
    let mut all: Vec<Growth> =
        wanted.map(|case| measure_case(servers, *case, wanted_rows.min(ROWS))).collect();
    let one_topic = all.iter().find(|it| it.case.name == ONE_TOPIC).map(Growth::rate);
    for growth in &mut all {
        growth.to_one_topic = one_topic.map(|rate| growth.rate() / rate);
    }
    all
}

pub(crate) fn add_to(table: &mut Table, growth: &[Growth]) {
    table.heading(
        "what grows: ratio to pg_recvlogical, CPU per event in µs, peak memory in MiB".into(),
    );
    for it in growth {
        let values = vec![it.ratio(), it.cpu_micros_per_event(), it.peak_memory_mib()];
        table.row(it.case.name, values, 2, Target::None);
    }
    let memory = growth.iter().map(Growth::peak_memory_mib).fold(0.0, f64::max);
    table.row("peak memory of all, MiB", vec![memory], 1, Target::AtMost(48.0));
    let many_topics = || growth.iter().filter(|it| it.case.topics > 1);
    table.heading("many topics: ratio to the slower of pg_recvlogical and a bare producer".into());
    for it in many_topics() {
        table.row(it.case.name, vec![it.ratio_to_slower()], 2, Target::AtLeast(0.85));
    }
    table.heading("many topics: ratio to the rate of one topic".into());
    for it in many_topics() {
        // Without one topic in the same run there is nothing to compare with.
        let Some(ratio) = it.to_one_topic else { continue };
        table.row(it.case.name, vec![ratio], 2, target_to_one_topic(it.case.topics));
    }
}

fn target_to_one_topic(topics: usize) -> Target {
    match topics {
        100 => Target::AtLeast(0.8),
        1_000 => Target::AtLeast(0.5),
        _ => Target::None,
    }
}

fn measure_case(servers: &Servers, case: Case, rows: usize) -> Growth {
    let rows = rows.min(BYTES_MAX / case.payload_bytes);
    tell(format!("{}: writing {rows} rows", case.name));
    let mut backlog = write(servers, case, rows);
    let topics: Vec<String> =
        (0..case.topics).map(|number| format!("{}{number}", backlog.topic)).collect();
    let bare = (case.payload_bytes == 200 && case.dead == 0)
        .then(|| producer::measure_among(servers, &topics, rows));
    let yardstick = recvlogical::drain(servers, &backlog, YARDSTICK_SLOT, Values::Text);
    let relay = run_relay(&mut backlog, RELAY_SLOT);
    let recvlogical_seconds = yardstick.as_secs_f64();
    let growth = Growth { case, rows, recvlogical_seconds, relay, bare, to_one_topic: None };
    tell(format!(
        "  {:.0} events/s, {:.2} x pg_recvlogical, {:.2} x the slower of it and a bare producer, \
         {:.1} µs, {:.1} MiB",
        growth.rate(),
        growth.ratio(),
        growth.ratio_to_slower(),
        growth.cpu_micros_per_event(),
        growth.peak_memory_mib()
    ));
    growth
}

fn write(servers: &Servers, case: Case, rows: usize) -> Backlog {
    let address = servers.postgres.address();
    let fixture = Fixture::on(BINARY, "growth", &address, &servers.broker);
    let topic = fixture.topic("events");
    let names: Vec<String> = (0..case.topics).map(|number| format!("events{number}")).collect();
    let mut fixture = fixture;
    for name in &names {
        fixture.create_topic(name, 1, &[("file.delete.delay.ms", "1000")]);
    }
    create_slots(&fixture, &[YARDSTICK_SLOT.to_owned(), RELAY_SLOT.to_owned()]);
    let mut client = fixture.client();
    client.batch_execute(CREATE_FILL).unwrap();
    if case.dead > 0 {
        add_dead(&mut client, RELAY_SLOT, case.dead);
    }
    let arguments = format!("'{topic}', {}, {}", case.topics, case.payload_bytes);
    fill(&fixture, &arguments, rows, ROWS_PER_TRANSACTION);
    let end = finish(&fixture, rows);
    Backlog { fixture, topic, kind: Kind::Rows, rows, end }
}
