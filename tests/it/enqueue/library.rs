//! The Rust library, with each driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_outbox::{
    Connection, Enqueued, Error, Event, Outbox, emit_batch, enqueue, enqueue_batch, enqueue_new,
    with_transaction,
};
use serde_json::json;
use tokio_postgres::NoTls;

use super::{BINARY, number, runtime, sqlx, text, tokio_postgres};
use testkit::fixture::Fixture;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn complete(key: &str) -> Event {
    Event::json("orders", &json!({ "order": 17 }))
        .unwrap()
        .idempotency_key(key)
        .ordering_key("customer-4")
        .tenant("shop")
        .header("source", "web")
        .header("attempt", 2)
        .traceparent(TRACEPARENT)
        .event_type("Placed")
        .content_type("application/json")
        .partition(3)
}

/// What a transaction of any driver must do; the caller commits it.
async fn scenario(transaction: &mut impl Connection) -> Result<(), Error> {
    let Enqueued { id: first, is_new } = enqueue_new(transaction, &complete("k")).await?;
    assert!(is_new);
    assert_eq!(enqueue(transaction, &complete("k")).await?, first);
    // A mistake is found before the database is contacted, and costs nothing.
    let mistake = enqueue(transaction, &Event::tombstone("no topic")).await.unwrap_err();
    assert!(matches!(mistake, Error::Invalid(_)), "{mistake}");
    assert!(!mistake.is_retryable());
    let events = [
        complete("k"),
        Event::json("orders", &[1, 2])?.idempotency_key("l"),
        Event::tombstone("orders").ordering_key("customer-5"),
        Event::json("orders", "text")?.idempotency_key("l"),
    ];
    let ids = enqueue_batch(transaction, &events).await?;
    assert_eq!(ids.len(), 4);
    assert_eq!(ids[0], first);
    assert_eq!(ids[1], ids[3]);
    assert!(ids.iter().all(Option::is_some));
    assert!(enqueue_batch(transaction, &[]).await?.is_empty());
    let mistake = [Event::tombstone("t"), Event::tombstone("t").tenant("")];
    let mistake = enqueue_batch(transaction, &mistake).await.unwrap_err();
    assert_eq!(
        mistake.to_string(),
        "event 2 of 2: tenant is empty; leave it out where there is none"
    );

    let again = enqueue_new(transaction, &complete("k")).await?;
    assert_eq!(again, Enqueued { id: first, is_new: false });

    let binary = Outbox::table("\"Binary\".outbox").require_tenant_keys();
    let bytes = Event::bytes("files", [0xff, 0x00]).idempotency_key("b");
    let id = binary.enqueue(transaction, &bytes).await?;
    let mixed = [bytes.clone(), Event::json("files", &7)?, Event::tombstone("files")];
    let ids = binary.enqueue_batch(transaction, &mixed).await?;
    assert_eq!(ids[0], id);
    let mistake = binary.enqueue(transaction, &bytes.clone().tenant("x")).await.unwrap_err();
    assert!(mistake.to_string().contains("does not begin with the tenant"), "{mistake}");
    let taken = bytes.clone().idempotency_key("acme/order-17");
    let mistake = binary.enqueue(transaction, &taken).await.unwrap_err();
    assert!(mistake.to_string().contains("the event has no tenant"), "{mistake}");
    let again = binary.enqueue_new(transaction, &bytes).await?;
    assert_eq!(again, Enqueued { id, is_new: false });

    for events in [&events[..], &mixed] {
        let ids = emit_batch(transaction, events).await?;
        let distinct: std::collections::HashSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), events.len());
    }
    assert!(emit_batch(transaction, &[]).await?.is_empty());
    let mistake = [Event::tombstone("t"), Event::tombstone("no topic")];
    let mistake = emit_batch(transaction, &mistake).await.unwrap_err();
    assert!(mistake.to_string().starts_with("event 2 of 2: topic \"no topic\""), "{mistake}");
    Ok(())
}

#[track_caller]
fn prepared(name: &str) -> Fixture {
    let mut fixture = Fixture::new(BINARY, name);
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true").migrate();
    let table = "CREATE SCHEMA \"Binary\"; CREATE TABLE \"Binary\".outbox (LIKE public.outbox INCLUDING ALL);
        ALTER TABLE \"Binary\".outbox DROP payload, ADD payload bytea; CREATE TABLE orders (id int)";
    fixture.client().batch_execute(table).unwrap();
    fixture
}

