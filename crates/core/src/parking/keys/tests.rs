use std::time::Duration;

use super::*;

fn holding(keys: impl IntoIterator<Item = OrderKey>, whole_topic: bool) -> HeldKeys {
    let mut held = HeldKeys::new(whole_topic);
    keys.into_iter().for_each(|key| held.found(&key));
    held
}

fn of_topic(topic: &str, name: &str) -> OrderKey {
    OrderKey { topic: topic.to_owned(), within: Within::Key(name.to_owned()) }
}

fn key(name: &str) -> OrderKey {
    of_topic("t", name)
}

#[test]
fn a_key_is_free_when_nothing_is_on_the_way() {
    let now = Instant::now();
    let mut held = holding([key("a")], false);
    assert_eq!(held.gate("t", Some("a"), None, now), KeyGate::Blocked);
    assert_eq!(held.gate("u", Some("a"), None, now), KeyGate::Open);
    assert_eq!(held.gate("t", None, None, now), KeyGate::Open);
    held.hold(&key("a"));
    assert!(!held.free(&key("a")), "an event is on its way");
    held.parked(&key("a"));
    assert!(held.free(&key("a")));
    assert_eq!(held.gate("t", Some("a"), None, now), KeyGate::Open);
    assert!(held.is_empty());
}

#[test]
fn a_partition_is_held_for_events_without_a_key_and_a_topic_for_all() {
    let now = Instant::now();
    let of = |within| OrderKey { topic: "t".to_owned(), within };
    let mut held = holding([of(Within::Partition(0))], false);
    assert_eq!(held.gate("t", None, Some(0), now), KeyGate::Blocked);
    assert_eq!(held.gate("t", None, Some(1), now), KeyGate::Open);
    assert_eq!(held.gate("t", Some("k"), Some(0), now), KeyGate::Open, "it has its own order");
    assert_eq!(held.gate("t", None, None, now), KeyGate::Open);
    assert_eq!(held.next_batch(9), [of(Within::Partition(0))]);
    assert!(held.free(&of(Within::Partition(0))));
    assert!(held.is_empty());

    let held = holding([of(Within::Topic)], true);
    for (key, partition) in [(None, None), (Some("k"), None), (None, Some(7))] {
        assert_eq!(held.gate("t", key, partition, now), KeyGate::Blocked);
        assert_eq!(held.gate("u", key, partition, now), KeyGate::Open);
    }
}

#[test]
fn a_key_that_is_not_stored_is_held_by_the_one_that_stands_for_it() {
    let now = Instant::now();
    let mut held = holding([key(r"\u{4e2d}")], false);
    assert_eq!(held.gate("t", Some("中"), None, now), KeyGate::Blocked);
    assert_eq!(held.gate("t", Some("文"), None, now), KeyGate::Open);
    assert!(held.free(&key(r"\u{4e2d}")));
    held.hold(&key("other"));
    assert_eq!(held.gate("t", Some("中"), None, now), KeyGate::Open);
}

#[test]
fn a_handover_ends() {
    let now = Instant::now();
    let mut held = holding([key("a")], false);
    let second = Duration::from_secs(1);
    held.hand_over(&key("a"), now + second);
    assert_eq!(held.gate("t", Some("a"), None, now), KeyGate::OpeningSoon);
    assert_eq!(held.gate("t", Some("a"), None, now + second), KeyGate::Blocked);
    held.hand_over(&key("b"), now + second);
    assert_eq!(held.gate("t", Some("b"), None, now), KeyGate::Open, "never held");
}

#[test]
fn a_topic_with_too_many_keys_is_held_as_a_whole_and_no_other() {
    let now = Instant::now();
    let mut held = holding((0..TOPIC_KEYS_MAX).map(|n| key(&n.to_string())), false);
    assert_eq!(held.gate("t", Some("another"), None, now), KeyGate::Open);
    held.hold(&key("one too many"));
    for name in ["one too many", "another", "1"] {
        assert_eq!(held.gate("t", Some(name), None, now), KeyGate::Blocked, "{name}");
    }
    assert_eq!(held.gate("t", None, None, now), KeyGate::Open);
    assert_eq!(held.gate("u", Some("another"), None, now), KeyGate::Open);
    held.hold(&of_topic("u", "its own"));
    assert_eq!(held.gate("u", Some("its own"), None, now), KeyGate::Blocked);
    assert_eq!(held.gate("u", Some("another"), None, now), KeyGate::Open);
    for n in 0..TOPIC_KEYS_MAX / 2 {
        assert!(!held.is_outdated(), "{n}");
        assert!(held.free(&key(&n.to_string())));
    }
    held.free(&key(&(TOPIC_KEYS_MAX - 1).to_string()));
    assert!(held.is_outdated());
}

#[test]
fn what_is_known_is_bounded_in_number_and_in_bytes() {
    let now = Instant::now();
    let mut all = HeldKeys::new(false);
    for n in 0..=HELD_KEYS_MAX {
        all.found(&of_topic(&format!("t{}", n % 1_000), &n.to_string()));
    }
    assert_eq!(all.count, HELD_KEYS_MAX);
    assert_eq!(all.gate("t0", Some("any"), None, now), KeyGate::Blocked);
    assert_eq!(all.gate("t1", Some("any"), None, now), KeyGate::Open);
    assert!(!all.is_outdated());

    let long = "k".repeat(64 * 1024 - 8);
    let many = (0..1_000).map(|n| key(&format!("{long}{n:08}")));
    let long = holding(many, false);
    assert_eq!((long.count, long.bytes), (256, HELD_BYTES_MAX));
    assert_eq!(long.gate("t", Some("any"), None, now), KeyGate::Blocked);

    let mut crowd = holding((0..HELD_KEYS_MAX).map(|n| of_topic(&n.to_string(), "k")), false);
    for n in 0..CROWDED_TOPICS_MAX {
        crowd.found(&of_topic(&n.to_string(), "one more"));
    }
    assert_eq!(crowd.gate("unknown", Some("any"), None, now), KeyGate::Open);
    crowd.found(&of_topic("one topic too many", "k"));
    assert_eq!(crowd.gate("unknown", Some("any"), None, now), KeyGate::Blocked);
}

#[test]
fn every_key_is_looked_at_in_turn() {
    let mut held = holding((0..5).map(|n| key(&n.to_string())), false);
    let mut seen: Vec<String> =
        (0..3).flat_map(|_| held.next_batch(2)).map(|key| format!("{:?}", key.within)).collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3, 4].map(|n| format!("Key(\"{n}\")")));
    assert_eq!(held.next_batch(2).len(), 2);
}
