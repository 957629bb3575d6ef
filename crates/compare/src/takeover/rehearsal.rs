//! Who publishes, one after the other.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use testkit::consumer::{Consumer, Received};
use testkit::debezium::PARTITIONS;
use testkit::debezium::record::event_id;
use testkit::debezium::server::DebeziumServer;
use testkit::wait::{poll_for, wait_until};

use super::TOPIC;
use crate::servers::Servers;
use crate::site::Site;
use crate::slot::{restart_lsn, streams};

/// How often Debezium stores its offsets, and confirms them to the slot. Its default is a minute.
const OFFSETS_EVERY_MS: &str = "1000";
/// How many events each publisher has to publish, at least.
const EVENTS_EACH: i64 = 2_000;
const SOON: Duration = Duration::from_secs(60);

pub(super) struct Rehearsal {
    site: Site,
    debezium: DebeziumServer,
    properties: BTreeMap<String, String>,
    consumer: Consumer,
    stages: Vec<Stage>,
    /// When the publisher before was stopped.
    last_end: Instant,
    /// From then to the first event of the present one.
    gap: Duration,
}

/// The time of one publisher.
pub(super) struct Stage {
    pub(super) name: &'static str,
    /// From the end of the publisher before to the first event.
    pub(super) gap: Duration,
    /// Where the partitions ended when it had ended.
    pub(super) ends: Vec<i64>,
}

#[derive(Clone, Copy)]
enum Publisher {
    Debezium,
    Postrider,
}

#[derive(Clone, Copy)]
enum End {
    Clean,
    Kill,
}

impl Rehearsal {
    /// Returns when Debezium Server streams.
    pub(super) fn begin(servers: &Servers) -> Rehearsal {
        let site = Site::new(servers, "takeover");
        servers.broker().create_topic(TOPIC, PARTITIONS, &[]);
        let mut properties = site.server_properties(site.fixture.slot());
        let interval = "debezium.source.offset.flush.interval.ms".to_owned();
        properties.insert(interval, OFFSETS_EVERY_MS.to_owned());
        let mut debezium = DebeziumServer::new(&properties);
        debezium.start();
        let mut client = site.fixture.client();
        let slot = site.fixture.slot();
        wait_until("Debezium Server to stream", SOON, || streams(&mut client, slot));
        let consumer = Consumer::new(&servers.broker(), &[TOPIC]);
        Rehearsal {
            site,
            debezium,
            properties,
            consumer,
            stages: Vec::new(),
            last_end: Instant::now(),
            gap: Duration::ZERO,
        }
    }

    pub(super) fn database(&self) -> &str {
        self.site.fixture.database()
    }

    pub(super) fn stages(&self) -> &[Stage] {
        &self.stages
    }

    pub(super) fn play(&mut self) {
        use End::{Clean, Kill};
        use Publisher::{Debezium, Postrider};

        let before = self.restart_lsn();
        self.stage("Debezium Server", Debezium, Clean, Rehearsal::migrate);
        self.site.fixture.start_relay();
        let name = "postrider, after a clean stop";
        self.stage(name, Postrider, Clean, |it| it.move_restart_lsn(before));

        self.start_debezium_with_old_offsets();
        self.trust_slot();
        self.debezium.start();
        let name = "Debezium Server, with trust_slot";
        self.stage(name, Debezium, Kill, |_| ());
        self.forget_progress();
        self.site.fixture.start_relay();
        self.stage("postrider, after kill -9", Postrider, Kill, |_| ());

        self.debezium.remove_offsets();
        self.debezium.start();
        let name = "Debezium Server, without its offsets";
        self.stage(name, Debezium, Clean, |_| ());
        self.forget_progress();
        self.site.fixture.start_relay();
        self.wait_for_events(Postrider);
    }

    /// Waits until a publisher has published enough, and ends it.
    fn stage(
        &mut self,
        name: &'static str,
        publisher: Publisher,
        end: End,
        at_last: impl FnOnce(&mut Rehearsal),
    ) {
        self.wait_for_events(publisher);
        at_last(self);
        self.last_end = Instant::now();
        match (publisher, end) {
            (Publisher::Debezium, End::Clean) => drop(self.debezium.stop(SOON)),
            (Publisher::Debezium, End::Kill) => self.debezium.kill9(),
            (Publisher::Postrider, End::Clean) => self.stop_postrider(),
            (Publisher::Postrider, End::Kill) => self.site.fixture.relay().kill9(),
        }
        self.end_stage(name);
    }

