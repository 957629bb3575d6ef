//! What postrider publishes of a case's rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use postgres::Client;
use tempfile::TempDir;

use super::PARTITIONS;
use super::case::Case;
use super::record::{Outcome, Published, Recorded, Stopped, event_id};
use crate::broker::Broker;
use crate::consumer::{Consumer, Received};
use crate::fixture::Fixture;
use crate::postgres::PostgresAddress;
use crate::wait::poll_for;

const SOON: Duration = Duration::from_secs(60);
/// For the rows of a case, which are few.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(20);

/// Later events overtake one that is parked: of each row is seen what becomes of it alone.
const UNDELIVERED: &str = "[undelivered]\norder = \"continue\"\n";

/// A database for one case after the other.
pub struct Publisher {
    fixture: Fixture,
    broker: Broker,
    /// With postrider.toml.
    folder: TempDir,
}

impl Publisher {
    #[track_caller]
    pub fn new(binary: &Path, postgres: &PostgresAddress, broker: &Broker) -> Publisher {
        let mut fixture = Fixture::unmigrated(binary, "dbz", postgres, broker);
        let folder = tempfile::tempdir().expect("cannot create a temporary folder");
        let file = folder.path().join("postrider.toml");
        fixture.set("POSTRIDER_CONFIG", file.to_str().unwrap());
        Publisher { fixture, broker: broker.clone(), folder }
    }

    /// Publishes the rows with a relay of their own. The records are expected in `topics`, and those
    /// that Debezium does not publish in the one that it usually would.
    /// An error is the output of a relay that refuses the configuration.
    #[track_caller]
    pub fn publish(&mut self, case: &Case, topics: &[String]) -> Result<Recorded, String> {
        let configuration = case.configuration.for_postrider(&case.tables) + UNDELIVERED;
        let file = self.folder.path().join("postrider.toml");
        std::fs::write(file, configuration).expect("cannot write postrider.toml");
        let mut client = self.fixture.client();
        let outcomes = prepare(case, &self.fixture, &mut client)
            .and_then(|()| self.publish_prepared(case, topics, &mut client));
        self.clean(&mut client);
        outcomes
    }

    #[track_caller]
    fn publish_prepared(
        &mut self,
        case: &Case,
        topics: &[String],
        client: &mut Client,
    ) -> Result<Recorded, String> {
        let usual = format!("outbox.event.{}", case.token());
        let topics: BTreeSet<&str> = topics.iter().map(String::as_str).chain([&*usual]).collect();
        let mut reader = Reader::new(&self.broker, &topics.into_iter().collect::<Vec<_>>());
        let fixture = &mut self.fixture;
        fixture.start_relay();
        for step in &case.steps {
            execute(client, &step.sql);
        }
        reader.wait(fixture, client, case.ids().len());
        let is_running = fixture.relay().is_running();
        fixture.relay().terminate();
        fixture.relay().wait_exit(SOON);
        reader.read_to_end();
        check_order(&reader.records)?;

        let parked = parked(client, fixture.slot()).into_iter();
        let parked = parked.map(|(id, reason)| Outcome::Stopped(Stopped { id, stops: reason }));
        let records = reader.records.iter().map(|it| Outcome::Published(Published::of(it, case)));
        let mut outcomes: Recorded = records.chain(parked).collect();
        if !is_running {
            // As with Debezium's task, nothing becomes of the rest.
            let stops = format!("the relay ended: {}", fixture.relay().log_tail(20));
            let is_left = |id: &&str| !outcomes.iter().any(|it| it.id() == *id);
            let left: Vec<&str> = case.ids().into_iter().filter(is_left).collect();
            let stopped = |id: &str| Stopped { id: id.to_owned(), stops: stops.clone() };
            outcomes.extend(left.into_iter().map(|id| Outcome::Stopped(stopped(id))));
        }
        Ok(outcomes)
    }

