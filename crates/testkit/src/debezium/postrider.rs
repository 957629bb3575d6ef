//! What postrider publishes of a case's rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::PARTITIONS;
use super::case::Case;
use super::record::{Outcome, Published, Recorded, Stopped, event_id};
use crate::broker::Broker;
use crate::consumer::{Consumer, Received};
use crate::fixture::Fixture;
use crate::postgres::PostgresAddress;
use crate::wait::poll_for;

const SOON: Duration = Duration::from_secs(60);

/// Later events overtake one that is parked: of each row is seen what becomes of it alone.
const UNDELIVERED: &str = "[undelivered]\norder = \"continue\"\n";

/// Publishes the rows with a relay of their own. `topics` are those that the records are expected in.
/// An error is the output of a relay that refuses the configuration or ends.
#[track_caller]
pub fn publish(
    binary: &Path,
    case: &Case,
    postgres: &PostgresAddress,
    broker: &Broker,
    topics: &[String],
) -> Result<Recorded, String> {
    let mut fixture = Fixture::unmigrated(binary, "dbz", postgres, broker);
    let folder = tempfile::tempdir().expect("cannot create a temporary folder");
    let file = folder.path().join("postrider.toml");
    let configuration = case.configuration.for_postrider(&case.tables);
    std::fs::write(&file, configuration + UNDELIVERED).expect("cannot write postrider.toml");
    fixture.set("POSTRIDER_CONFIG", file.to_str().unwrap());
    let mut client = fixture.client();
    for sql in &case.setup {
        client.batch_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
    // As Debezium's own: with updates and deletions.
    let publication = format!("CREATE PUBLICATION postrider FOR TABLE {}", case.tables.join(", "));
    client.batch_execute(&publication).expect("cannot create the publication");
    let output = fixture.run(&["migrate"]);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut reader = Reader::new(broker, topics);
    fixture.start_relay();
    for step in &case.steps {
        let done = client.batch_execute(&step.sql);
        done.unwrap_or_else(|error| panic!("{}: {error:?}", step.sql));
    }
    reader.wait(&mut fixture, case.ids().len());
    let mut ended = None;
    if fixture.relay().is_running() {
        fixture.relay().terminate();
        fixture.relay().wait_exit(SOON);
    } else {
        ended = Some(fixture.relay().log_tail(20));
    }
    reader.read_to_end();
    check_order(&reader.records)?;
    let parked = parked(&fixture).into_iter();
    let parked = parked.map(|(id, reason)| Outcome::Stopped(Stopped { id, stops: reason }));
    let records = reader.records.iter().map(|it| Outcome::Published(Published::of(it, case)));
    let mut outcomes: Recorded = records.chain(parked).collect();
    if let Some(log) = ended {
        // As with Debezium's task, nothing becomes of the rest.
        let rest = case.ids().into_iter().filter(|id| !outcomes.iter().any(|it| it.id() == *id));
        let rest: Vec<String> = rest.map(ToOwned::to_owned).collect();
        let stopped =
            |id| Outcome::Stopped(Stopped { id, stops: format!("the relay ended: {log}") });
        outcomes.extend(rest.into_iter().map(stopped));
    }
    Ok(outcomes)
}

/// The ids of parked events, and why they are parked.
fn parked(fixture: &Fixture) -> BTreeMap<String, String> {
    let sql = "SELECT coalesce(row_id, ''), reason FROM postrider.undelivered WHERE slot = $1";
    let rows = fixture.client().query(sql, &[&fixture.slot()]).expect("cannot read parked events");
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
    consumer: Option<Consumer>,
    /// Where each partition ended before.
    begin: BTreeMap<(String, i32), i64>,
    records: Vec<Received>,
}

impl Reader {
    #[track_caller]
    fn new(broker: &Broker, topics: &[String]) -> Reader {
        for topic in topics {
            if broker.partition_count(topic).is_none() {
                broker.create_topic(topic, PARTITIONS, &[]);
            }
        }
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        // Without topics there is nothing to read: Debezium stops at every row.
        let consumer = (!names.is_empty()).then(|| Consumer::new(broker, &names));
        let ends = |topic: &String| consumer.as_ref().map(|it| it.end_offsets(topic));
        let begin = topics.iter().flat_map(|topic| {
            let ends = ends(topic).unwrap_or_default().into_iter();
            ends.zip(0..).map(|(end, partition)| ((topic.clone(), partition), end))
        });
        let begin = begin.collect();
        Reader { consumer, begin, records: Vec::new() }
    }

    fn read(&mut self) {
        let Some(consumer) = &self.consumer else { return };
        while let Some(record) = consumer.next(Duration::from_millis(50)) {
            if record.offset >= self.begin[&(record.topic.clone(), record.partition)] {
                self.records.push(record);
            }
        }
    }

    /// What a relay that has ended has published.
    fn read_to_end(&mut self) {
        let Some(consumer) = &self.consumer else { return };
        let ends = |(topic, partition): &(String, i32)| {
            consumer.end_offsets(topic)[usize::try_from(*partition).unwrap()]
        };
        let published: i64 = self.begin.iter().map(|(place, begin)| ends(place) - begin).sum();
        let published = usize::try_from(published).unwrap();
        poll_for(SOON, || {
            self.read();
            (self.records.len() >= published).then_some(())
        });
    }

    /// Until all events are published or parked, or the relay has ended, or nothing more comes.
    fn wait(&mut self, fixture: &mut Fixture, events: usize) {
        poll_for(SOON, || {
            self.read();
            let settled = self.records.len() + parked(fixture).len();
            (settled >= events || !fixture.relay().is_running()).then_some(())
        });
    }
}
