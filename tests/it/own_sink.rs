//! A relay in this process, with a sink of its own: it sees records in order, where transactions end, and
//! that it is stopped.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::relay::Relay;
use postrider::shutdown::Shutdown;
use postrider::sink::{
    Broken, Destination, Lsn, NotTaken, Outcome, Record, Report, Sink, SinkOptions, Ticket,
};
use postrider::{Config, Needs};

use crate::harness::slot::wait_confirmed;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a sink is told, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Record(String),
    Boundary(Lsn),
    Stop,
}

type Calls = Arc<Mutex<Vec<Call>>>;

/// Acknowledges each record as soon as it is asked.
struct Recorder {
    calls: Calls,
    taken: Vec<Ticket>,
    destination: Destination,
}

impl Recorder {
    fn new(calls: &Calls) -> Self {
        let destination = Destination::new(None, DAY);
        Recorder { calls: Arc::clone(calls), taken: Vec::new(), destination }
    }

    fn note(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Sink for Recorder {
    async fn restart(&mut self) -> Result<(), Broken> {
        self.taken.clear();
        Ok(())
    }

    async fn stop(&mut self) {
        self.taken.clear();
        self.note(Call::Stop);
    }

    fn destination(&mut self, _topic: &str) -> Option<&Destination> {
        Some(&self.destination)
    }

    fn enqueue(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken> {
        let value = record.value.clone().unwrap_or_default().into_owned();
        self.note(Call::Record(String::from_utf8(value).unwrap()));
        self.taken.push(ticket);
        Ok(())
    }

    fn boundary(&mut self, commit_end: Lsn) {
        self.note(Call::Boundary(commit_end));
    }

    async fn receive(&mut self, reports: &mut Vec<Report>) {
        if self.taken.is_empty() {
            std::future::pending::<()>().await;
        }
        reports.extend(self.taken.drain(..).map(|ticket| Report::Settled(ticket, Outcome::Ok)));
    }
}

#[test]
fn a_sink_of_the_programs_own_sees_records_and_where_transactions_end() {
    let fixture = Fixture::new(BINARY, "own_sink");
    let url = fixture.postgres().url(fixture.database());
    let toml = format!(
        "[postgres]\nurl = '{url}'\nslot = '{}'\n[undelivered]\norder = 'halt'\n[http]\nlisten = 'off'\n",
        fixture.slot()
    );
    let config = Config::from_toml(&toml, Needs::Postgres).unwrap();
    let calls = Calls::default();
    let (stop, shutdown) = Shutdown::channel();
    let recording = Arc::clone(&calls);
    let relay = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let factory = move |_: SinkOptions| Ok(Recorder::new(&recording));
        runtime.block_on(Relay::builder(config).sink(factory).run(shutdown))
    });
    let mut client = fixture.client();
    let insert = "INSERT INTO outbox (topic, payload) VALUES ('t', '1'), ('t', '2')";
    client.batch_execute(insert).unwrap();
    client.batch_execute("INSERT INTO outbox (topic, payload) VALUES ('t', '3')").unwrap();
    wait_until("the position to pass the events", SOON, || {
        calls.lock().unwrap().iter().filter(|call| matches!(call, Call::Record(_))).count() == 3
    });
    wait_confirmed(&fixture);
    stop.drain();
    relay.join().unwrap().unwrap();

    let calls = calls.lock().unwrap().clone();
    let is_about_events = |call: &&Call| !matches!(call, Call::Boundary(_));
    let record = |value: &str| Call::Record(value.to_owned());
    let without_boundaries: Vec<Call> = calls.iter().filter(is_about_events).cloned().collect();
    assert_eq!(without_boundaries[..3], [record("1"), record("2"), record("3")]);
    assert!(without_boundaries[3..].iter().all(|call| *call == Call::Stop), "{calls:?}");
    assert!(without_boundaries.len() > 3, "the sink was not stopped: {calls:?}");
    let at = |call: &Call| calls.iter().position(|other| other == call).unwrap();
    let ends: Vec<(usize, Lsn)> = calls
        .iter()
        .enumerate()
        .filter_map(|(at, call)| match call {
            Call::Boundary(end) => Some((at, *end)),
            _ => None,
        })
        .collect();
    let between = |from: usize, to: usize| ends.iter().any(|(at, _)| (from..to).contains(at));
    assert!(!between(at(&record("1")), at(&record("2"))), "{calls:?}");
    assert!(between(at(&record("2")), at(&record("3"))), "{calls:?}");
    assert!(between(at(&record("3")), at(&Call::Stop)), "{calls:?}");
    assert!(ends.windows(2).all(|two| two[0].1 < two[1].1), "{calls:?}");
}
