//! A database with the side table and a slot, and events to park.

use std::time::Duration;

use postrider::internals::Order;
use postrider::internals::store::{self, Claim, ParkedRow, ParkingSession};
use postrider_core::delivery::{Reason, Refusal};
use postrider_core::lsn::Lsn;
use postrider_core::order::OrderKey;
use postrider_core::parking::{Completeness, EventToPark, ParkAs};
use postrider_core::transaction::Position;
use tokio_postgres::{Client, GenericClient, NoTls};

use testkit::postgres::PostgresAddress;
use testkit::shared;

/// Before everything the slot has confirmed, and after everything it ever will.
pub const CONFIRMED: u64 = 0x100;
pub const UNCONFIRMED: u64 = u64::MAX / 2;

pub struct Rig {
    address: PostgresAddress,
    pub slot: String,
}

/// Runs a test on a database of its own.
pub fn with<F: Future<Output = ()>>(test: impl FnOnce(Rig) -> F) {
    with_on(&shared::postgres().address(), test);
}

/// The same on a given server.
pub fn with_on<F: Future<Output = ()>>(address: &PostgresAddress, test: impl FnOnce(Rig) -> F) {
    let slot = address.create_database("store");
    let mut client = address.client(&slot);
    for migration in [
        include_str!("../../../../migrations/0001_schema.sql"),
        include_str!("../../../../migrations/0002_undelivered.sql"),
        include_str!("../../../../migrations/0003_progress.sql"),
        include_str!("../../../../migrations/0009_recovery.sql"),
        include_str!("../../../../migrations/0010_coverage.sql"),
        include_str!("../../../../migrations/0012_parked_slots.sql"),
        include_str!("../../../../migrations/0014_inside_transaction.sql"),
        include_str!("../../../../migrations/0018_parked_identity.sql"),
        include_str!("../../../../migrations/0021_side_table.sql"),
        include_str!("../../../../migrations/0022_backfill_lease.sql"),
        include_str!("../../../../migrations/0031_routes.sql"),
    ] {
        client.batch_execute(migration).unwrap();
    }
    client.execute("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&slot]).unwrap();
    let rig = Rig { address: address.clone(), slot: slot.clone() };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test(rig));
    client.execute("SELECT pg_drop_replication_slot($1)", &[&slot]).unwrap();
}

impl Rig {
    pub async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        store::begin_session(&client).await.unwrap();
        client
    }

    /// The held keys, each as often as it was reported, in a stable order.
    pub async fn held(&self, client: &impl GenericClient, rows_max: usize) -> Vec<OrderKey> {
        let mut keys = Vec::new();
        store::held_keys(client, &self.slot, rows_max, |key| keys.push(key)).await.unwrap();
        keys.sort_by_cached_key(|key| format!("{key:?}"));
        keys
    }

    pub fn url(&self) -> String {
        self.address.url(&self.slot)
    }

    pub async fn park(&self, client: &mut Client, events: &[EventToPark]) -> Vec<bool> {
        store::park(client, &self.parking_session(), events, &[]).await.unwrap()
    }

    pub fn parking_session(&self) -> ParkingSession<'_> {
        ParkingSession { slot: &self.slot, parker: None, system_identifier: None }
    }

    pub fn want<'a>(&'a self, owner: &'a str) -> Claim<'a> {
        let lease = Duration::from_secs(60);
        let order = Order::ParkKey;
        Claim { slot: &self.slot, owner, batch: 100, bytes_max: 1 << 20, lease, order }
    }

    pub async fn claim(&self, client: &mut Client, owner: &str) -> Vec<ParkedRow> {
        store::claim(client, &self.want(owner)).await.unwrap()
    }

    /// The values of claimed rows: the tests' names for events.
    pub async fn claimed(&self, client: &mut Client, owner: &str) -> Vec<String> {
        names(&self.claim(client, owner).await)
    }

    /// `name status attempts` of every row, in the order of the table; `~` marks those that wait.
    pub async fn states(&self, client: &Client) -> Vec<String> {
        let sql = "SELECT convert_from(value, 'UTF8') || ' ' || status || ' ' || attempts \
                || CASE WHEN next_attempt_at = 'infinity' THEN '~' ELSE '' END \
             FROM postrider.undelivered ORDER BY id";
        client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

pub fn names(rows: &[ParkedRow]) -> Vec<String> {
    let name = |row: &ParkedRow| String::from_utf8(row.value.clone().unwrap_or_default()).unwrap();
    rows.iter().map(name).collect()
}

pub fn key(ordering_key: &str) -> OrderKey {
    OrderKey::of("t", Some(ordering_key), None, false).unwrap()
}

/// The event `name`, with its position in one early transaction.
pub fn to_park(
    name: &str,
    ordinal: u64,
    ordering_key: Option<&str>,
    park_as: ParkAs,
) -> EventToPark {
    EventToPark {
        table: 0,
        source_table: "public.outbox".to_owned(),
        position: Position {
            commit_lsn: Lsn::new(CONFIRMED),
            change_lsn: Lsn::ZERO,
            ordinal,
            in_transaction: ordinal,
        },
        row_id: Some(ordinal.to_string()),
        idempotency_key: Some(format!("i-{name}")),
        ordering_key: ordering_key.map(str::to_owned),
        tenant: None,
        topic: "t".to_owned(),
        partition: None,
        whole_topic: false,
        key: ordering_key.map(|key| key.as_bytes().to_vec()),
        partition_by: None,
        schema: None,
        adds_committed_at: true,
        value: Some(name.as_bytes().to_vec()),
        value_bytes: name.len(),
        headers: "[]".to_owned(),
        commit_unix_micros: 1_700_000_000_123_456,
        completeness: Completeness::Whole,
        park_as,
        refusal: Refusal { reason: Reason::TopicMissing, detail: "no such topic".to_owned() },
    }
}

pub fn refusal() -> Refusal {
    Refusal { reason: Reason::TopicDenied, detail: "not allowed".to_owned() }
}
