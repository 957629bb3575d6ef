//! Sending through a sink that follows a script.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::*;
use crate::parking::store::ParkedRow;
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::delivery::{NotTaken, Obstacle, Outcome, ReadyTopics, Reason, Report, Ticket};
use postrider_core::envelope::{Destination, Record};
use postrider_core::parking::Completeness;

/// What the sink does with the next record that is handed to it.
#[derive(Clone)]
enum Does {
    Takes,
    TakesAndLoses,
    Refuses,
    Rejects,
    /// An earlier record of its key was refused.
    GivesBack,
    IsBusy,
    NotTakes,
    /// What it needs can't be reached.
    NotReaches,
    Breaks {
        refused: bool,
    },
}

#[derive(Default)]
struct Scripted {
    script: VecDeque<Does>,
    reports: Vec<Report>,
    /// Values, headers and restarts, in their order.
    seen: Vec<String>,
    unknown: BTreeSet<String>,
    destination: Option<Destination>,
    obstacle: Option<Obstacle>,
    /// It reports the newest first.
    backwards: bool,
}

impl Scripted {
    fn new(script: &[Does]) -> Self {
        let destination = Destination::new(Some(200), Duration::MAX);
        Scripted {
            script: script.iter().cloned().collect(),
            destination: Some(destination),
            ..Scripted::default()
        }
    }
}

fn refusal() -> Refusal {
    Refusal { reason: Reason::TopicDenied, detail: "no".to_owned() }
}

impl Sink for Scripted {
    async fn stop(&mut self) {
        self.reports.clear();
    }

    async fn restart(&mut self) -> Result<(), Broken> {
        self.reports.clear();
        self.seen.push("restart".to_owned());
        Ok(())
    }

    fn destination(&mut self, topic: &str) -> Option<&Destination> {
        if self.unknown.contains(topic) {
            return None;
        }
        self.destination.as_ref()
    }

    fn ready_topics(&mut self) -> ReadyTopics {
        ReadyTopics::all()
    }

    fn partitions_in_use(&self) -> usize {
        1
    }

    fn hurry(&mut self) {}

