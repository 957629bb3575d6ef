//! What Debezium does with the rows of a case.
//!
//! Each row is written when the one before it is published, so that it is known which row Debezium stops at.
//! It then starts again after that row, with a new slot.

use std::time::Duration;

use postgres::Client;
use testkit::broker::Broker;
use testkit::debezium::configuration::Source;
use testkit::debezium::connect::ConnectWorker;
use testkit::debezium::record::{Stopped, event_id};
use testkit::debezium::{Case, Outcome, Published, Recorded};
use testkit::postgres::PostgresAddress;
use testkit::wait::{wait_for, wait_until};

use crate::debezium::Debezium;
use crate::reader::Reader;
use crate::servers::Servers;
use crate::slot::streams;

const SOON: Duration = Duration::from_secs(90);
const PUBLICATION: &str = "debezium";

pub(crate) fn observe(servers: &Servers, worker: Option<&ConnectWorker>, case: &Case) -> Recorded {
    let postgres = servers.postgres();
    let database = postgres.create_database("debezium");
    let mut observer = Observer {
        case,
        worker,
        broker: servers.broker(),
        client: postgres.client(&database),
        reader: Reader::new(servers.broker(), case.token()),
        postgres,
        database,
        starts: 0,
    };
    observer.prepare();
    let outcomes = observer.observe_all();
    observer.postgres.drop_database(&observer.database).expect("cannot drop a database");
    outcomes
}

struct Observer<'a> {
    case: &'a Case,
    /// For cases of Kafka Connect.
    worker: Option<&'a ConnectWorker>,
    broker: Broker,
    postgres: PostgresAddress,
    database: String,
    client: Client,
    reader: Reader,
    starts: usize,
}

impl<'a> Observer<'a> {
    fn prepare(&mut self) {
        for sql in &self.case.setup {
            let done = self.client.batch_execute(sql);
            done.unwrap_or_else(|error| panic!("{}: {sql}: {error:?}", self.case.full_name()));
        }
        let tables = self.case.tables.join(", ");
        let sql = format!("CREATE PUBLICATION {PUBLICATION} FOR TABLE {tables}");
        self.client.batch_execute(&sql).expect("cannot create the publication");
    }

    fn observe_all(&mut self) -> Recorded {
        let mut outcomes = Recorded::new();
        let mut running: Option<Debezium<'a>> = None;
        for step in &self.case.steps {
            let mut debezium = running.take().unwrap_or_else(|| self.start());
            let done = self.client.batch_execute(&step.sql);
            done.unwrap_or_else(|error| {
                panic!("{}: {}: {error:?}", self.case.full_name(), step.sql)
            });
            let outcome = step.id.as_ref().map(|id| self.outcome(id, &mut debezium));
            let is_over = matches!(outcome, Some(Outcome::Stopped(_)));
            outcomes.extend(outcome);
            if is_over { self.end(debezium) } else { running = Some(debezium) }
        }
        if let Some(debezium) = running {
            self.end(debezium);
        }
        let more = self.reader.read();
        assert!(
            more.is_empty(),
            "{}: more than one record for a row: {more:?}",
            self.case.full_name()
        );
        outcomes
    }

    fn slot(&self) -> String {
        format!("{}_{}", self.database, self.starts)
    }

    fn start(&mut self) -> Debezium<'a> {
        self.starts += 1;
        let slot = self.slot();
        let source = Source {
            port: self.postgres.port(),
            user: "postgres",
            password: "postgres",
            database: &self.database,
            slot: &slot,
            publication: PUBLICATION,
            tables: &self.case.tables,
        };
        let configuration = &self.case.configuration;
        let mut debezium =
            Debezium::start(configuration, &source, self.worker, self.broker.brokers());
        let what = format!("{}: Debezium to stream", self.case.full_name());
        wait_until(&what, SOON, || {
            if let Some(class) = debezium.failure() {
                panic!("{}: Debezium does not start: {class}", self.case.full_name());
            }
            streams(&mut self.client, &slot)
        });
        debezium
    }

    fn outcome(&mut self, id: &str, debezium: &mut Debezium<'_>) -> Outcome {
        let what = format!("{}: what becomes of {id}", self.case.full_name());
        wait_for(&what, SOON, || {
            // Asked first: what it published before it ended is then there.
            let failure = debezium.failure();
            let records = self.reader.read();
            match (records.as_slice(), failure) {
                ([record], _) => {
                    assert_eq!(event_id(record), id, "{what}: a record of another event");
                    Some(Outcome::Published(Published::of(record, self.case)))
                }
                ([], Some(stops)) => Some(Outcome::Stopped(Stopped { id: id.to_owned(), stops })),
                ([], None) => None,
                (several, _) => panic!("{what}: several records: {several:?}"),
            }
        })
    }

    fn end(&mut self, debezium: Debezium<'_>) {
        debezium.end();
        self.postgres.drop_slot(&self.slot()).expect("cannot drop a slot");
    }
}
