//! What the library costs an application compared with INSERTs of its own: with one event per
//! transaction, and with batches.
//!
//! Contestants alternate and write to one table, so that it and its indexes grow equally for all.

use std::time::{Duration, Instant};

use postrider::{Event, enqueue, enqueue_batch};
use serde::Serialize;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use crate::report::median;
use crate::servers::Servers;
use crate::{BINARY, tell};
use testkit::fixture::Fixture;

const BATCH: usize = 1_000;
const ROUNDS: usize = 60;
const SINGLES_PER_ROUND: usize = 50;
const WARM_UP_ROUNDS: usize = 5;
const COLUMNS: usize = 4;

#[derive(Serialize)]
pub(crate) struct Enqueue {
    /// Events per second, each the median of the rounds.
    pub(crate) bare_single: f64,
    pub(crate) single: f64,
    /// `INSERT … VALUES (…), (…), …`, prepared.
    pub(crate) bare_batch: f64,
    /// `INSERT … SELECT … FROM unnest(…) RETURNING id`, prepared: only the arrays and ids of the
    /// function.
    pub(crate) bare_arrays: f64,
    pub(crate) batch: f64,
    /// Medians of the rounds' ratios: runs of one round meet the same state of the machine.
    pub(crate) batch_to_bare: f64,
    pub(crate) batch_to_arrays: f64,
    pub(crate) batch_to_single: f64,
}

struct Round {
    bare_single: f64,
    single: f64,
    bare_batch: f64,
    bare_arrays: f64,
    batch: f64,
}

/// The same events for all contestants; each makes its keys unique.
struct Rows {
    payloads: Vec<String>,
    keys: Vec<String>,
    ordering: Vec<String>,
}

impl Rows {
    fn new(contestant: &str, round: usize, count: usize) -> Rows {
        let text = "abcdefghij".repeat(16);
        let payload = |n: usize| format!("{{\"order\":{n},\"text\":\"{text}\"}}");
        Rows {
            payloads: (0..count).map(payload).collect(),
            keys: (0..count).map(|n| format!("{contestant}-{round}-{n}")).collect(),
            ordering: (0..count).map(|n| format!("customer-{}", n % 100)).collect(),
        }
    }

    fn events(&self) -> Vec<Event> {
        let rows = self.payloads.iter().zip(&self.keys).zip(&self.ordering);
        rows.map(|((payload, key), ordering)| {
            let payload: &serde_json::value::RawValue =
                serde_json::from_str(payload).expect("the payload is JSON");
            let event = Event::json("bench", payload).expect("JSON stays JSON");
            event.idempotency_key(key).ordering_key(ordering)
        })
        .collect()
    }
}

pub(crate) fn measure(servers: &Servers) -> Enqueue {
    tell(format!("enqueue: {ROUNDS} rounds of batches of {BATCH} and {SINGLES_PER_ROUND} singles"));
    let fixture = Fixture::on(BINARY, "enqueue", &servers.postgres.address(), &servers.broker);
    let url = fixture.postgres().url(fixture.database());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let rounds = runtime.expect("cannot create a runtime").block_on(play(&url));
    let each = |value: fn(&Round) -> f64| median(rounds.iter().map(value));
    Enqueue {
        bare_single: each(|round| round.bare_single),
        single: each(|round| round.single),
        bare_batch: each(|round| round.bare_batch),
        bare_arrays: each(|round| round.bare_arrays),
        batch: each(|round| round.batch),
        batch_to_bare: each(|round| round.batch / round.bare_batch),
        batch_to_arrays: each(|round| round.batch / round.bare_arrays),
        batch_to_single: each(|round| round.batch / round.single),
    }
}

