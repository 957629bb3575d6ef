//! The rehearsal of a takeover: postrider continues where Debezium Server was stopped, on the same slot and
//! publication, and the way back. Writers never pause.

mod rehearsal;
mod writers;

use std::collections::HashSet;

use testkit::check::{Check, Expected, Verdict};
use testkit::consumer::Received;
use testkit::debezium::record::event_id;

use self::rehearsal::{Rehearsal, Stage};
use self::writers::{Writers, Written};
use crate::servers::Servers;

const TOPIC: &str = "outbox.event.takeover";

/// Returns whether nothing was lost, and the order was kept.
pub(crate) fn rehearse(servers: &Servers) -> bool {
    println!("\nTakeover of a slot and its publication, while writers never pause");
    let mut rehearsal = Rehearsal::begin(servers);
    let writers = Writers::default();
    let (postgres, database) = (servers.postgres(), rehearsal.database().to_owned());
    let (written, records) = std::thread::scope(|scope| {
        // Also if something fails: otherwise they would never end.
        let until_end = StopsAtEnd(&writers);
        let writing = scope.spawn(|| writers.write(|| postgres.client(&database)));
        rehearsal.play();
        drop(until_end);
        let written = writing.join().expect("the writers failed");
        let records = rehearsal.finish(written.len());
        (written, records)
    });
    print(rehearsal.stages(), &records);
    let verdict = verdict(&written, &records);
    println!("{verdict}");
    let Verdict { lost, unexpected, misplaced, out_of_order, split, .. } = &verdict;
    let faults = [lost, unexpected, misplaced, out_of_order, split];
    faults.iter().all(|fault| fault.count == 0)
}

struct StopsAtEnd<'a>(&'a Writers);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn verdict(written: &[Written], records: &[Received]) -> Verdict {
    let mut expected = Expected::default();
    for event in written {
        expected.push(TOPIC, &event.key, &event.id);
    }
    let mut check = Check::new(expected);
    for record in records {
        let key = record.key_text().unwrap_or_default();
        check.see(&record.topic, record.partition, key, &event_id(record));
    }
    check.verdict()
}

/// What each publisher has published, and how much of that another one had published already.
fn print(stages: &[Stage], records: &[Received]) {
    let mut counts = vec![(0, 0); stages.len()];
    let mut seen = HashSet::new();
    for record in records {
        let partition = usize::try_from(record.partition).unwrap();
        let stage = stages.iter().position(|stage| record.offset < stage.ends[partition]);
        let (events, again) = &mut counts[stage.expect("the last stage ends at the end")];
        *events += 1;
        *again += usize::from(!seen.insert(event_id(record)));
    }
    println!("  {:45}  events  again  first event after", "publisher");
    for (stage, (events, again)) in stages.iter().zip(counts) {
        let Stage { name, gap, .. } = stage;
        println!("  {name:45}  {events:6}  {again:5}  {:.1} s", gap.as_secs_f64());
    }
}
