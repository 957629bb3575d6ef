//! All faults in random order.

use std::time::Duration;

use super::{BrokerGuard, take_broker};
use crate::harness::load::Pace;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, Rig, SOON};
use testkit::postgres::{PostgresOptions, PostgresServer, StopMode};
use testkit::proxy::Proxy;
use testkit::wait::wait_until;

const FAULTS: usize = 10;

#[derive(Clone, Copy, Debug)]
enum Fault {
    RelayKilled,
    RelayStopped,
    PostgresLinkCut(u64),
    KafkaLinkCut(u64),
    BothLinksCut,
    PostgresStopped,
    PostgresKilled,
    KafkaKilled,
}

impl Fault {
    fn random() -> Fault {
        let bytes = rand::random_range(0..20_000);
        let faults = [
            Fault::RelayKilled,
            Fault::RelayStopped,
            Fault::PostgresLinkCut(bytes),
            Fault::KafkaLinkCut(bytes / 20),
            Fault::BothLinksCut,
            Fault::PostgresStopped,
            Fault::PostgresKilled,
            Fault::KafkaKilled,
        ];
        faults[rand::random_range(0..faults.len())]
    }
}

struct Servers {
    broker: BrokerGuard,
    postgres: PostgresServer,
    postgres_link: Proxy,
}

impl Servers {
    /// Causes the fault, and returns how many events it may repeat.
    #[track_caller]
    fn inject(&mut self, fault: Fault, rig: &mut Rig) -> usize {
        match fault {
            Fault::RelayKilled => {
                rig.fixture.relay().kill9();
                rig.fixture.start_relay();
            }
            Fault::RelayStopped => {
                let relay = rig.fixture.relay();
                // A relay that has just started does not handle signals yet, and is killed by them.
                wait_until("the relay to be up", SOON, || relay.http_get("/livez").is_ok());
                relay.terminate();
                let status = relay.wait_exit(SOON);
                assert_eq!(status.code(), Some(0), "{}", relay.log_tail(20));
                rig.fixture.start_relay();
            }
            Fault::PostgresLinkCut(bytes) => self.postgres_link.cut_after_bytes(bytes),
            Fault::KafkaLinkCut(bytes) => self.broker.proxy().cut_after_bytes(bytes),
            Fault::BothLinksCut => {
                self.broker.proxy().cut();
                self.postgres_link.cut();
            }
            Fault::PostgresStopped => {
                self.postgres.stop(StopMode::Fast, Duration::from_secs(10));
                self.postgres.start_again();
            }
            Fault::PostgresKilled => {
                self.postgres.kill9();
                self.postgres.start_again();
            }
            Fault::KafkaKilled => {
                self.broker.kafka().kill9();
                self.broker.kafka().start_again();
            }
        }
        match fault {
            // The server may never have written the slot's position to its disk so far.
            Fault::PostgresStopped | Fault::PostgresKilled => {
                rig.load.committed() + REPEATED_BY_RESTART_MAX
            }
            _ => REPEATED_BY_RESTART_MAX,
        }
    }
}

#[test]
fn all_faults_happen_in_random_order() {
    let broker = take_broker();
    let postgres = PostgresServer::start(PostgresOptions::default());
    let postgres_link = Proxy::to(postgres.port());
    let prepared = broker.prepare("chaos", &postgres.address());
    let prepared = prepared.postgres_via(postgres_link.port());
    let mut servers = Servers { broker, postgres, postgres_link };
    let mut rig = prepared.start(Pace::Hard);
    let mut repeated_max = 0;
    for _ in 0..FAULTS {
        let fault = Fault::random();
        // Printed if the test fails: which faults there were.
        println!("{fault:?}");
        repeated_max += servers.inject(fault, &mut rig);
        rig.load.wait_for_more(rand::random_range(100..6_000));
    }
    rig.judge(repeated_max);
}