    fn end_stage(&mut self, name: &'static str) {
        let ends = self.consumer.end_offsets(TOPIC);
        self.stages.push(Stage { name, gap: self.gap, ends });
    }

    fn stop_postrider(&mut self) {
        self.site.fixture.relay().terminate();
        let status = self.site.fixture.relay().wait_exit(SOON);
        assert!(status.success(), "{status}: {}", self.site.fixture.relay().log_tail(20));
    }

    fn wait_for_events(&mut self, publisher: Publisher) {
        let before = self.published();
        let mut gap = None;
        wait_until("events of a publisher", SOON, || {
            self.assert_runs(publisher);
            let published = self.published() - before;
            if published > 0 {
                gap.get_or_insert_with(|| self.last_end.elapsed());
            }
            published >= EVENTS_EACH
        });
        self.gap = gap.expect("events were published");
    }

    fn assert_runs(&mut self, publisher: Publisher) {
        let (is_running, log) = match publisher {
            Publisher::Debezium => (self.debezium.is_running(), self.debezium.errors()),
            Publisher::Postrider => {
                let relay = self.site.fixture.relay();
                (relay.is_running(), relay.log_tail(20))
            }
        };
        assert!(is_running, "a publisher has ended:\n{log}");
    }

    fn published(&self) -> i64 {
        self.consumer.end_offsets(TOPIC).iter().sum()
    }

    fn restart_lsn(&self) -> u64 {
        restart_lsn(&mut self.site.fixture.client(), self.site.fixture.slot())
    }

    /// Beside the running Debezium, as it is recommended.
    fn migrate(&mut self) {
        self.site.fixture.migrate();
    }

    /// On a busy server the slot moves by itself.
    fn move_restart_lsn(&mut self, past: u64) {
        let mut client = self.site.fixture.client();
        wait_until("the slot to move", SOON, || {
            client.batch_execute("CHECKPOINT").expect("cannot write a checkpoint");
            self.restart_lsn() > past
        });
    }

    /// A slot that is not where postrider left it may lack events, so it does not continue by itself.
    /// Here it is known who has published them.
    fn forget_progress(&mut self) {
        let sql = "DELETE FROM postrider.progress WHERE slot = $1";
        self.site
            .fixture
            .client()
            .execute(sql, &[&self.site.fixture.slot()])
            .expect("no such table");
        self.site.fixture.migrate();
    }

    /// The slot no longer has what comes after them, and nothing says that it was published.
    fn start_debezium_with_old_offsets(&mut self) {
        self.debezium.start();
        let before = self.published();
        wait_until("Debezium Server to publish or to end", SOON, || {
            !self.debezium.is_running() || self.published() > before
        });
        let failure = self.debezium.failure();
        assert!(failure.is_some(), "Debezium Server takes offsets from before the slot");
        println!("  Debezium Server does not start with its old offsets: {}", failure.unwrap());
    }

    fn trust_slot(&mut self) {
        let option = "debezium.source.offset.mismatch.strategy".to_owned();
        self.properties.insert(option, "trust_slot".to_owned());
        self.debezium.configure(&self.properties);
    }

    /// Ends the last publisher when all events have arrived, and returns all records.
    pub(super) fn finish(&mut self, written: usize) -> Vec<Received> {
        let mut records = Vec::new();
        let mut seen = HashSet::new();
        // If some do not arrive, the verdict names them.
        poll_for(SOON, || {
            let more = self.consumer.drain_quiet(Duration::from_millis(100));
            seen.extend(more.iter().map(event_id));
            records.extend(more);
            (seen.len() >= written).then_some(())
        });
        self.stop_postrider();
        let left = usize::try_from(self.published()).unwrap() - records.len();
        if left > 0 {
            records.extend(self.consumer.read_n(left, SOON));
        }
        self.end_stage("postrider, until the end");
        records
    }
}