#[track_caller]
fn assert_written(fixture: &Fixture) {
    let mut client = fixture.client();
    let row =
        "SELECT concat_ws('|', topic, payload, ordering_key, tenant, headers, traceparent, type,
        content_type, \"partition\") FROM outbox WHERE idempotency_key = 'k'";
    let expect = format!(
        "orders|{{\"order\":17}}|customer-4|shop|{{\"source\":\"web\",\"attempt\":2}}|{TRACEPARENT}|\
         Placed|application/json|3"
    );
    assert_eq!(text(&mut client, row), expect);
    let sql = "SELECT string_agg(coalesce(payload::text, 'none'), '|' ORDER BY id) FROM outbox";
    assert_eq!(text(&mut client, sql), "{\"order\":17}|[1,2]|none");
    let sql = "SELECT string_agg(coalesce(encode(payload, 'hex'), 'none'), '|' ORDER BY id)
        FROM \"Binary\".outbox";
    assert_eq!(text(&mut client, sql), "ff00|37|none");
}

#[test]
fn events_are_written_with_tokio_postgres() {
    let fixture = prepared("tokio_postgres");
    runtime().block_on(async {
        let mut client = tokio_postgres(&fixture).await;
        let mut transaction = client.transaction().await.unwrap();
        scenario(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
    });
    assert_written(&fixture);
}

#[test]
fn events_are_written_with_sqlx() {
    let fixture = prepared("sqlx");
    runtime().block_on(async {
        let pool = sqlx(&fixture).await;
        let mut transaction = pool.begin().await.unwrap();
        scenario(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
        // On a session, in whatever transaction is open.
        let mut session = pool.acquire().await.unwrap();
        let id = enqueue(&mut *session, &complete("k")).await.unwrap();
        assert!(id.is_some());
        pool.close().await;
    });
    assert_written(&fixture);
}

async fn with_tokio_postgres(fixture: &Fixture, work: bool) -> Result<(), AnyError> {
    let mut client = tokio_postgres(fixture).await;
    with_transaction(&mut client, async |transaction| {
        transaction.execute("INSERT INTO orders (id) VALUES (1)", &[]).await?;
        enqueue(transaction, &complete("k")).await?;
        enqueue(transaction, &complete("l")).await?;
        if work { Ok::<_, AnyError>(()) } else { Err("the business says no".into()) }
    })
    .await
}

async fn with_sqlx(fixture: &Fixture, work: bool) -> Result<(), AnyError> {
    let mut pool = sqlx(fixture).await;
    let done = with_transaction(&mut pool, async |transaction| {
        ::sqlx::query("INSERT INTO orders (id) VALUES (1)").execute(&mut **transaction).await?;
        enqueue(transaction, &complete("k")).await?;
        enqueue(transaction, &complete("l")).await?;
        if work { Ok::<_, AnyError>(()) } else { Err("the business says no".into()) }
    })
    .await;
    pool.close().await;
    done
}

#[test]
fn a_change_and_its_events_are_committed_or_rolled_back_together() {
    let fixture = prepared("together");
    let mut client = fixture.client();
    let both = "SELECT (SELECT count(*) FROM orders) * 10 + (SELECT count(*) FROM outbox)";
    let runtime = runtime();
    for (round, expect) in [(0, 12), (1, 22)] {
        let run = |work| match round {
            0 => runtime.block_on(with_tokio_postgres(&fixture, work)),
            _ => runtime.block_on(with_sqlx(&fixture, work)),
        };
        assert_eq!(run(false).unwrap_err().to_string(), "the business says no");
        assert_eq!(number(&mut client, both), if round == 0 { 0 } else { 12 });
        run(true).unwrap();
        assert_eq!(number(&mut client, both), expect);
    }
}

/// A server runs its handlers as tasks on any thread.
#[test]
fn every_call_can_run_in_a_task() {
    let fixture = prepared("task");
    let url = fixture.postgres().url(fixture.database());
    runtime().block_on(async {
        let task = tokio::spawn(async move {
            let (mut client, connection) = ::tokio_postgres::connect(&url, NoTls).await?;
            tokio::spawn(connection);
            with_transaction(&mut client, async |transaction| {
                enqueue(transaction, &complete("k")).await?;
                Ok::<_, AnyError>(())
            })
            .await
        });
        task.await.unwrap().unwrap();
        let mut pool = sqlx(&fixture).await;
        let task = tokio::spawn(async move {
            let written = with_transaction(&mut pool, async |transaction| {
                enqueue(transaction, &complete("l")).await?;
                Ok::<_, AnyError>(())
            });
            written.await.unwrap();
            pool.close().await;
        });
        task.await.unwrap();
    });
    assert_eq!(number(&mut fixture.client(), "SELECT count(*) FROM outbox"), 2);
}

#[test]
fn a_refusal_by_the_database_is_returned_with_its_code() {
    let fixture = prepared("refusal");
    runtime().block_on(async {
        let mut client = tokio_postgres(&fixture).await;
        let nowhere = Outbox::table("nowhere.outbox");
        let mut transaction = client.transaction().await.unwrap();
        let error = nowhere.enqueue(&mut transaction, &complete("k")).await.unwrap_err();
        drop(transaction);
        assert_eq!(error.sqlstate().as_deref(), Some("3F000"), "{error}");
        assert_eq!(error.to_string(), "schema \"nowhere\" does not exist");
        let pool = sqlx(&fixture).await;
        let mut transaction = pool.begin().await.unwrap();
        let plain = Outbox::table("orders");
        let error = plain.enqueue(&mut transaction, &complete("k")).await.unwrap_err();
        assert_eq!(error.sqlstate().as_deref(), Some("42703"), "{error}");
        assert!(error.to_string().contains("has no column topic; add the column"), "{error}");
        drop(transaction);
        pool.close().await;
    });
}

#[test]
fn a_batch_is_one_round_trip_also_with_duplicates() {
    let fixture = prepared("round_trip");
    let trips = Arc::new(AtomicUsize::new(0));
    runtime().block_on(async {
        let address = ("127.0.0.1", fixture.postgres().port());
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let socket = counted::Counted::new(socket, Arc::clone(&trips));
        let url = fixture.postgres().url(fixture.database());
        let config: ::tokio_postgres::Config = url.parse().unwrap();
        let (mut client, connection) = config.connect_raw(socket, NoTls).await.unwrap();
        tokio::spawn(connection);
        let mut transaction = client.transaction().await.unwrap();
        let events: Vec<Event> = (0..500).map(|n| complete(&format!("k-{}", n % 400))).collect();
        for _ in 0..2 {
            let before = trips.load(Ordering::SeqCst);
            let ids = enqueue_batch(&mut transaction, &events).await.unwrap();
            assert_eq!(ids.len(), 500);
            assert_eq!(trips.load(Ordering::SeqCst) - before, 1);
        }
        let before = trips.load(Ordering::SeqCst);
        enqueue(&mut transaction, &complete("one")).await.unwrap();
        assert_eq!(trips.load(Ordering::SeqCst) - before, 1);
        transaction.commit().await.unwrap();
    });
    assert_eq!(number(&mut fixture.client(), "SELECT count(*) FROM outbox"), 401);
}

/// A socket that counts round trips.
mod counted {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
    use tokio::net::TcpStream;

    pub struct Counted {
        socket: TcpStream,
        writing: bool,
        trips: Arc<AtomicUsize>,
    }

    impl Counted {
        pub fn new(socket: TcpStream, trips: Arc<AtomicUsize>) -> Counted {
            Counted { socket, writing: false, trips }
        }
    }

    impl AsyncRead for Counted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            let filled = buffer.filled().len();
            let poll = Pin::new(&mut self.socket).poll_read(context, buffer);
            if buffer.filled().len() > filled && std::mem::take(&mut self.writing) {
                self.trips.fetch_add(1, Ordering::SeqCst);
            }
            poll
        }
    }

    impl AsyncWrite for Counted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            self.writing = true;
            Pin::new(&mut self.socket).poll_write(context, bytes)
        }

        fn poll_flush(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<std::io::Result<()>> {
            Pin::new(&mut self.socket).poll_flush(context)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<std::io::Result<()>> {
            Pin::new(&mut self.socket).poll_shutdown(context)
        }
    }
}
