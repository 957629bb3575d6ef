//! What is known of one subject. No I/O; the clock is an argument.

use std::time::Duration;

use tokio::time::Instant;

use super::answer::Answer;
use crate::retry::RetryPause;
use postrider_core::envelope::{Schema, SchemaNeed};
use postrider_core::format::FramePlace;

/// How old a schema may get before the registry is asked for a newer one, which delays nothing.
const REFRESH_AFTER: Duration = Duration::from_secs(5 * 60);
/// When it is asked again if that failed.
const REFRESH_AGAIN: Duration = Duration::from_secs(60);
/// For how long the registry is believed that it lacks what is needed.
const LACKING_FOR: Duration = Duration::from_secs(1);
/// Pauses between questions that have no usable answer.
const PAUSE_BASE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The longest subject that a registry is asked about.
const SUBJECT_BYTES_MAX: usize = 1024;
/// The longest subject that is shown.
const SHOWN_BYTES_MAX: usize = 249;

/// Pauses that grow up to some seconds.
pub(super) fn pauses() -> RetryPause {
    RetryPause::new(PAUSE_BASE, PAUSE_MAX, Duration::MAX)
}

/// A subject that was asked about.
pub(super) struct Known {
    /// The last answer, and when it came; none: there was none.
    answer: Option<(Answer, Instant)>,
    /// There was no answer to what was asked since.
    failure: Option<Failure>,
    /// The number of the last record that used it.
    pub(super) last_use: u64,
}

struct Failure {
    text: String,
    since: Instant,
    failed_at: Instant,
    ask_at: Instant,
    pauses: RetryPause,
}

/// What a record can do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Be sent; whether the registry should be asked for a newer schema meanwhile.
    Send(Schema, bool),
    /// Be parked: the registry lacks what it needs. Why, in a sentence.
    Park(String),
    /// Wait until then.
    WaitUntil(Instant),
    /// Wait for an answer.
    Ask,
}

impl Known {
    /// The registry has answered.
    pub(super) fn answered(answer: Answer, now: Instant) -> Self {
        Known { answer: Some((answer, now)), failure: None, last_use: 0 }
    }

    /// It has not. `not_before` is when anything may be asked again, if that concerns all subjects.
    pub(super) fn failed(
        before: Option<Known>,
        text: String,
        not_before: Option<Instant>,
        now: Instant,
    ) -> Self {
        let (answer, failure) = before.map_or((None, None), |it| (it.answer, it.failure));
        let (since, mut pauses) =
            failure.map_or_else(|| (now, pauses()), |failure| (failure.since, failure.pauses));
        let ask_at = not_before.unwrap_or_else(|| now + pauses.after_failure(Duration::ZERO));
        let failure = Failure { text, since, failed_at: now, ask_at, pauses };
        Known { answer, failure: Some(failure), last_use: 0 }
    }

    /// What a record with this need can do.
    pub(super) fn verdict(&self, need: &SchemaNeed<'_>, now: Instant) -> Verdict {
        let Some((answer, answered_at)) = &self.answer else { return self.ask(now) };
        let subject = || shown(&need.subject);
        let lacking = match answer {
            Answer::Schema(schema) => {
                let needs_guid = need.frame.place == FramePlace::Header;
                if !needs_guid || schema.guid.is_some() {
                    return Verdict::Send(*schema, self.is_old(*answered_at, now));
                }
                format!(
                    "the schema registry reports no GUID for subject {}, and format.schema_in = \
                     header needs it; set it to value, or use a registry with GUIDs",
                    subject()
                )
            }
            Answer::Unknown => {
                format!("the schema registry has no schema for subject {}", subject())
            }
            Answer::Refused(status) => {
                format!("the schema registry refuses subject {} with status {status}", subject())
            }
        };
        if now < *answered_at + LACKING_FOR { Verdict::Park(lacking) } else { self.ask(now) }
    }

    fn ask(&self, now: Instant) -> Verdict {
        let ask_at = self.failure.as_ref().map(|failure| failure.ask_at);
        ask_at.filter(|at| now < *at).map_or(Verdict::Ask, Verdict::WaitUntil)
    }

    fn is_old(&self, answered_at: Instant, now: Instant) -> bool {
        let ask_at = match &self.failure {
            Some(failure) => failure.failed_at + REFRESH_AGAIN,
            None => answered_at + REFRESH_AFTER,
        };
        now >= ask_at
    }

    /// Why there is no answer, and since when.
    pub(super) fn failure(&self) -> Option<(Instant, &str)> {
        self.failure.as_ref().map(|failure| (failure.since, failure.text.as_str()))
    }

    /// When it may be asked about again; none: at once.
    pub(super) fn ask_at(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.ask_at)
    }
}

