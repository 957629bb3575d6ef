//! The application's side: events written in the application's own transaction.
//!
//! ```
//! # #[cfg(feature = "tokio-postgres")]
//! # async fn place(client: &mut tokio_postgres::Client)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let event = postrider_outbox::Event::json("orders", &serde_json::json!({ "order": 17 }))?
//!     .ordering_key("customer-4")
//!     .idempotency_key("order-17-placed");
//! let mut transaction = client.transaction().await?;
//! transaction.execute("INSERT INTO orders (id) VALUES (17)", &[]).await?;
//! postrider_outbox::enqueue(&mut transaction, &event).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Order and event are committed together or not at all; the relay publishes what was committed. An
//! event is checked before the database is called, so a mistake in it leaves the transaction
//! usable. A transaction waits for another one that has written the same topic and idempotency key,
//! and can therefore end in a deadlock or, above READ COMMITTED, in a serialization failure:
//! [`Error::is_retryable`] is true then, and the whole transaction is to be retried.
//!
//! The work is done by functions in the database, which `postrider migrate` creates and any
//! language can call. They know what a table calls its columns if the relay's configuration maps
//! them.

mod batch;
mod check;
mod connection;
mod count;
mod drivers;
mod error;
mod event;
pub mod inbox;
mod outbox;
mod trace;
mod transaction;

pub(crate) use connection::{Call, JsonText, Value};

pub use connection::Connection;
pub use error::{Error, Invalid};
pub use event::Event;
pub use outbox::{Enqueued, Outbox};
pub use transaction::{Begin, with_transaction};

/// Writes an event to the table `public.outbox` and returns its id: see [`Outbox::enqueue`].
pub async fn enqueue<C: Connection>(
    connection: &mut C,
    event: &Event,
) -> Result<Option<String>, Error> {
    Outbox::default().enqueue(connection, event).await
}

/// [`enqueue`], which also returns whether the event was written or existed already: see
/// [`Outbox::enqueue_new`].
pub async fn enqueue_new<C: Connection>(
    connection: &mut C,
    event: &Event,
) -> Result<Enqueued, Error> {
    Outbox::default().enqueue_new(connection, event).await
}

/// Writes events to the table `public.outbox` and returns their ids: see [`Outbox::enqueue_batch`].
pub async fn enqueue_batch<C: Connection>(
    connection: &mut C,
    events: &[Event],
) -> Result<Vec<Option<String>>, Error> {
    Outbox::default().enqueue_batch(connection, events).await
}

/// Writes an event to the log alone, without a table, and returns its id. The relay must be
/// configured to read it there (`postgres.messages = true`), and nothing is deduplicated: the docs
/// list what else differs.
pub async fn emit<C: Connection>(connection: &mut C, event: &Event) -> Result<String, Error> {
    let written = async {
        event.check(false)?;
        connection.call(event.call_emit(&event.trace())).await
    };
    count::result(event.topic(), written.await)
}

/// Writes events to the log alone in one round trip, in their order, and returns their ids in the
/// same order: [`emit`] for many, and cheaper for everything that reads the log.
///
/// # Errors
/// As for one event. Then none of them is written.
pub async fn emit_batch<C: Connection>(
    connection: &mut C,
    events: &[Event],
) -> Result<Vec<String>, Error> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let written = async {
        batch::check(events, false)?;
        connection.call(batch::call_emit(events)).await
    };
    count::results(events, written.await)
}
