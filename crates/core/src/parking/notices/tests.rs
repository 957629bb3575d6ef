use super::*;

fn notice(topic: &str, reason: Reason) -> Notice {
    Notice {
        table: "public.outbox".to_owned(),
        topic: topic.to_owned(),
        reason,
        is_dead: false,
        row_id: "7".to_owned(),
        tenant: "acme".to_owned(),
        idempotency_key: "i-7".to_owned(),
        detail: "no such topic".to_owned(),
    }
}

fn missing(topic: &str) -> Notice {
    notice(topic, Reason::TopicMissing)
}

fn sum(lines: &[LogLine]) -> PeriodSum {
    match lines {
        [LogLine::Sum(sum)] => sum.clone(),
        other => panic!("no sum alone: {other:?}"),
    }
}

#[test]
fn the_first_of_a_kind_is_told_at_once_and_the_rest_in_a_sum() {
    let now = Instant::now();
    let mut notices = Notices::new(now);
    let lines = notices.add(vec![missing("a"), missing("a"), missing("a")], now);
    let [LogLine::Event { notice, count: 3, command }] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    assert_eq!(notice.row_id, "7");
    let expect = "postrider dead list --status pending --table public.outbox --topic a \
                  --reason topic-missing";
    assert_eq!(command, expect);
    for _ in 0..800 {
        assert!(notices.add(vec![missing("a")], now).is_empty());
    }
    let dead = Notice { is_dead: true, ..missing("a") };
    assert_eq!(notices.add(vec![dead], now).len(), 1, "dead events are another kind");
    assert!(notices.tick(now + PERIOD / 2).is_empty());
    let most = Some((800, "public.outbox to a: topic-missing".to_owned()));
    let expect = PeriodSum { pending: 800, most, ..PeriodSum::default() };
    assert_eq!(sum(&notices.tick(now + PERIOD)), expect);
    assert!(notices.tick(now + 2 * PERIOD).is_empty(), "nothing more has come");
}

#[test]
fn what_goes_on_is_told_in_sums_and_what_comes_back_at_once() {
    let now = Instant::now();
    let mut notices = Notices::new(now);
    assert_eq!(notices.add(vec![missing("a")], now).len(), 1);
    assert_eq!(notices.add(vec![missing("a")], now + PERIOD).len(), 0, "known, and not yet summed");
    assert_eq!(sum(&notices.tick(now + 2 * PERIOD)).pending, 1);
    assert!(notices.tick(now + 3 * PERIOD).is_empty());
    assert_eq!(notices.add(vec![missing("a")], now + 4 * PERIOD).len(), 1, "it was calm");
}

#[test]
fn lines_and_kinds_have_a_bound() {
    let now = Instant::now();
    let mut notices = Notices::new(now);
    let many = |count: usize| (0..count).map(|n| missing(&format!("t{n}"))).collect::<Vec<_>>();
    assert_eq!(notices.add(many(2 * KINDS_MAX), now).len(), LINES_MAX as usize);
    assert_eq!(notices.kinds.len(), KINDS_MAX);
    let total = sum(&notices.tick(now + PERIOD));
    assert_eq!(total.pending, 2 * KINDS_MAX as u64 - u64::from(LINES_MAX));
    assert_eq!(notices.add(many(30), now + PERIOD).len(), 10, "the first twenty are known");
}

#[test]
fn who_waits_for_another_is_only_counted() {
    let now = Instant::now();
    let mut notices = Notices::new(now);
    assert!(notices.add(vec![notice("a", Reason::Blocked)], now).is_empty());
    assert!(notices.dropped(now).is_empty());
    let expect = PeriodSum { waiting: 1, dropped: 1, ..PeriodSum::default() };
    assert_eq!(sum(&notices.end_period(now)), expect);
    assert!(notices.end_period(now).is_empty());
}

#[test]
fn commands_can_be_run() {
    let illegal = Notice { table: "a b.o'x".to_owned(), ..missing("(none)") };
    let expect =
        "postrider dead list --status pending --table 'a b.o'\\''x' --reason topic-missing";
    assert_eq!(illegal.command(), expect);
    assert_eq!(shown(Some(&"x".repeat(SHOWN_CHARS + 1))).len(), SHOWN_CHARS);
}