    fn enqueue(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken> {
        let does = self.script.pop_front().unwrap_or(Does::Takes);
        let mut seen = String::from_utf8(record.value.clone().unwrap().into_owned()).unwrap();
        for header in &record.headers {
            seen.push_str(&format!(" {}", header.name));
        }
        match does {
            Does::IsBusy => return Err(NotTaken::Busy),
            Does::NotTakes => return Err(NotTaken::Retry(refusal())),
            Does::NotReaches => return Err(NotTaken::Unreachable),
            Does::Takes => self.reports.push(Report::Settled(ticket, Outcome::Ok)),
            Does::Refuses => self.reports.push(Report::Settled(ticket, Outcome::Retry(refusal()))),
            Does::Rejects => {
                self.reports.push(Report::Settled(ticket, Outcome::Reject(refusal())));
            }
            Does::GivesBack => {
                self.reports.push(Report::Settled(ticket, Outcome::Blocked));
            }
            Does::Breaks { refused } => {
                let broken = Broken { text: "broken".to_owned(), refused, fix: None };
                self.reports.push(Report::Broken(broken));
            }
            Does::TakesAndLoses => {}
        }
        self.seen.push(seen);
        Ok(())
    }

    async fn receive(&mut self, reports: &mut Vec<Report>) {
        self.unknown.clear();
        if self.reports.is_empty() && self.script.is_empty() {
            std::future::pending::<()>().await;
        }
        if self.backwards {
            self.reports.reverse();
        }
        reports.append(&mut self.reports);
    }

    fn obstacle(&self) -> Option<Obstacle> {
        self.obstacle.clone()
    }

    fn answered_at(&self) -> Option<std::time::Instant> {
        None
    }
}

fn row(name: &str, topic: &str, ordering_key: Option<&str>) -> ParkedRow {
    ParkedRow {
        id: 1,
        source_table: "public.outbox".to_owned(),
        row_id: None,
        idempotency_key: None,
        tenant: None,
        ordering_key: ordering_key.map(str::to_owned),
        topic: topic.to_owned(),
        partition: None,
        whole_topic: false,
        key: None,
        partition_by: None,
        schema: None,
        adds_committed_at: true,
        value: Some(name.as_bytes().to_vec()),
        value_bytes: name.len(),
        headers: "[]".to_owned(),
        commit_unix_micros: crate::clock::unix_micros(),
        completeness: Completeness::Whole,
        attempts: 1,
    }
}

fn options() -> SendOptions {
    SendOptions {
        server_ahead_micros: 0,
        replayed: false,
        waits_for_topics: true,
        timestamp: Timestamp::Original,
        keep_order: true,
        deadline: Instant::now() + Duration::from_secs(60),
    }
}

async fn send(sink: &mut Scripted, rows: &[ParkedRow], options: &SendOptions) -> SendResults {
    let (_handle, mut stop) = Shutdown::channel();
    send_rows(sink, rows, options, &mut stop).await
}

/// In a letter: delivered, refused, rejected, not tried, postponed.
fn letters(sent: &SendResults) -> String {
    let letter = |result: &RowResult| match result {
        RowResult::Delivered => 'd',
        RowResult::Retry(_) => 'r',
        RowResult::Reject(_) => 'x',
        RowResult::NotTried => '-',
        RowResult::Postponed => 'p',
    };
    sent.results.iter().map(letter).collect()
}

#[tokio::test]
async fn after_a_failure_nothing_of_its_key_is_sent() {
    let rows = [
        row("a1", "t", Some("a")),
        row("b1", "t", Some("b")),
        row("a2", "t", Some("a")),
        row("free", "t", None),
        row("a3", "u", Some("a")),
    ];
    let script = [Does::NotTakes, Does::Takes];
    let sent = send(&mut Scripted::new(&script), &rows, &options()).await;
    assert_eq!(letters(&sent), "rd-dd");
    let mut free = options();
    free.keep_order = false;
    let sent = send(&mut Scripted::new(&script), &rows, &free).await;
    assert_eq!(letters(&sent), "rdddd");
}

#[tokio::test]
async fn what_cannot_be_reached_postpones_its_rows_and_no_others() {
    let rows = [
        row("a1", "t", Some("a")),
        row("b1", "t", Some("b")),
        row("a2", "t", Some("a")),
        row("free", "u", None),
    ];
    let script = [Does::NotReaches, Does::Takes];
    let hurried = SendOptions { waits_for_topics: false, ..options() };
    let mut sink = Scripted::new(&script);
    let sent = send(&mut sink, &rows, &hurried).await;
    assert_eq!(letters(&sent), "pd-d");
    assert!(sent.interrupted_by.is_none() && sent.is_sink_ready);
    assert!(!sink.seen.contains(&"restart".to_owned()));
    // A command waits for it, as for brokers.
    let sent = send(&mut Scripted::new(&script), &rows, &options()).await;
    assert_eq!(letters(&sent), "dddd");
    let obstacle = Obstacle { text: "no registry".to_owned(), certain: false };
    let mut sink = Scripted::new(&vec![Does::NotReaches; 10_000]);
    sink.obstacle = Some(obstacle);
    let deadline = Instant::now() + Duration::from_millis(50);
    let sent = send(&mut sink, &rows[..1], &SendOptions { deadline, ..options() }).await;
    assert_eq!(letters(&sent), "-");
    let interrupted_by = sent.interrupted_by.unwrap().text;
    assert!(interrupted_by.ends_with("did not answer in time: no registry"), "{interrupted_by}");
}

/// Three of a key and one of another; the sink was given all of them when the first was refused.
#[tokio::test]
async fn what_waited_behind_a_refusal_was_not_tried() {
    let rows = [
        row("a1", "t", Some("a")),
        row("b1", "t", Some("b")),
        row("a2", "t", Some("a")),
        row("a3", "t", Some("a")),
    ];
    let check = async |script: &[Does], keep_order: bool, expect: &str, seen: &[&str]| {
        for backwards in [false, true] {
            let mut sink = Scripted { backwards, ..Scripted::new(script) };
            let sent = send(&mut sink, &rows, &SendOptions { keep_order, ..options() }).await;
            assert_eq!(letters(&sent), expect, "backwards: {backwards}");
            assert_eq!(sink.seen, seen, "backwards: {backwards}");
            assert!(sent.interrupted_by.is_none());
        }
    };
    use Does::{GivesBack, Refuses, Rejects, Takes};
    let all = ["a1", "b1", "a2", "a3"];
    check(&[Rejects, Takes, GivesBack, GivesBack], true, "xd--", &all).await;
    check(&[Refuses, Takes, GivesBack, GivesBack], true, "rd--", &all).await;
    // The topic accepts nothing: that is true of other keys too.
    check(&[Refuses, Refuses, Refuses, Refuses], true, "rr--", &all).await;
    check(&[Refuses, Refuses, Refuses, Refuses], false, "rrrr", &all).await;
    // Rows that may overtake are sent again and again.
    let again = ["a1", "b1", "a2", "a3", "a2", "a3", "a3"];
    let script = [Rejects, Takes, GivesBack, GivesBack, Rejects, GivesBack, Takes];
    check(&script, false, "xdxd", &again).await;
}

/// The record's key is the same, the ordering key is not.
#[tokio::test]
async fn rows_that_wait_for_no_other_are_sent_again() {
    let rows = [row("a1", "t", Some("a")), row("free", "t", None)];
    let mut sink = Scripted::new(&[Does::Rejects, Does::GivesBack]);
    assert_eq!(letters(&send(&mut sink, &rows, &options()).await), "xd");
    assert_eq!(sink.seen, ["a1", "free", "free"]);
}

#[tokio::test]
async fn a_topic_that_waits_does_not_hold_the_others() {
    let rows = [row("t1", "t", None), row("t2", "t", None), row("u1", "u", None)];
    let mut sink = Scripted::new(&[Does::IsBusy]);
    let sent = send(&mut sink, &rows, &options()).await;
    assert_eq!(letters(&sent), "ddd");
    assert_eq!(sink.seen, ["u1", "t1", "t2"]);
    let mut sink = Scripted::new(&[]);
    sink.unknown.insert("t".to_owned());
    assert_eq!(letters(&send(&mut sink, &rows, &options()).await), "ddd");
    assert_eq!(sink.seen, ["u1", "t1", "t2"]);
}

#[tokio::test]
async fn a_broken_way_says_nothing_about_what_was_in_flight() {
    let rows = [row("1", "t", Some("k")), row("2", "t", Some("k")), row("3", "t", Some("k"))];
    let script = [Does::Takes, Does::TakesAndLoses, Does::Breaks { refused: false }];
    let mut sink = Scripted::new(&script);
    let sent = send(&mut sink, &rows, &options()).await;
    assert_eq!(letters(&sent), "d--");
    assert!(sent.is_sink_ready && sent.interrupted_by.is_some());
    assert_eq!(sink.seen, ["1", "2", "3", "restart"]);
}

#[tokio::test]
async fn records_refused_together_are_sent_again_in_order() {
    let rows = [row("1", "t", Some("k")), row("2", "t", Some("k")), row("3", "u", None)];
    let script = [Does::TakesAndLoses, Does::Breaks { refused: true }, Does::Takes, Does::Refuses];
    let mut sink = Scripted::new(&script);
    let sent = send(&mut sink, &rows, &options()).await;
    assert_eq!(letters(&sent), "rdd");
    assert_eq!(sink.seen, ["1", "2", "3", "restart", "1", "2"]);
    assert!(sent.interrupted_by.is_none());
    // Again and again: it ends.
    let script = vec![Does::Breaks { refused: true }; 100];
    assert_eq!(letters(&send(&mut Scripted::new(&script), &rows, &options()).await), "---");
}

#[tokio::test]
async fn rows_that_are_known_to_be_refused_are_not_sent() {
    let mut fragment = row("fragment", "t", None);
    fragment.completeness = Completeness::Fragment;
    let mut headers = row("headers", "t", None);
    headers.headers = "{}".to_owned();
    let rows = [row(&"x".repeat(300), "t", None), fragment, headers, row("fits", "t", None)];
    let mut sink = Scripted::new(&[]);
    let sent = send(&mut sink, &rows, &options()).await;
    assert_eq!(letters(&sent), "xxxd");
    let reason = |index: usize| match &sent.results[index] {
        RowResult::Reject(refusal) => refusal.reason,
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 2].map(reason), [Reason::TooLarge, Reason::BadHeaders]);
    assert_eq!(sink.seen, ["fits"]);
}

