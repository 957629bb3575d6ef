//! Debezium at work on a database: a connector of the worker that all cases share, or a Debezium Server.

use std::time::Duration;

use testkit::debezium::Profile;
use testkit::debezium::configuration::{Configuration, Source};
use testkit::debezium::connect::{ConnectWorker, State};
use testkit::debezium::server::DebeziumServer;

const STOP_WITHIN: Duration = Duration::from_secs(60);

pub(crate) enum Debezium<'a> {
    Connector { worker: &'a ConnectWorker, name: String },
    Server(DebeziumServer),
}

impl<'a> Debezium<'a> {
    /// Starts reading with the slot, which it creates.
    pub(crate) fn start(
        configuration: &Configuration,
        source: &Source<'_>,
        worker: Option<&'a ConnectWorker>,
        brokers: &str,
    ) -> Debezium<'a> {
        match configuration.profile() {
            Profile::Connect => {
                let worker = worker.expect("a case of Kafka Connect without a worker");
                let name = source.slot.to_owned();
                worker.create(&name, &configuration.for_connect(source));
                Debezium::Connector { worker, name }
            }
            Profile::Server => {
                let mut server = DebeziumServer::new(&configuration.for_server(source, brokers));
                server.start();
                Debezium::Server(server)
            }
        }
    }

    /// The class of the exception that has ended it, if one has.
    pub(crate) fn failure(&mut self) -> Option<String> {
        match self {
            Debezium::Connector { worker, name } => match worker.state(name) {
                State::Failed(class) => Some(class),
                State::Starting | State::Running => None,
            },
            Debezium::Server(server) => server.failure(),
        }
    }

    /// Ends it; it has then published what it has read.
    pub(crate) fn end(self) {
        match self {
            Debezium::Connector { worker, name } => worker.delete(&name),
            Debezium::Server(mut server) => {
                if server.is_running() {
                    server.stop(STOP_WITHIN);
                }
            }
        }
    }
}