    /// Leaves an empty database, in which only postrider's schema is left: creating it again would take
    /// longer than the rest of a case.
    #[track_caller]
    fn clean(&self, client: &mut Client) {
        let sql = "SELECT to_regclass('postrider.progress') IS NOT NULL";
        let is_migrated: bool = client.query_one(sql, &[]).expect("cannot read the catalog").get(0);
        if is_migrated {
            self.fixture.forget_slot();
            execute(client, "DELETE FROM postrider.undelivered");
        }
        let schemas = client.query(OTHER_SCHEMAS, &[]).expect("cannot read the schemas");
        for schema in schemas {
            execute(client, &format!("DROP SCHEMA {} CASCADE", schema.get::<_, &str>(0)));
        }
        execute(client, "CREATE SCHEMA public; DROP PUBLICATION IF EXISTS postrider");
    }
}

const OTHER_SCHEMAS: &str = "SELECT oid::regnamespace::text FROM pg_namespace
    WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'postrider')";

/// Creates the tables, and a publication as Debezium's own: with updates and deletions.
fn prepare(case: &Case, fixture: &Fixture, client: &mut Client) -> Result<(), String> {
    for sql in &case.setup {
        execute(client, sql);
    }
    let tables = case.tables.join(", ");
    execute(client, &format!("CREATE PUBLICATION postrider FOR TABLE {tables}"));
    let output = fixture.run(&["migrate"]);
    let errors = || String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(errors()) }
}

#[track_caller]
fn execute(client: &mut Client, sql: &str) {
    client.batch_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

/// The ids of parked events, and why they are parked.
fn parked(client: &mut Client, slot: &str) -> BTreeMap<String, String> {
    let sql = "SELECT coalesce(row_id, ''), reason FROM postrider.undelivered WHERE slot = $1";
    let rows = client.query(sql, &[&slot]).expect("cannot read parked events");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Ids are numbered in the order of the rows.
fn check_order(records: &[Received]) -> Result<(), String> {
    let mut last: BTreeMap<(&str, i32), (usize, String)> = BTreeMap::new();
    for record in records {
        let id = event_id(record);
        // Numbers have no leading zeros.
        let place = (id.len(), id);
        let before = last.insert((&record.topic, record.partition), place.clone());
        if let Some(before) = before.filter(|before| *before >= place) {
            return Err(format!("{} after {} in {}", place.1, before.1, record.topic));
        }
    }
    Ok(())
}

/// Reads what is added to the topics.
struct Reader {
    consumer: Consumer,
    /// Where each partition ended before.
    begin: BTreeMap<(String, i32), i64>,
    records: Vec<Received>,
}

impl Reader {
    #[track_caller]
    fn new(broker: &Broker, topics: &[&str]) -> Reader {
        // Some events have old times. The embedded broker keeps everything.
        let settings = if broker.is_mock() { &[][..] } else { &[("retention.ms", "-1")] };
        for topic in topics {
            if broker.partition_count(topic).is_none() {
                broker.create_topic(topic, PARTITIONS, settings);
            }
        }
        let consumer = Consumer::new(broker, topics);
        let begin = topics.iter().flat_map(|topic| {
            let ends = consumer.end_offsets(topic).into_iter();
            ends.zip(0..).map(|(end, partition)| (((*topic).to_owned(), partition), end))
        });
        let begin = begin.collect();
        Reader { consumer, begin, records: Vec::new() }
    }

    fn read(&mut self) {
        while let Some(record) = self.consumer.next(Duration::from_millis(50)) {
            if record.offset >= self.begin[&(record.topic.clone(), record.partition)] {
                self.records.push(record);
            }
        }
    }

    /// What a relay that has ended has published.
    fn read_to_end(&mut self) {
        let topics: BTreeSet<&String> = self.begin.keys().map(|(topic, _)| topic).collect();
        let ends = topics.into_iter().flat_map(|topic| self.consumer.end_offsets(topic));
        let published = ends.sum::<i64>() - self.begin.values().sum::<i64>();
        let published = usize::try_from(published).unwrap();
        poll_for(SOON, || {
            self.read();
            (self.records.len() >= published).then_some(())
        });
    }

    /// Until all events are published or parked, or the relay has ended, or nothing more comes.
    fn wait(&mut self, fixture: &mut Fixture, client: &mut Client, events: usize) {
        poll_for(PUBLISHED_WITHIN, || {
            self.read();
            let settled = self.records.len() + parked(client, fixture.slot()).len();
            (settled >= events || !fixture.relay().is_running()).then_some(())
        });
    }
}
