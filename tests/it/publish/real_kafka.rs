//! Every kind of writer at once: exactly the committed events are published, in commit order.

mod writer;

use std::time::Duration;

use self::writer::{Commit, SHARED_KEYS, WRITERS, Writer};
use super::{BINARY, SOON};
use crate::harness::checked_read::CheckedRead;
use testkit::check::Expected;
use testkit::fixture::Fixture;

const EVENTS: usize = 200_000;
const PARTITIONS: i32 = 6;

#[test]
fn eight_writers_of_every_kind_are_published_exactly() {
    let mut fixture = Fixture::new(BINARY, "writers");
    let topics =
        ["orders", "payments", "mails"].map(|it| fixture.create_topic(it, PARTITIONS, &[]));
    // The row lock of a shared key makes its commit order known: n counts in that order.
    fixture
        .client()
        .batch_execute(&format!(
            "create table shared_key (k int primary key, n bigint not null);
             insert into shared_key select k, 0 from generate_series(0, {SHARED_KEYS} - 1) k"
        ))
        .unwrap();
    fixture.start_relay().wait_ready(SOON);

    let commits = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let writer = Writer::new(&fixture, number, &topics);
                scope.spawn(move || writer.run())
            })
            .collect();
        let commits = writers.into_iter().map(|writer| writer.join().unwrap());
        commits.collect::<Vec<_>>()
    });

    let expected = in_commit_order(commits);
    assert_eq!(expected.len(), EVENTS);
    let mut read = CheckedRead::new(&fixture, expected);
    read.until_complete(Duration::from_secs(180));
    read.verdict_at_the_end(&mut fixture, &topics).assert_exact();
}

// A writer's own keys are in the order of its commits, shared keys in the order of their counter.
fn in_commit_order(writers: Vec<Vec<Commit>>) -> Expected {
    let mut expected = Expected::default();
    let mut shared = Vec::new();
    for commit in writers.into_iter().flatten() {
        match commit.shared {
            None => commit.push_to(&mut expected),
            Some(_) => shared.push(commit),
        }
    }
    shared.sort_by_key(|commit| commit.shared);
    for commit in shared {
        commit.push_to(&mut expected);
    }
    expected
}
