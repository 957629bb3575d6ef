//! What the library exposes: the trace of an event, and how many events were written.

use std::sync::Arc;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry_sdk::trace::SdkTracerProvider;
use postrider::{Event, Outbox, emit_batch, enqueue, enqueue_batch};
use tracing::Instrument as _;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{BINARY, runtime, tokio_postgres};
use testkit::fixture::Fixture;

fn event(key: &str) -> Event {
    Event::tombstone("t").idempotency_key(key)
}

#[track_caller]
fn traceparents(fixture: &Fixture) -> Vec<Option<String>> {
    let rows = fixture.client().query("SELECT traceparent FROM outbox ORDER BY id", &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn an_event_carries_the_trace_of_the_current_span() {
    let fixture = Fixture::new(BINARY, "span");
    let provider = SdkTracerProvider::builder().build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = Arc::new(tracing_subscriber::registry().with(layer));
    let _guard = tracing::subscriber::set_default(subscriber);
    let own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let span = tracing::info_span!("order");
    let context = span.context();
    let expect = context.span().span_context().clone();
    let expect = format!("00-{}-{}-01", expect.trace_id(), expect.span_id());
    let write = async {
        let mut client = tokio_postgres(&fixture).await;
        let mut transaction = client.transaction().await.unwrap();
        enqueue(&mut transaction, &event("a")).await.unwrap();
        enqueue(&mut transaction, &event("b").traceparent(own)).await.unwrap();
        let events = [event("c"), event("d").traceparent(own)];
        enqueue_batch(&mut transaction, &events).await.unwrap();
        transaction.commit().await.unwrap();
    };
    runtime().block_on(write.instrument(span));
    let expect = [expect.as_str(), own, &expect, own].map(|it| Some(it.to_owned()));
    assert_eq!(traceparents(&fixture), expect);
}

#[test]
fn an_event_carries_the_trace_of_the_current_context_and_none_without() {
    let fixture = Fixture::new(BINARY, "context");
    let trace = TraceId::from_hex("4bf92f3577b34da6a3ce929d0e0e4736").unwrap();
    let span = SpanId::from_hex("00f067aa0ba902b7").unwrap();
    let remote =
        SpanContext::new(trace, span, TraceFlags::NOT_SAMPLED, true, TraceState::default());
    let context = opentelemetry::Context::new().with_remote_span_context(remote);
    runtime().block_on(async {
        let mut client = tokio_postgres(&fixture).await;
        let mut transaction = client.transaction().await.unwrap();
        enqueue(&mut transaction, &event("a")).await.unwrap();
        {
            let _current = context.attach();
            enqueue(&mut transaction, &event("b")).await.unwrap();
        }
        transaction.commit().await.unwrap();
    });
    let expect = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00".to_owned();
    assert_eq!(traceparents(&fixture), [None, Some(expect)]);
}

#[test]
fn successes_and_failures_are_counted() {
    let mut fixture = Fixture::new(BINARY, "counted");
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true").migrate();
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    runtime().block_on(async {
        let mut client = tokio_postgres(&fixture).await;
        let mut transaction = client.transaction().await.unwrap();
        enqueue(&mut transaction, &Event::tombstone("counted-one")).await.unwrap();
        let topics = ["counted-one", "counted-one", "counted-two"];
        let batch = topics.map(Event::tombstone);
        enqueue_batch(&mut transaction, &batch).await.unwrap();
        emit_batch(&mut transaction, &batch).await.unwrap();
        let bad = Event::tombstone("counted-one").partition(-1);
        enqueue(&mut transaction, &bad).await.unwrap_err();
        let nowhere = Outbox::table("nowhere");
        nowhere.enqueue(&mut transaction, &Event::tombstone("counted-two")).await.unwrap_err();
    });
    let mut counts: Vec<String> = Vec::new();
    for (key, _, _, value) in snapshots.snapshot().into_vec() {
        let labels: Vec<String> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let DebugValue::Counter(value) = value else { panic!("{value:?} is not a counter") };
        counts.push(format!("{}{{{}}} {value}", key.key().name(), labels.join(",")));
    }
    counts.sort();
    let expect = [
        "outbox_enqueue_total{topic=counted-one,result=invalid} 1",
        "outbox_enqueue_total{topic=counted-one,result=success} 5",
        "outbox_enqueue_total{topic=counted-two,result=failure} 1",
        "outbox_enqueue_total{topic=counted-two,result=success} 2",
    ];
    assert_eq!(counts, expect);
}