/// Why a subject is never asked about, if so.
pub(super) fn unaskable(subject: &str) -> Option<String> {
    match subject {
        "" => Some("the event's subject in the schema registry is empty".to_owned()),
        // They would be another path.
        "." | ".." => Some(format!("{subject:?} can't be a subject in a schema registry")),
        _ if subject.len() > SUBJECT_BYTES_MAX => Some(format!(
            "the event's subject in the schema registry has {} bytes, and at most \
             {SUBJECT_BYTES_MAX} are possible",
            subject.len()
        )),
        _ => None,
    }
}

/// A subject for people. It comes from the event's row: a table that has mixed up its values could
/// have put the payload there.
pub(super) fn shown(subject: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._-:/".contains(char);
    if subject.len() <= SHOWN_BYTES_MAX && subject.chars().all(is_plain) {
        format!("{subject:?}")
    } else {
        format!("(an unusual name of {} bytes)", subject.len())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use postrider_core::format::Frame;

    const SCHEMA: Schema = Schema { id: 7, guid: None };

    fn need(place: FramePlace) -> SchemaNeed<'static> {
        let frame = Cow::Owned(Frame { place, message_index: Vec::new() });
        SchemaNeed { subject: Cow::Borrowed("orders-value"), frame }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_schema_is_used_while_a_newer_one_is_asked_for() {
        let now = Instant::now();
        let known = Known::answered(Answer::Schema(SCHEMA), now);
        let need = need(FramePlace::Value);
        assert_eq!(known.verdict(&need, now + seconds(299)), Verdict::Send(SCHEMA, false));
        assert_eq!(known.verdict(&need, now + seconds(300)), Verdict::Send(SCHEMA, true));
        let known = Known::failed(Some(known), "away".to_owned(), None, now + seconds(300));
        assert_eq!(known.verdict(&need, now + seconds(359)), Verdict::Send(SCHEMA, false));
        assert_eq!(known.verdict(&need, now + seconds(360)), Verdict::Send(SCHEMA, true));
    }

    #[test]
    fn what_the_registry_lacks_is_asked_for_again_after_a_second() {
        let now = Instant::now();
        let check = |answer: Answer, place: FramePlace, expect: &str| {
            let known = Known::answered(answer, now);
            match known.verdict(&need(place), now) {
                Verdict::Park(why) => assert!(why.contains(expect), "{why}"),
                other => panic!("{answer:?}: {other:?}"),
            }
            let later = now + LACKING_FOR;
            assert_eq!(known.verdict(&need(place), later), Verdict::Ask);
            // There is no answer: it waits, as if nothing were known.
            let known = Known::failed(Some(known), String::new(), None, later);
            let ask_at = known.ask_at().unwrap();
            assert_eq!(known.verdict(&need(place), later), Verdict::WaitUntil(ask_at));
        };
        check(Answer::Unknown, FramePlace::Value, "has no schema for subject \"orders-value\"");
        check(Answer::Refused(422), FramePlace::Value, "with status 422");
        check(Answer::Schema(SCHEMA), FramePlace::Header, "reports no GUID");
    }

    #[test]
    fn pauses_grow_while_there_is_no_answer() {
        let begun = Instant::now();
        let need = need(FramePlace::Value);
        let (mut known, mut now) = (None, begun);
        for failures in 0..20 {
            let failed = Known::failed(known, format!("failure {failures}"), None, now);
            let ask_at = failed.ask_at().unwrap();
            let most = (PAUSE_BASE * 2_u32.pow(failures)).min(PAUSE_MAX);
            assert!((most / 2..=most).contains(&(ask_at - now)), "{failures}: {:?}", ask_at - now);
            assert_eq!(failed.verdict(&need, now), Verdict::WaitUntil(ask_at));
            assert_eq!(failed.verdict(&need, ask_at), Verdict::Ask);
            (known, now) = (Some(failed), ask_at);
        }
        let known = Known::failed(known, "the last".to_owned(), Some(now + seconds(99)), now);
        assert_eq!(known.ask_at(), Some(now + seconds(99)));
        assert_eq!(known.failure(), Some((begun, "the last")), "since the first");
    }

    #[test]
    fn unusual_subjects_are_not_shown() {
        assert_eq!(shown(":.ctx:orders-value"), "\":.ctx:orders-value\"");
        for hidden in ["{\"card\":1}", "a b", "ü", &"x".repeat(250)] {
            assert!(shown(hidden).starts_with("(an unusual name"), "{hidden}");
        }
        for never in ["", ".", "..", &"x".repeat(1025)] {
            assert!(unaskable(never).is_some(), "{never}");
        }
        assert_eq!(unaskable("orders-value"), None);
    }
}
