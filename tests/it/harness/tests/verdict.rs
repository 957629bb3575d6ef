//! The verdict finds each kind of fault, and only that.

use testkit::check::{Check, Expected, Verdict};

/// Keys a and b of topic t with the events a1 a2 a3 and b1 b2, and u1 without a key.
fn expected() -> Expected {
    let mut expected = Expected::default();
    for id in ["a1", "b1", "a2", "b2", "a3"] {
        expected.push("t", &id[..1], id);
    }
    expected.push_unordered("t", "u1");
    expected
}

/// Each word is `id`, or `id@partition` where it is not 0.
fn judge(received: &str) -> Verdict {
    let mut check = Check::new(expected());
    for word in received.split(' ') {
        let (id, partition) = word.split_once('@').unwrap_or((word, "0"));
        check.see("t", partition.parse().unwrap(), &id[..1], id);
    }
    check.verdict()
}

fn check(received: &str, expect: &str) {
    let verdict = judge(received);
    let found: String = [
        ("lost", &verdict.lost),
        ("unexpected", &verdict.unexpected),
        ("misplaced", &verdict.misplaced),
        ("out of order", &verdict.out_of_order),
        ("split", &verdict.split),
        ("duplicates", &verdict.duplicates),
    ]
    .iter()
    .filter(|(_, fault)| fault.count > 0)
    .map(|(name, fault)| format!("{name} {}; ", fault.count))
    .collect();
    assert_eq!(found.trim_end_matches("; "), expect, "{received}: {verdict}");
}

#[test]
fn faults_are_found() {
    check("a1 b1 a2 b2 a3 u1", "");
    check("u1 b1 b2 a1 a2 a3", "");
    check("a1 b1 b2 a3 u1", "lost 1");
    check("a1 b1 a2 b2 a3 u1 a9", "unexpected 1");
    check("a2 b1 a1 b2 a3 u1", "out of order 1");
    check("a3 b1 a1 b2 a2 u1", "out of order 2");
    check("a1 b1 a2 b2 a3@1 u1", "split 1");
    check("a1 a2 b1 a1 a2 b2 a3 u1 u1", "duplicates 3");
    // An event that arrives late, after a repetition of the one that follows it.
    check("a1 a3 a2 a3 b1 b2 u1", "out of order 1; duplicates 1");
}

#[test]
fn wrong_key_and_wrong_topic_are_misplaced() {
    let mut check = Check::new(expected());
    check.see("t", 0, "b", "a1");
    check.see("other", 0, "a", "a2");
    let verdict = check.verdict();
    assert_eq!((verdict.misplaced.count, verdict.lost.count), (2, 6));
}

#[test]
fn completeness_counts_first_occurrences() {
    let mut check = Check::new(expected());
    for id in ["a1", "a1", "a2", "a3", "b1", "b2", "z9"] {
        check.see("t", 0, &id[..1], id);
    }
    assert!(!check.is_complete());
    check.see("t", 0, "random", "u1");
    assert!(check.is_complete());
}

#[test]
fn duplicates_are_allowed_up_to_a_limit() {
    let verdict = judge("a1 b1 a2 b2 a3 u1 a1 a2");
    verdict.assert_at_least_once(None);
    verdict.assert_at_least_once(Some(2));
    judge("a1 b1 a2 b2 a3 u1").assert_exact();
}

#[test]
#[should_panic(expected = "more than 1 duplicates: expected 6, received 8, lost 0")]
fn too_many_duplicates_fail() {
    judge("a1 b1 a2 b2 a3 u1 a1 a2").assert_at_least_once(Some(1));
}

#[test]
#[should_panic(expected = "the promise is broken: expected 6, received 5, lost 1 (a2 of t)")]
fn a_loss_fails() {
    judge("a1 b1 b2 a3 u1").assert_at_least_once(None);
}
