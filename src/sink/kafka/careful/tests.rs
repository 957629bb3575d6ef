//! Groups, and the records that are returned. No broker.

use std::collections::VecDeque;
use std::time::Instant;

use postrider_core::delivery::Refusal;

use super::*;

fn waiting(keys: &[(&str, usize)]) -> VecDeque<QueuedRecord> {
    let of = |(number, (key, bytes)): (usize, &(&str, usize))| {
        let record = OwnedRecord {
            topic: "t".to_owned(),
            partition: 0,
            key: Some(key.as_bytes().to_vec()),
            partition_by: None,
            adds_committed_at: true,
            value: None,
            headers: Vec::new(),
            timestamp_ms: 0,
            ordered_by: OrderedBy::Key,
            fallback_timestamp: None,
            batch_bytes: *bytes,
        };
        QueuedRecord { ticket: Ticket::from_number(number as u64), record, alone: false }
    };
    keys.iter().enumerate().map(of).collect()
}

fn queue(keys: &[(&str, usize)]) -> Queue {
    Queue { waiting: waiting(keys), ..Queue::default() }
}

#[track_caller]
fn check(keys: &[(&str, usize)], limits: &GroupLimits, bytes_max: Option<usize>, expect: usize) {
    let mut queue = queue(keys);
    assert_eq!(queue.take_group(limits, bytes_max).len(), expect);
    assert_eq!(queue.waiting.len(), keys.len() - expect);
}

#[test]
fn a_group_has_each_key_once_and_fits() {
    let limits = GroupLimits { group_max: 3, ..GroupLimits::default() };
    check(&[("a", 9), ("b", 9), ("c", 9), ("d", 9)], &limits, None, 3);
    check(&[("a", 9), ("b", 9), ("a", 9), ("d", 9)], &limits, None, 2);
    check(&[("a", 9), ("b", 9), ("c", 9)], &limits, Some(20), 2);
    check(&[("a", 90), ("b", 9)], &limits, Some(20), 1);
    check(&[], &limits, None, 0);
}

#[test]
fn records_of_a_partition_or_topic_that_keep_their_order_go_one_by_one() {
    let limits = GroupLimits { group_max: 3, ..GroupLimits::default() };
    for ordered_by in [OrderedBy::Partition, OrderedBy::Topic] {
        let mut queue = queue(&[("a", 9), ("b", 9), ("c", 9)]);
        queue.waiting.iter_mut().for_each(|it| it.record.ordered_by = ordered_by);
        assert_eq!(queue.take_group(&limits, None).len(), 1);
    }
    // A record with an ordering key of its own joins the group.
    let mut queue = queue(&[("a", 9), ("b", 9), ("c", 9), ("d", 9)]);
    queue.waiting[1].record.ordered_by = OrderedBy::Partition;
    queue.waiting[3].record.ordered_by = OrderedBy::Partition;
    assert_eq!(queue.take_group(&limits, None).len(), 3);
}

#[test]
fn what_was_refused_is_sent_alone() {
    let limits = GroupLimits { group_max: 8, too_large_bytes: Some(50), ..GroupLimits::default() };
    check(&[("a", 50), ("b", 9)], &limits, None, 1);
    check(&[("a", 9), ("b", 60), ("c", 9)], &limits, None, 1);
    let mut queue = queue(&[("a", 9), ("b", 9)]);
    queue.waiting[0].alone = true;
    assert_eq!(queue.take_group(&limits, None).len(), 1);
}

#[test]
fn a_topic_that_takes_nothing_refuses_the_first_of_each_key() {
    let mut queue = Queue {
        waiting: waiting(&[("a", 9), ("b", 9), ("a", 9), ("c", 9), ("b", 9)]),
        group: waiting(&[("c", 9)]).into(),
        ..Queue::default()
    };
    let refusal = Refusal { reason: Reason::TopicDenied, detail: String::new() };
    let denied = Outcome::Retry(refusal);
    let reported = queue.refuse_waiting(&denied).into_iter().map(|it| match it {
        Report::Settled(ticket, outcome) => (ticket.number(), outcome),
        other => panic!("{other:?}"),
    });
    let blocked = || Outcome::Blocked;
    let expect = [(0, denied.clone()), (1, denied.clone()), (2, blocked()), (4, blocked())];
    assert_eq!(reported.collect::<Vec<_>>(), expect);
    // A record of its key is in flight.
    let left: Vec<u64> = queue.waiting.iter().map(|it| it.ticket.number()).collect();
    assert_eq!(left, [3]);
}

#[test]
fn a_refused_timestamp_is_replaced_once() {
    let mut waiting = waiting(&[("a", 9)]);
    let record = &mut waiting[0].record;
    record.timestamp_ms = 1_800_000_000_000;
    record.fallback_timestamp = Some((1_800_000_060_000, Instant::now()));
    record.use_current_time();
    assert!((1_800_000_060_000..1_800_000_090_000).contains(&record.timestamp_ms));
    let committed_at = b"2027-01-15T08:00:00.000000Z".to_vec();
    let expect = [("committed-at".to_owned(), Some(committed_at))];
    assert_eq!(record.headers, expect);
    record.timestamp_ms = 7;
    record.use_current_time();
    assert_eq!((record.timestamp_ms, record.headers.as_slice()), (7, expect.as_slice()));
}
