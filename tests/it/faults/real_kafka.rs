//! Faults of a broker, which need brokers of their own behind a proxy.
//!
//! All these tests share two such brokers and take turns: a broker is half a gigabyte and seconds
//! of work to start, and each test repairs what the previous one left.

mod broker;
mod broker_link;
mod chaos;
mod postgres_stop;
mod stop_without_broker;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::harness::rig::{Prepared, prepare_on};
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::postgres::PostgresAddress;
use testkit::proxy::Proxy;

struct FaultyBroker {
    kafka: KafkaServer,
    proxy: Proxy,
}

/// A broker, reserved for one test.
struct BrokerGuard(MutexGuard<'static, FaultyBroker>);

/// Waits for a free broker: as many tests run at a time as there are brokers.
fn take_broker() -> BrokerGuard {
    static BROKERS: [OnceLock<Mutex<FaultyBroker>>; 2] = [OnceLock::new(), OnceLock::new()];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % BROKERS.len();
    let faulty = BROKERS[number].get_or_init(|| {
        let (kafka, proxy) = KafkaServer::start_behind_proxy(KafkaOptions::default());
        Mutex::new(FaultyBroker { kafka, proxy })
    });
    // A failed test leaves it in any state: see `repair`.
    let mut broker = BrokerGuard(faulty.lock().unwrap_or_else(PoisonError::into_inner));
    broker.repair();
    broker
}

impl BrokerGuard {
    fn kafka(&mut self) -> &mut KafkaServer {
        &mut self.0.kafka
    }

    fn proxy(&self) -> &Proxy {
        &self.0.proxy
    }

    /// A relay that reaches the broker through the proxy; the test's consumer does not.
    #[track_caller]
    fn prepare(&self, name: &str, postgres: &PostgresAddress) -> Prepared {
        let kafka = &self.0.kafka;
        let prepared = prepare_on(name, postgres, &kafka.broker());
        prepared.brokers_via(&kafka.brokers_via_proxy())
    }

    /// Undoes whatever the previous test left.
    fn repair(&mut self) {
        self.0.proxy.pass();
        self.0.kafka.resume();
        if self.0.kafka.is_running() {
            self.0.kafka.wait_ready()
        } else {
            self.0.kafka.start_again()
        }
    }
}