#[tokio::test]
async fn times_and_replays_are_told_in_headers() {
    let mut old = row("old", "t", None);
    old.headers = r#"[["id","7"],["x",null]]"#.to_owned();
    old.commit_unix_micros -= 86_400_000_000;
    let check = async |options: &SendOptions, age_max: Duration, expect: &str| {
        let mut sink = Scripted::new(&[]);
        sink.destination = Some(Destination::new(None, age_max));
        send(&mut sink, std::slice::from_ref(&old), options).await;
        assert_eq!(sink.seen, [expect]);
    };
    let hour = Duration::from_secs(3600);
    check(&options(), Duration::MAX, "old id x").await;
    check(&options(), hour, "old id x committed-at").await;
    let mut replay = options();
    replay.replayed = true;
    check(&replay, Duration::MAX, "old id x replayed").await;
    replay.timestamp = Timestamp::Now;
    check(&replay, Duration::MAX, "old id x committed-at replayed").await;
}

#[tokio::test]
async fn no_answer_is_waited_for_for_ever() {
    let rows = [row("1", "t", None), row("2", "t", None)];
    let mut sink = Scripted::new(&[Does::Takes, Does::TakesAndLoses]);
    let mut options = options();
    options.deadline = Instant::now() + Duration::from_millis(50);
    let sent = send(&mut sink, &rows, &options).await;
    assert_eq!(letters(&sent), "d-");
    assert_eq!(sink.seen.last().map(String::as_str), Some("restart"));
}

