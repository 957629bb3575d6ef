use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn breaker(now: Instant) -> Breaker {
    let limits = BreakerLimits { events: 10, share: 0.5, window: 20 * SECOND, bytes: 1000 };
    Breaker::new(limits, 0, now)
}

const EVENT: Candidate = Candidate {
    class: Class::Rejected,
    weight: Weight::Full,
    bytes: 1,
    owed: 0,
    belongs_to_parked: false,
};

fn of_bytes(bytes: u64) -> Candidate {
    Candidate { bytes, ..EVENT }
}

/// One that waits for another.
fn waiting(bytes: u64) -> Candidate {
    Candidate { weight: Weight::Nothing, class: Class::Retryable, bytes, ..EVENT }
}

fn park(breaker: &mut Breaker, class: Class, now: Instant) -> bool {
    park_as(breaker, &Candidate { class, ..EVENT }, now)
}

fn park_as(breaker: &mut Breaker, event: &Candidate, now: Instant) -> bool {
    let may = breaker.may_park(event, now);
    if may {
        breaker.parked(event.bytes, event.weight, now);
    }
    may
}

#[test]
fn many_and_a_large_share_open_it() {
    let now = Instant::now();
    let mut few = breaker(now);
    assert!((0..10).all(|_| park(&mut few, Class::Retryable, now)));
    assert!(!park(&mut few, Class::Retryable, now));
    assert_eq!(few.opened(), Some((now, Cause::Events)));

    let mut share = breaker(now);
    share.published(100, now);
    assert!((0..50).all(|_| park(&mut share, Class::Retryable, now)), "a small share");

    let mut slow = breaker(now);
    assert!((0..10).all(|_| park(&mut slow, Class::Retryable, now)));
    assert!(slow.may_park(&Candidate { owed: 11, ..EVENT }, now), "others are on their way");
    assert!(!slow.may_park(&Candidate { owed: 10, ..EVENT }, now));
}

#[test]
fn a_slow_trickle_does_not_open_it() {
    let start = Instant::now();
    let mut breaker = breaker(start);
    assert!((0..100).all(|n| park(&mut breaker, Class::Retryable, start + 3 * n * SECOND)));
}

#[test]
fn it_closes_by_its_probe_or_for_the_hopeless_after_a_window() {
    let now = Instant::now();
    let mut breaker = breaker(now);
    while park(&mut breaker, Class::Retryable, now) {}
    assert!(!breaker.is_probe_due(now));
    assert!(breaker.is_probe_due(now + PROBE_EVERY));
    assert!(!park(&mut breaker, Class::Retryable, now + 100 * SECOND), "only its probe");
    assert!(!park(&mut breaker, Class::Rejected, now + 19 * SECOND));
    assert!(park(&mut breaker, Class::Rejected, now + 20 * SECOND));
    while park(&mut breaker, Class::Retryable, now + 20 * SECOND) {}
    breaker.close();
    assert!(park(&mut breaker, Class::Retryable, now + 20 * SECOND));
}

#[test]
fn a_count_is_old_news() {
    let now = Instant::now();
    let mut breaker = breaker(now);
    breaker.remember_parked(now);
    breaker.parked(600, Weight::Nothing, now);
    breaker.remember_parked(now + 2 * SECOND);
    breaker.parked(400, Weight::Nothing, now);
    assert!(!breaker.may_park(&waiting(1), now));
    breaker.counted(0, now + SECOND);
    assert!(!breaker.may_park(&waiting(1), now), "all of it may have been parked since");
    breaker.counted(600, now + 2 * SECOND);
    assert!(!breaker.may_park(&waiting(1), now));
    breaker.counted(300, now + 2 * SECOND);
    assert!(breaker.may_park(&waiting(300), now));
    assert!(!breaker.may_park(&waiting(301), now));
}

#[test]
fn bytes_open_it_also_of_those_that_wait() {
    let now = Instant::now();
    let mut breaker = breaker(now);
    breaker.parked(999, Weight::Nothing, now);
    assert!(breaker.may_park(&of_bytes(1), now));
    assert!(breaker.may_park(&waiting(1), now));
    assert!(!breaker.may_park(&waiting(2), now));
    assert!(!breaker.may_park(&of_bytes(2), now));
    breaker.set_live_bytes(500);
    assert!(breaker.may_park(&of_bytes(2), now));
}

#[test]
fn the_rest_of_a_transaction_is_not_held_for_bytes() {
    let now = Instant::now();
    let mut breaker = breaker(now);
    breaker.parked(1, Weight::Nothing, now);
    let rest = Candidate { belongs_to_parked: true, ..waiting(2000) };
    assert!(breaker.may_park(&rest, now));
    assert!(breaker.may_park(&Candidate { weight: Weight::Full, ..rest.clone() }, now));
    assert!(!breaker.may_park(&waiting(2000), now));
    assert!(breaker.may_park(&rest, now), "also while it is open");
    assert_eq!(breaker.opened(), None);
}

#[test]
fn missing_topics_never_open_it() {
    let now = Instant::now();
    let mut breaker = breaker(now);
    let weight = Weight::of(Reason::TopicMissing);
    let missing = Candidate { class: Class::Retryable, weight, bytes: 0, ..EVENT };
    assert!((0..10_000).all(|_| park_as(&mut breaker, &missing, now)));
    assert!(park(&mut breaker, Class::Rejected, now));
}

#[test]
fn denials_open_it_only_while_nothing_is_published() {
    let now = Instant::now();
    let weight = Weight::of(Reason::TopicDenied);
    let denied = Candidate { class: Class::Retryable, weight, bytes: 0, ..EVENT };
    let mut alone = breaker(now);
    assert!((0..10).all(|_| park_as(&mut alone, &denied, now)));
    assert!(!park_as(&mut alone, &denied, now));
    assert_eq!(alone.opened(), Some((now, Cause::Denied)));
    alone.published(1, now + SECOND);
    assert!(park_as(&mut alone, &denied, now + SECOND), "the credentials are good");
    assert_eq!(alone.opened(), None);

    let mut quiet = breaker(now);
    while park_as(&mut quiet, &denied, now) {}
    assert!(!park_as(&mut quiet, &denied, now + 19 * SECOND));
    let later = now + 20 * SECOND;
    assert!((0..10).all(|_| park_as(&mut quiet, &denied, later)), "others may follow it");
    assert!(!park_as(&mut quiet, &denied, later));
    assert_eq!(quiet.opened(), Some((later, Cause::Denied)), "this many for each window");

    let mut beside = breaker(now);
    beside.published(1, now);
    assert!((0..100).all(|_| park_as(&mut beside, &denied, now)));
    assert!(park_as(&mut beside, &denied, now + 21 * SECOND), "what was counted is forgotten");
}

#[test]
fn one_that_is_larger_than_the_bound_is_let_into_an_empty_side_table() {
    let now = Instant::now();
    let mut breaker = breaker(now);
    assert!(park_as(&mut breaker, &of_bytes(5000), now));
    assert!(!park_as(&mut breaker, &of_bytes(1), now), "the next one waits");
    breaker.set_live_bytes(0);
    assert!(park_as(&mut breaker, &of_bytes(5000), now));
}
