//! Subjects of a registry that follows a script.

use std::borrow::Cow;

use postrider_core::format::Frame;
use tokio::time::timeout;

use super::*;
use crate::registry::script::{Script, refused, schema};

const MOMENT: Duration = Duration::from_millis(20);
const SOON: Duration = Duration::from_secs(10);

fn find(subjects: &mut Subjects, subject: &str, topic: &str) -> Found {
    let frame = Cow::Owned(Frame::default());
    subjects.find(&SchemaNeed { subject: Cow::Borrowed(subject), frame }, topic)
}

async fn event(subjects: &mut Subjects) {
    timeout(SOON, subjects.next_event()).await.expect("nothing happened");
}

fn named(subjects: &mut Subjects) -> Vec<String> {
    let mut named = subjects.ready_topics().topics().expect("not all");
    named.sort();
    named
}

#[track_caller]
fn assert_id(found: Found, id: u32) {
    assert!(matches!(&found, Found::Schema(schema) if schema.id == id), "{found:?}");
}

#[tokio::test]
async fn a_subject_is_asked_about_once_and_its_topics_are_named() {
    let script = Script::default();
    script.add("s", schema(7));
    let mut subjects = script.subjects();
    for topic in ["a", "b", "a"] {
        assert_eq!(find(&mut subjects, "s", topic), Found::Asked);
    }
    assert!(!subjects.is_idle() && named(&mut subjects).is_empty());
    event(&mut subjects).await;
    assert_eq!(named(&mut subjects), ["a", "b"]);
    assert_id(find(&mut subjects, "s", "a"), 7);
    assert!(subjects.is_idle() && subjects.obstacle().is_none());
    assert_eq!(script.take_asked(), ["s"]);
}

#[tokio::test]
async fn a_few_questions_at_a_time() {
    let script = Script::default();
    let mut subjects = script.subjects();
    for number in 0..10 {
        assert_eq!(find(&mut subjects, &format!("s{number}"), "t"), Found::Asked);
    }
    // Nobody answers.
    assert!(timeout(MOMENT, subjects.next_event()).await.is_err());
    assert_eq!(script.take_asked().len(), QUESTIONS_MAX);
}

#[tokio::test]
async fn an_unreachable_registry_is_asked_by_few_and_all_continue_when_it_answers() {
    let script = Script::default();
    script.add("s", refused()).add("s", schema(1)).add("other", schema(2));
    let mut subjects = script.subjects();
    assert_eq!(find(&mut subjects, "s", "a"), Found::Asked);
    event(&mut subjects).await;
    assert_eq!(find(&mut subjects, "s", "a"), Found::Unreachable);
    assert_eq!(find(&mut subjects, "other", "b"), Found::Unreachable);
    assert_eq!(script.take_asked(), ["s"]);
    let obstacle = subjects.obstacle().unwrap();
    assert!(obstacle.contains("http://registry:8081 can't be used: can't connect"), "{obstacle}");
    assert!(obstacle.contains("fix: check that the registry runs"), "{obstacle}");
    // The pause is over: both are worth another try.
    event(&mut subjects).await;
    assert_eq!(named(&mut subjects), ["a", "b"]);
    for (subject, topic) in [("s", "a"), ("other", "b")] {
        assert_eq!(find(&mut subjects, subject, topic), Found::Asked);
    }
    event(&mut subjects).await;
    event(&mut subjects).await;
    assert_id(find(&mut subjects, "s", "a"), 1);
    assert_id(find(&mut subjects, "other", "b"), 2);
    assert_eq!(named(&mut subjects), ["a", "b"]);
    assert!(subjects.obstacle().is_none() && subjects.is_idle());
}

/// Ten subjects are asked about when the registry goes: those in the queue are not.
#[tokio::test]
async fn what_is_in_the_queue_waits_with_the_others() {
    let script = Script::default();
    for number in 0..10 {
        script.add(&format!("s{number}"), refused()).add(&format!("s{number}"), schema(number));
    }
    let mut subjects = script.subjects();
    let ask = |subjects: &mut Subjects, numbers: std::ops::Range<u32>| {
        for number in numbers {
            find(subjects, &format!("s{number}"), &format!("t{number}"));
        }
    };
    ask(&mut subjects, 0..10);
    for _ in 0..QUESTIONS_MAX {
        event(&mut subjects).await;
    }
    assert_eq!(script.take_asked().len(), QUESTIONS_MAX);
    let mut topics = Vec::new();
    while topics.len() < 10 {
        event(&mut subjects).await;
        topics.extend(named(&mut subjects));
    }
    assert_eq!(topics.len(), 10, "{topics:?}");
}