#[tokio::test]
async fn who_waits_in_vain_says_what_is_in_the_way() {
    let mut sink = Scripted::new(&[Does::TakesAndLoses]);
    let text = "Connection refused".to_owned();
    sink.obstacle = Some(Obstacle { text, certain: false });
    let options = SendOptions { deadline: Instant::now() + Duration::from_millis(50), ..options() };
    let sent = send(&mut sink, &[row("1", "t", None)], &options).await;
    let text = sent.interrupted_by.unwrap().text;
    assert_eq!(text, "the destination did not answer in time: Connection refused");
}

#[tokio::test]
async fn a_certain_obstacle_ends_the_waiting() {
    let mut sink = Scripted::new(&[Does::TakesAndLoses]);
    sink.obstacle = Some(Obstacle { text: "no brokers".to_owned(), certain: true });
    let sent = send(&mut sink, &[row("1", "t", None)], &options()).await;
    assert_eq!(letters(&sent), "-");
    assert_eq!(sent.interrupted_by.map(|it| it.text).as_deref(), Some("no brokers"));
}

#[tokio::test]
async fn a_stop_awaits_what_is_in_flight_and_sends_no_more() {
    let rows = [row("1", "t", None), row("2", "t", None)];
    let (handle, mut stop) = Shutdown::channel();
    handle.drain();
    let mut sink = Scripted::new(&[Does::Takes, Does::IsBusy]);
    let sent = send_rows(&mut sink, &rows, &options(), &mut stop).await;
    assert_eq!(letters(&sent), "d-");
    assert!(sent.interrupted_by.is_none());
    handle.now();
    let mut sink = Scripted::new(&[Does::TakesAndLoses]);
    let sent = send_rows(&mut sink, &rows[..1], &options(), &mut stop).await;
    assert_eq!(letters(&sent), "-");
}
