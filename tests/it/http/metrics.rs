//! `/metrics`: the names that dashboards rely on.

use super::{BINARY, SOON, write_events};
use testkit::fixture::Fixture;
use testkit::relay::Relay;
use testkit::wait::wait_for;

/// One answer of `/metrics`.
struct Metrics(String);

impl Metrics {
    fn of(relay: &Relay) -> Metrics {
        let (code, body) = relay.http_get("/metrics").unwrap();
        assert_eq!(code, 200);
        assert!(body.ends_with("# EOF\n"), "cut short:\n{body}");
        Metrics(body)
    }

    /// The value of a series; its labels are written as in the answer, in any order.
    fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}=\"{v}\"")).collect();
        self.0.lines().find_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (found, rest) = series.split_once('{').unwrap_or((series, ""));
            let given: Vec<&str> =
                rest.trim_end_matches('}').split(',').filter(|label| !label.is_empty()).collect();
            let same = found == name
                && given.len() == labels.len()
                && labels.iter().all(|label| given.contains(&label.as_str()));
            same.then(|| value.parse().unwrap())
        })
    }

    #[track_caller]
    fn expect(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.get(name, labels).unwrap_or_else(|| panic!("no {name} with {labels:?} in\n{}", self.0))
    }
}

#[test]
fn every_metric_of_the_hot_path_is_exported_with_its_value() {
    let mut fixture = Fixture::new(BINARY, "metrics");
    let (first, second) =
        (fixture.create_topic("first", 2, &[]), fixture.create_topic("second", 1, &[]));
    fixture.start_relay().wait_ready(SOON);
    write_events(&fixture, &first, 7);
    write_events(&fixture, &second, 3);
    fixture.consumer().read_n(10, SOON);
    let relay = fixture.relay();
    let counted = |topic: &str, count: f64| {
        let (table, topic) = (("table", "public.outbox"), ("topic", topic));
        let success = [table, topic, ("result", "success")];
        let metrics = wait_for("the last acknowledgements to be counted", SOON, || {
            let metrics = Metrics::of(relay);
            let published = metrics.get("outbox_published_total", &[table, topic]);
            (published == Some(count)).then_some(metrics)
        });
        let latency = "outbox_dispatch_latency_seconds";
        assert_eq!(metrics.expect("outbox_dispatch_total", &success), count);
        assert_eq!(metrics.expect(&format!("{latency}_count"), &success), count);
        assert!(metrics.expect(&format!("{latency}_sum"), &success) > 0.0);
        let all = [table, topic, ("result", "success"), ("le", "+Inf")];
        assert_eq!(metrics.expect(&format!("{latency}_bucket"), &all), count);
    };
    counted(&first, 7.0);
    counted(&second, 3.0);
    let metrics = Metrics::of(relay);
    assert_eq!(metrics.expect("postrider_active", &[]), 1.0);
    assert!(metrics.expect("postrider_confirmed_lsn", &[]) > 0.0);
    for name in ["lag_seconds", "in_flight_events", "in_flight_bytes"] {
        let what = format!("postrider_{name} to come down to 0");
        wait_for(&what, SOON, || {
            let value = Metrics::of(relay).expect(&format!("postrider_{name}"), &[]);
            (value == 0.0).then_some(())
        });
    }
    for name in ["retained_bytes", "unconfirmed_bytes"] {
        assert!(metrics.expect(&format!("postrider_slot_{name}"), &[]) >= 0.0);
    }
    let progress = "postrider_last_progress_timestamp_seconds";
    assert!(metrics.expect(progress, &[]) > 1.7e9);
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(metrics.expect("postrider_build_info", &version), 1.0);
    assert_eq!(metrics.expect("outbox_fetch_errors_total", &[]), 0.0);
    // Counted in ticks of 10 ms; there may be none yet.
    assert!(metrics.expect("process_cpu_seconds_total", &[]) >= 0.0);
    for name in ["resident_memory_bytes", "open_fds", "threads"] {
        assert!(metrics.expect(&format!("process_{name}"), &[]) > 0.0);
    }
}

#[test]
fn changes_other_than_outbox_inserts_are_counted_by_kind() {
    let mut fixture = Fixture::new(BINARY, "ignored");
    let topic = fixture.create_topic("events", 1, &[]);
    // A publication created by somebody else: with more than inserts and more than our table.
    let sql = "DROP PUBLICATION postrider;
        CREATE TABLE other (id int PRIMARY KEY);
        CREATE PUBLICATION postrider FOR ALL TABLES";
    fixture.client().batch_execute(sql).unwrap();
    // The slot is created after it, as required.
    fixture.forget_slot();
    fixture.migrate();
    let sql = format!(
        "INSERT INTO outbox (topic, payload) VALUES ('{topic}', '1');
         UPDATE outbox SET tenant = 'x';
         INSERT INTO other VALUES (1), (2);
         DELETE FROM outbox;
         TRUNCATE outbox;
         INSERT INTO outbox (topic, payload) VALUES ('{topic}', '2')"
    );
    fixture.client().batch_execute(&sql).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let consumer = fixture.consumer();
    let records = consumer.read_n(2, SOON);
    let values: Vec<&str> = records.iter().filter_map(|it| it.value_text()).collect();
    assert_eq!(values, ["1", "2"]);
    let metrics = Metrics::of(fixture.relay());
    for (kind, count) in [("update", 1.0), ("delete", 1.0), ("truncate", 1.0), ("other_table", 2.0)]
    {
        let value = metrics.expect("postrider_ignored_messages_total", &[("kind", kind)]);
        assert_eq!(value, count, "{kind}");
    }
}

#[test]
fn a_busy_slot_counts_as_a_restart_with_its_reason_and_not_as_an_error() {
    let mut fixture = Fixture::new(BINARY, "busy");
    let mut second = Fixture::new(BINARY, "second");
    fixture.start_relay().wait_ready(SOON);
    second
        .set("POSTRIDER_SLOT", fixture.slot())
        .set("POSTRIDER_DATABASE_URL", &fixture.postgres().url(fixture.database()));
    let relay = second.start_relay();
    let metrics = wait_for("a restart to be counted", SOON, || {
        let (_, body) = relay.http_get("/metrics").ok()?;
        let metrics = Metrics(body);
        metrics.get("postrider_restarts_total", &[("reason", "slot_in_use")])?;
        Some(metrics)
    });
    assert_eq!(metrics.expect("postrider_active", &[]), 0.0);
    assert_eq!(metrics.expect("outbox_fetch_errors_total", &[]), 0.0);
    fixture.relay().kill9();
    relay.wait_ready(SOON);
}
