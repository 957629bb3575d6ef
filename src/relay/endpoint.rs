//! One HTTP endpoint for several relays of a process.

use std::net::SocketAddr;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::ops::{HttpError, HttpServer, NameError, Overview, Vitals};
use crate::session_end::Fatal;

/// An HTTP endpoint that several relays of one process share: probes, status, metrics, and a page
/// for people. A single relay does not need one, because it serves its own as `http.listen` says.
///
/// | path | answer |
/// |---|---|
/// | `/livez` | 200 while the process runs |
/// | `/readyz` | 200 if all relays are ready; else 503, and a line `NAME: why not` for each other |
/// | `/status` | JSON: `{"relays": {"orders": {…}, "invoices": {…}}}` |
/// | `/metrics` | those of all relays, with the label `relay`; those of the process once, without |
/// | `/` | a page for people |
///
/// A relay that has ended stays visible, with the reason and what to do about it, and `/readyz`
/// answers 503 until another relay of that name reports here. The endpoint serves until its last
/// clone is dropped and the last relay that reports to it has ended.
///
/// # Several relays in one process
///
/// The future of a relay is not `Send`, so each one stays on the thread that polls it. Run them on
/// one current-thread runtime:
///
/// ```no_run
/// use postrider::Config;
/// use postrider::relay::{Endpoint, Fatal, Relay};
/// use postrider::shutdown::Shutdown;
/// use postrider::sink::kafka::Kafka;
///
/// async fn publish(orders: Config, invoices: Config, shutdown: Shutdown) -> Result<(), Fatal> {
///     let endpoint = Endpoint::start(([127, 0, 0, 1], 7678).into())?;
///     let kafka = Kafka::new(&orders.kafka);
///     let orders = Relay::builder(orders).sink(kafka).report_to(&endpoint, "orders")?;
///     let kafka = Kafka::new(&invoices.kafka);
///     let invoices = Relay::builder(invoices).sink(kafka).report_to(&endpoint, "invoices")?;
///     let (orders, invoices) =
///         tokio::join!(orders.run(shutdown.clone()), invoices.run(shutdown));
///     orders.and(invoices)
/// }
/// ```
///
/// While a relay works through a backlog it blocks its thread for up to 5 ms at a time, and the
/// others on that thread wait. For full speed, give each relay a thread and a runtime:
///
/// ```no_run
/// # use postrider::relay::{Fatal, RelayBuilder};
/// # use postrider::shutdown::Shutdown;
/// # use postrider::sink::kafka::Kafka;
/// # fn publish(orders: RelayBuilder<Kafka>, shutdown: Shutdown) -> std::io::Result<()> {
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let orders = std::thread::spawn(move || runtime.block_on(orders.run(shutdown)));
/// # drop(orders);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Endpoint(Arc<Serving>);

struct Serving {
    server: HttpServer,
    overview: Arc<Overview>,
}

impl Endpoint {
    /// Listens at this address. Until a relay reports here, `/readyz` answers 503.
    ///
    /// # Errors
    /// The address can't be listened on.
    pub fn start(address: SocketAddr) -> Result<Self, Fatal> {
        let overview = Arc::new(Overview::new());
        let server = HttpServer::start(address, Arc::clone(&overview));
        let server =
            server.map_err(|error| refused(&error, "start the endpoint at a free address"))?;
        Ok(Endpoint(Arc::new(Serving { server, overview })))
    }

    /// The address it listens at, with the port that the system chose if the given one was 0.
    pub fn address(&self) -> SocketAddr {
        self.0.server.address()
    }

    pub(super) fn add(
        &self,
        name: &str,
        vitals: &Arc<Vitals>,
        registry: Registry,
    ) -> Result<Registration, Fatal> {
        let fatal = |error: NameError| Fatal::new(error.to_string(), error.fix());
        self.0.overview.add(name, Arc::clone(vitals), registry).map_err(fatal)?;
        let (endpoint, vitals) = (self.clone(), Arc::clone(vitals));
        Ok(Registration { endpoint, vitals, has_begun: false })
    }
}