#[tokio::test]
async fn an_error_about_one_subject_delays_no_other() {
    let script = Script::default();
    script.add("bad", Err(LookupError::Status(500))).add("good", schema(2));
    let mut subjects = script.subjects();
    find(&mut subjects, "bad", "a");
    event(&mut subjects).await;
    assert_eq!(find(&mut subjects, "bad", "a"), Found::Unreachable);
    assert_eq!(find(&mut subjects, "good", "b"), Found::Asked);
    event(&mut subjects).await;
    assert_id(find(&mut subjects, "good", "b"), 2);
    let obstacle = subjects.obstacle().unwrap();
    assert!(obstacle.contains("it answers with status 500"), "{obstacle}");
    // It is asked about again, and now nobody answers.
    event(&mut subjects).await;
    assert_eq!(find(&mut subjects, "bad", "a"), Found::Asked);
    assert!(subjects.obstacle().is_some(), "the last failure is still the reason");
}

#[tokio::test]
async fn an_unknown_subject_is_refused_until_it_is_registered() {
    let script = Script::default();
    script.add("s", Ok(Answer::Unknown)).add("s", schema(3));
    let mut subjects = script.subjects();
    find(&mut subjects, "s", "t");
    event(&mut subjects).await;
    let Found::Refused(refusal) = find(&mut subjects, "s", "t") else { panic!("not refused") };
    assert_eq!(refusal.reason, Reason::SchemaMissing);
    assert!(refusal.detail.ends_with("has no schema for subject \"s\""), "{}", refusal.detail);
    // It is believed for a second.
    while let Found::Refused(_) = find(&mut subjects, "s", "t") {
        tokio::time::sleep(MOMENT).await;
    }
    event(&mut subjects).await;
    assert_id(find(&mut subjects, "s", "t"), 3);
    assert!(matches!(find(&mut subjects, "", "t"), Found::Refused(_)), "it is never asked about");
    assert_eq!(script.take_asked(), ["s", "s"]);
}

#[tokio::test]
async fn what_is_known_outlives_what_waits() {
    let script = Script::default();
    script.add("known", schema(1));
    let mut subjects = script.subjects();
    find(&mut subjects, "known", "a");
    event(&mut subjects).await;
    find(&mut subjects, "silent", "b");
    assert!(timeout(MOMENT, subjects.next_event()).await.is_err());
    subjects.abandon();
    assert!(subjects.is_idle() && named(&mut subjects).is_empty());
    assert_id(find(&mut subjects, "known", "a"), 1);
    assert_eq!(find(&mut subjects, "silent", "b"), Found::Asked);
    assert!(timeout(MOMENT, subjects.next_event()).await.is_err());
    assert_eq!(script.take_asked(), ["known", "silent", "silent"]);
}

#[tokio::test]
async fn subjects_used_longest_ago_are_forgotten() {
    let script = Script::default();
    let mut subjects = script.subjects();
    subjects.keep_at_most(4);
    for number in 0..5_u32 {
        script.add(&format!("s{number}"), schema(number));
        find(&mut subjects, &format!("s{number}"), "t");
        event(&mut subjects).await;
    }
    script.take_asked();
    assert_id(find(&mut subjects, "s4", "t"), 4);
    assert_eq!(find(&mut subjects, "s0", "t"), Found::Asked);
    assert!(subjects.known.len() <= 4);
}

#[tokio::test]
async fn an_old_schema_is_used_while_a_newer_one_is_asked_for() {
    let script = Script::default();
    let mut subjects = script.subjects();
    let minutes_ago = Instant::now().checked_sub(Duration::from_secs(600));
    let minutes_ago = minutes_ago.expect("this machine has just been started");
    for subject in ["s", "gone", "away"] {
        let known = Known::answered(schema(1).unwrap(), minutes_ago);
        subjects.known.insert(subject.to_owned(), known);
    }
    script.add("s", schema(2)).add("gone", Ok(Answer::Unknown)).add("away", refused());
    for subject in ["s", "gone", "away"] {
        assert_id(find(&mut subjects, subject, "t"), 1);
    }
    for _ in 0..3 {
        event(&mut subjects).await;
    }
    assert_id(find(&mut subjects, "s", "t"), 2);
    assert!(matches!(find(&mut subjects, "gone", "t"), Found::Refused(_)));
    assert_id(find(&mut subjects, "away", "t"), 1);
    assert!(subjects.is_idle() && subjects.obstacle().is_none());
    assert_eq!(script.take_asked(), ["s", "gone", "away"]);
}
