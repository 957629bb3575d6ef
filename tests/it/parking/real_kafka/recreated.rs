//! A topic that is deleted and recreated under load.

use std::collections::HashSet;

use super::super::load::{Load, Topics};
use super::super::model::Model;
use super::super::{BINARY, SOON, with_fast_poller};
use crate::harness::rig::print_line;
use crate::harness::slot::wait_confirmed;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

#[test]
fn a_topic_is_deleted_and_recreated_under_load() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "recreated"));
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "10000");
    let topics = Topics {
        limited: fixture.create_topic("limited", 3, &[super::super::load::LIMIT]),
        missing: fixture.create_topic("missing", 3, &[]),
    };
    fixture.start_relay().wait_ready(SOON);
    let load = Load::start(&fixture, &topics);
    let mut before = HashSet::new();
    // Once long enough for every client to notice, and once as quickly as possible.
    for gone_for in [800, 0] {
        load.wait_for_more(800);
        let broker = fixture.broker();
        broker.delete_topics(&[&topics.missing]);
        wait_until("the topic to be gone", SOON, || {
            broker.partition_count(&topics.missing).is_none()
        });
        let sql = "SELECT id::text FROM public.outbox WHERE topic = $1";
        for row in fixture.client().query(sql, &[&topics.missing]).unwrap() {
            before.insert(row.get::<_, String>(0));
        }
        load.wait_for_more(gone_for);
        fixture.broker().create_topic(&topics.missing, 3, &[]);
        load.wait_for_more(800);
    }
    let written = load.finish(&fixture);
    wait_confirmed(&fixture);
    let mut model = Model::by_key(&written);
    model.wait_side_table(&mut fixture);
    fixture.relay().wait_ready(SOON);
    // Events written before the topic was deleted may be lost with it.
    model.forget(&written, |event| before.contains(&event.id));
    let verdict = model.read(&fixture, &[&topics.limited, &topics.missing]);
    print_line(&format!("recreated: {verdict}"));
    let faults = [&verdict.lost, &verdict.misplaced, &verdict.out_of_order, &verdict.split];
    assert!(faults.iter().all(|fault| fault.count == 0), "the promise is broken: {verdict}");
}
