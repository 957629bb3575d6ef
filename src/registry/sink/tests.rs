//! A scripted registry in front of a sink that keeps what it gets.

use std::borrow::Cow;

use postrider_core::delivery::Outcome;
use postrider_core::envelope::SchemaNeed;
use postrider_core::format::{Frame, FramePlace};
use postrider_core::order::OrderedBy;

use super::*;
use crate::registry::answer::Answer;
use crate::registry::script::{Script, refused, schema};
use postrider_core::envelope::Schema;

/// The value, and the names and values of the headers.
type Got = (Vec<u8>, Vec<(String, Vec<u8>)>);

struct Keeper {
    destination: Destination,
    got: Vec<Got>,
    reports: Vec<Report>,
    obstacle: Option<Obstacle>,
    stopped: bool,
}

impl Sink for Keeper {
    async fn restart(&mut self) -> Result<(), Broken> {
        self.stopped = false;
        Ok(())
    }

    async fn stop(&mut self) {
        self.stopped = true;
    }

    fn destination(&mut self, _topic: &str) -> Option<&Destination> {
        Some(&self.destination)
    }

    fn enqueue(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken> {
        assert!(record.schema.is_none(), "it lacks its schema");
        let bytes = |value: Option<&[u8]>| value.unwrap_or_default().to_vec();
        let headers = record.headers.iter();
        let headers =
            headers.map(|header| (header.name.to_string(), bytes(header.value.as_deref())));
        self.got.push((bytes(record.value.as_deref()), headers.collect()));
        self.reports.push(Report::Settled(ticket, Outcome::Ok));
        Ok(())
    }

    async fn receive(&mut self, reports: &mut Vec<Report>) {
        if self.reports.is_empty() {
            std::future::pending::<()>().await;
        }
        reports.append(&mut self.reports);
    }

    fn obstacle(&self) -> Option<Obstacle> {
        self.obstacle.clone()
    }
}

fn sink(script: Option<&Script>) -> SchemaSink<Keeper> {
    let destination = Destination::new(None, Duration::MAX);
    let (got, reports) = (Vec::new(), Vec::new());
    let inner = Keeper { destination, got, reports, obstacle: None, stopped: false };
    SchemaSink { inner, subjects: script.map(Script::subjects) }
}

fn record(subject: Option<&'static str>, place: FramePlace) -> Record<'static> {
    let frame = Cow::Owned(Frame { place, message_index: vec![0] });
    let schema = subject.map(|it| SchemaNeed { subject: Cow::Borrowed(it), frame });
    Record {
        topic: "t",
        partition: None,
        key: None,
        partition_by: None,
        value: Some(Cow::Borrowed(b"{}")),
        headers: Vec::new(),
        timestamp_ms: 0,
        schema,
        adds_committed_at: true,
        ordered_by: OrderedBy::of(false, false, false),
        fallback_timestamp_ms: 0,
    }
}

fn offer(sink: &mut SchemaSink<Keeper>, record: &Record<'_>) -> Result<(), NotTaken> {
    sink.enqueue(record, Ticket::from_number(1))
}

#[tokio::test]
async fn records_get_their_schema_or_need_none() {
    let script = Script::default();
    script.add("s", schema(7));
    let mut sink = sink(Some(&script));
    offer(&mut sink, &record(None, FramePlace::Value)).unwrap();
    let framed = record(Some("s"), FramePlace::Value);
    assert!(matches!(offer(&mut sink, &framed), Err(NotTaken::TopicBusy)));
    assert_eq!(sink.ready_topics(), ReadyTopics::default());
    let mut reports = Vec::new();
    sink.receive(&mut reports).await;
    assert_eq!(sink.ready_topics().topics().unwrap(), ["t"]);
    offer(&mut sink, &framed).unwrap();
    offer(&mut sink, &record(Some("s"), FramePlace::Header)).unwrap();
    let guid = [&[1], [7; 16].as_slice(), &[0]].concat();
    let got = [
        (b"{}".to_vec(), Vec::new()),
        (b"\0\0\0\0\x07\0{}".to_vec(), Vec::new()),
        (b"{}".to_vec(), vec![("__value_schema_id".to_owned(), guid)]),
    ];
    assert_eq!(sink.inner.got, got);
}

#[tokio::test]
async fn reports_arrive_while_the_registry_is_silent() {
    let script = Script::default();
    let mut sink = sink(Some(&script));
    assert!(offer(&mut sink, &record(Some("s"), FramePlace::Value)).is_err());
    offer(&mut sink, &record(None, FramePlace::Value)).unwrap();
    let mut reports = Vec::new();
    sink.receive(&mut reports).await;
    assert_eq!(reports.len(), 1);
    assert_eq!(script.take_asked(), ["s"]);
    sink.stop().await;
    assert!(sink.inner.stopped && sink.subjects.as_ref().unwrap().is_idle());
}

#[tokio::test]
async fn what_the_registry_lacks_is_a_refusal_that_can_pass() {
    let script = Script::default();
    script.add("s", Ok(Answer::Schema(Schema { id: 7, guid: None })));
    let mut with = sink(Some(&script));
    let in_header = record(Some("s"), FramePlace::Header);
    assert!(matches!(offer(&mut with, &in_header), Err(NotTaken::TopicBusy)));
    with.receive(&mut Vec::new()).await;
    for (sink, expect) in [(&mut with, "reports no GUID"), (&mut sink(None), "is not set")] {
        let refusal = match offer(sink, &in_header) {
            Err(NotTaken::Retry(refusal)) => refusal,
            other => panic!("{other:?}"),
        };
        assert_eq!(refusal.reason, Reason::SchemaMissing);
        assert!(refusal.detail.contains(expect), "{}", refusal.detail);
        assert!(sink.inner.got.is_empty());
    }
}

#[tokio::test]
async fn what_keeps_all_records_away_is_shown_first() {
    let script = Script::default();
    script.add("s", refused());
    let mut sink = sink(Some(&script));
    let obstacle = |certain| Some(Obstacle { text: "no broker".to_owned(), certain });
    let waiting = record(Some("s"), FramePlace::Value);
    assert!(offer(&mut sink, &waiting).is_err());
    assert_eq!(sink.obstacle(), None);
    sink.receive(&mut Vec::new()).await;
    assert!(matches!(offer(&mut sink, &waiting), Err(NotTaken::Unreachable)));
    let of_registry = sink.obstacle().unwrap();
    assert!(!of_registry.certain && of_registry.text.contains("can't connect"));
    sink.inner.obstacle = obstacle(false);
    assert_eq!(sink.obstacle().unwrap().text, format!("{}; also: no broker", of_registry.text));
    sink.inner.obstacle = obstacle(true);
    assert_eq!(sink.obstacle(), obstacle(true));
}
