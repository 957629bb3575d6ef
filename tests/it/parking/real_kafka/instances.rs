//! Two instances that both process parked events.

use std::time::Duration;

use super::super::{BINARY, QUIET, SOON, statuses, wait_statuses, with_fast_poller, write_keyed};
use crate::harness::instances::start_second;
use crate::harness::metrics::metric_sum;
use crate::harness::slot::wait_confirmed;
use testkit::check::Expected;
use testkit::fixture::Fixture;
use testkit::relay::Relay;
use testkit::wait::{wait_for, wait_until};

/// A lease, a hanging transaction, and a busy machine.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(25);

/// Makes every session that marks an event as delivered take a lock first.
const HOLD_ACKNOWLEDGEMENTS: &str = "
    CREATE TABLE public.acknowledgements ();
    CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        LOCK public.acknowledgements IN ACCESS SHARE MODE;
        RETURN NEW;
    END $$;
    CREATE TRIGGER hold BEFORE UPDATE ON postrider.undelivered FOR EACH ROW
        WHEN (NEW.status = 'delivered') EXECUTE FUNCTION public.hold();";

/// Parks events of some keys for a missing topic, and returns the events to expect.
#[track_caller]
fn park(fixture: &mut Fixture, events: i64, keys: i64) -> (String, Expected) {
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let mut expected = Expected::default();
    for (key, id) in write_keyed(fixture, &missing, events, keys) {
        expected.push(&missing, &key, id);
    }
    wait_confirmed(fixture);
    wait_statuses(fixture, &[("pending", events)]);
    (missing, expected)
}

#[test]
fn two_pollers_deliver_each_event_once_and_in_order() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "two_pollers"));
    fixture.set("POSTRIDER_UNDELIVERED_BATCH", "10");
    let (_, expected) = park(&mut fixture, 3_000, 200);
    let second = start_second(&fixture);
    fixture.create_topic("missing", 3, &[]);
    wait_statuses(&fixture, &[("delivered", 3_000)]);
    let records = fixture.consumer().read_n(3_000, SOON);
    expected.verdict(&records).assert_exact();
    let name = "outbox_published_total";
    let counts = [metric_sum(fixture.relay(), name), metric_sum(&second, name)];
    assert!(counts.iter().all(|count| *count > 0.0), "one did all the work: {counts:?}");
    assert!((counts[0] + counts[1] - 3_000.0).abs() < 0.5, "{counts:?}");
}

/// A fixture with the shortest possible leases.
#[track_caller]
fn short_leases(name: &str) -> Fixture {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, name));
    fixture.set("POSTRIDER_UNDELIVERED_LEASE", "3s");
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "500ms");
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "1000");
    fixture
}

#[test]
fn an_instance_frozen_before_its_acknowledgement_loses_its_leases() {
    let mut fixture = short_leases("frozen_sent");
    fixture.set("POSTRIDER_UNDELIVERED_BATCH", "10");
    let (missing, expected) = park(&mut fixture, 60, 5);
    // No session can acknowledge while another has the lock; refusals are still stored.
    let mut client = fixture.client();
    client.batch_execute(HOLD_ACKNOWLEDGEMENTS).unwrap();
    let mut lock = client.transaction().unwrap();
    lock.execute("LOCK public.acknowledgements", &[]).unwrap();
    fixture.create_topic("missing", 3, &[]);
    let consumer = testkit::consumer::Consumer::new(fixture.broker(), &[&missing]);
    let mut records = consumer.read_n(1, SOON);
    let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted
        AND relation = 'public.acknowledgements'::regclass";
    let mut watcher = fixture.client();
    wait_until("the poller to wait for the lock", SOON, || {
        watcher.query_one(sql, &[]).unwrap().get::<_, i64>(0) >= 1
    });
    fixture.relay().pause();
    let end = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'postrider undelivered'";
    watcher.query_one(end, &[]).unwrap();
    lock.rollback().unwrap();

    let second = start_second(&fixture);
    wait_statuses(&fixture, &[("delivered", 60)]);
    let log = second.log();
    assert!(log.contains("did not report back within its lease"), "{log}");
    fixture.relay().resume();
    let relay = fixture.relay();
    wait_until("the late acknowledgement to be refused", SOON, || {
        relay.log().contains("delivered after their lease had passed to another instance")
    });
    records.extend(consumer.drain_quiet(QUIET));
    // The first batch, which is repeated.
    expected.verdict(&records).assert_at_least_once(Some(10));
    wait_statuses(&fixture, &[("delivered", 60)]);
}

/// How many events this instance has claimed.
#[track_caller]
fn taken(fixture: &Fixture, pid: u32) -> i64 {
    let sql = "SELECT count(*) FROM postrider.undelivered
        WHERE status = 'processing' AND locked_by LIKE '%:' || $1 || ':%'";
    fixture.client().query_one(sql, &[&pid.to_string()]).unwrap().get(0)
}

/// Freezes the instance while it has claimed events, maybe within a transaction; false if none are
/// left.
#[track_caller]
fn freeze(fixture: &Fixture, instance: &Relay) -> bool {
    let pid = instance.pid().unwrap();
    wait_for("an instance with leases", SOON, || {
        let delivered = statuses(fixture).into_keys().eq(["delivered"]);
        instance.pause();
        if taken(fixture, pid) > 0 {
            return Some(true);
        }
        instance.resume();
        delivered.then_some(false)
    })
}

#[test]
fn an_instance_can_be_frozen_at_any_moment() {
    let mut fixture = short_leases("frozen");
    fixture.set("POSTRIDER_UNDELIVERED_BATCH", "50");
    let (_, expected) = park(&mut fixture, 3_000, 100);
    let second = start_second(&fixture);
    fixture.create_topic("missing", 3, &[]);
    let first = fixture.take_relay();
    let mut frozen = 0;
    for instance in [&first, &second, &first] {
        if !freeze(&fixture, instance) {
            break;
        }
        frozen += 1;
        let pid = instance.pid().unwrap();
        wait_until("its leases to pass to the other", TAKEN_OVER_WITHIN, || {
            taken(&fixture, pid) == 0
        });
        instance.resume();
    }
    assert!(frozen > 0, "no instance was frozen");
    wait_statuses(&fixture, &[("delivered", 3_000)]);
    let records = fixture.consumer().drain_quiet(QUIET);
    expected.verdict(&records).assert_at_least_once(Some(frozen * 50));
}