/// The address can't be listened on.
pub(super) fn refused(error: &HttpError, fix: &str) -> Fatal {
    Fatal::new(format!("{error}: {}", error.source), fix)
}

/// A relay's place at an endpoint. Once the relay has begun it stays there, so that people see why
/// it ended.
pub(super) struct Registration {
    endpoint: Endpoint,
    vitals: Arc<Vitals>,
    has_begun: bool,
}

impl Registration {
    pub(super) fn begin(&mut self) {
        self.has_begun = true;
    }

    pub(super) fn end(&self, result: &Result<(), Fatal>) {
        match result {
            Ok(()) => self.vitals.stopped("it was asked to stop"),
            Err(fatal) => {
                self.vitals.failed(&fatal.to_string(), fatal.fix());
                // The program might see the result only when all of its relays have ended.
                tracing::error!(reason = %fatal, fix = fatal.fix(), "the relay has ended");
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.has_begun {
            self.endpoint.0.overview.remove(&self.vitals);
        } else if !self.vitals.state().has_ended() {
            self.vitals.stopped("the program dropped its future");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use futures_util::FutureExt;

    use super::super::{Relay, RelayBuilder};
    use super::*;
    use crate::config::{Config, Needs};
    use crate::shutdown::Shutdown;
    use crate::sink::kafka::Kafka;

    fn endpoint() -> Endpoint {
        Endpoint::start(([127, 0, 0, 1], 0).into()).unwrap()
    }

    fn config() -> Config {
        let toml =
            "[postgres]\nurl = 'postgres://me@127.0.0.1:1/none'\n[kafka]\nbrokers = '127.0.0.1:1'";
        Config::from_toml(toml, Needs::PostgresAndKafka).unwrap()
    }

    fn relay() -> RelayBuilder<Kafka> {
        let config = config();
        let kafka = Kafka::new(&config.kafka);
        Relay::builder(config).sink(kafka)
    }

    fn readyz(endpoint: &Endpoint) -> String {
        let mut stream = TcpStream::connect(endpoint.address()).unwrap();
        stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    #[test]
    fn builders_and_endpoints_may_change_their_thread() {
        fn is_send<T: Send>(_: &T) {}
        let endpoint = endpoint();
        is_send(&endpoint);
        is_send(&relay().report_to(&endpoint, "orders").unwrap());
    }

    #[test]
    fn a_relay_that_never_runs_leaves_no_trace() {
        let endpoint = endpoint();
        let orders = relay().report_to(&endpoint, "orders").unwrap();
        assert_eq!(readyz(&endpoint), "orders: connecting\n");
        let refused = relay().report_to(&endpoint, "orders").err().unwrap();
        assert!(refused.to_string().contains("\"orders\""), "{refused}");
        assert!(refused.fix().contains("a name of its own"), "{}", refused.fix());
        drop(orders);
        assert_eq!(readyz(&endpoint), "no relay reports to this endpoint\n");
        assert!(relay().report_to(&endpoint, "").is_err());
        assert!(relay().report_to(&endpoint, "orders").is_ok());
    }

    #[tokio::test]
    async fn a_relay_that_ended_is_shown_until_its_name_is_used_again() {
        let endpoint = endpoint();
        let (stop, shutdown) = Shutdown::channel();
        stop.drain();
        let orders = relay().report_to(&endpoint, "orders").unwrap();
        orders.run(shutdown).await.unwrap();
        assert_eq!(readyz(&endpoint), "orders: stopped: it was asked to stop\n");
        let (_stop, shutdown) = Shutdown::channel();
        let orders = relay().report_to(&endpoint, "orders").unwrap().run(shutdown);
        assert!(orders.now_or_never().is_none(), "there is no server");
        assert_eq!(readyz(&endpoint), "orders: stopped: the program dropped its future\n");
    }

    #[test]
    fn an_address_in_use_is_refused() {
        let endpoint = endpoint();
        let refused = Endpoint::start(endpoint.address()).err().unwrap();
        assert!(refused.to_string().starts_with("can't listen on 127.0.0.1:"), "{refused}");
        assert_eq!(refused.fix(), "start the endpoint at a free address");
    }
}