async fn play(url: &str) -> Vec<Round> {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.expect("no Postgres");
    tokio::spawn(connection);
    let statements = Statements::prepare(&client).await;
    let mut rounds = Vec::new();
    for number in 0..ROUNDS + WARM_UP_ROUNDS {
        let rows = |contestant| Rows::new(contestant, number, BATCH);
        // The order alternates, because later runs find warmer caches.
        let (bare_batch, bare_arrays, batch);
        if number.is_multiple_of(2) {
            bare_batch = statements.values(&mut client, &rows("values")).await;
            bare_arrays = statements.arrays(&mut client, &rows("arrays")).await;
            batch = library(&mut client, &rows("batch").events()).await;
        } else {
            batch = library(&mut client, &rows("batch").events()).await;
            bare_arrays = statements.arrays(&mut client, &rows("arrays")).await;
            bare_batch = statements.values(&mut client, &rows("values")).await;
        }
        let rows = |contestant| Rows::new(contestant, number, SINGLES_PER_ROUND);
        let bare_single = statements.singles(&mut client, &rows("bare")).await;
        let single = singles(&mut client, &rows("single").events()).await;
        rounds.push(Round {
            bare_single: rate(SINGLES_PER_ROUND, bare_single),
            single: rate(SINGLES_PER_ROUND, single),
            bare_batch: rate(BATCH, bare_batch),
            bare_arrays: rate(BATCH, bare_arrays),
            batch: rate(BATCH, batch),
        });
    }
    rounds.split_off(WARM_UP_ROUNDS)
}

fn rate(events: usize, took: Duration) -> f64 {
    events as f64 / took.as_secs_f64()
}

async fn library(client: &mut Client, events: &[Event]) -> Duration {
    let begun = Instant::now();
    let mut transaction = client.transaction().await.unwrap();
    let ids = enqueue_batch(&mut transaction, events).await.unwrap();
    transaction.commit().await.unwrap();
    let took = begun.elapsed();
    assert_eq!(ids.len(), events.len());
    took
}

async fn singles(client: &mut Client, events: &[Event]) -> Duration {
    let begun = Instant::now();
    for event in events {
        let mut transaction = client.transaction().await.unwrap();
        enqueue(&mut transaction, event).await.unwrap();
        transaction.commit().await.unwrap();
    }
    begun.elapsed()
}

/// What an application would write without the library.
struct Statements {
    single: Statement,
    values: Statement,
    arrays: Statement,
}

impl Statements {
    async fn prepare(client: &Client) -> Statements {
        let into = "INSERT INTO outbox (topic, payload, idempotency_key, ordering_key)";
        let row = |row: usize| {
            let first = row * COLUMNS + 1;
            format!("(${first}, ${}::text::json, ${}, ${})", first + 1, first + 2, first + 3)
        };
        let rows: Vec<String> = (0..BATCH).map(row).collect();
        let prepare = |sql: String| async move { client.prepare(&sql).await.unwrap() };
        Statements {
            single: prepare(format!("{into} VALUES {}", row(0))).await,
            values: prepare(format!("{into} VALUES {}", rows.join(", "))).await,
            arrays: prepare(format!(
                "{into} SELECT t, p::json, k, o
                   FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS rows (t, p, k, o)
                 RETURNING id"
            ))
            .await,
        }
    }

    async fn singles(&self, client: &mut Client, rows: &Rows) -> Duration {
        let begun = Instant::now();
        for ((payload, key), ordering) in rows.payloads.iter().zip(&rows.keys).zip(&rows.ordering) {
            let transaction = client.transaction().await.unwrap();
            let values: [&(dyn ToSql + Sync); COLUMNS] = [&"bench", payload, key, ordering];
            transaction.execute(&self.single, &values).await.unwrap();
            transaction.commit().await.unwrap();
        }
        begun.elapsed()
    }

    async fn values(&self, client: &mut Client, rows: &Rows) -> Duration {
        let mut values: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(BATCH * COLUMNS);
        for ((payload, key), ordering) in rows.payloads.iter().zip(&rows.keys).zip(&rows.ordering) {
            values.extend([&"bench" as &(dyn ToSql + Sync), payload, key, ordering]);
        }
        let begun = Instant::now();
        let transaction = client.transaction().await.unwrap();
        transaction.execute(&self.values, &values).await.unwrap();
        transaction.commit().await.unwrap();
        begun.elapsed()
    }

    async fn arrays(&self, client: &mut Client, rows: &Rows) -> Duration {
        let topics = vec!["bench"; rows.keys.len()];
        let begun = Instant::now();
        let transaction = client.transaction().await.unwrap();
        let values: [&(dyn ToSql + Sync); COLUMNS] =
            [&topics, &rows.payloads, &rows.keys, &rows.ordering];
        let ids = transaction.query(&self.arrays, &values).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(ids.len(), rows.keys.len());
        begun.elapsed()
    }
}
