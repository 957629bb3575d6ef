//! The consumer's side: records come at least once, effects happen once.
//!
//! ```
//! # #[cfg(feature = "tokio-postgres")]
//! # async fn consume(client: &mut tokio_postgres::Client, key: &str)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let mut transaction = client.transaction().await?;
//! if postrider_outbox::inbox::claim(&mut transaction, "shipping", key).await? {
//!     transaction.execute("INSERT INTO shipments (order_id) VALUES (17)", &[]).await?;
//! }
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Claim and effect are committed together. A consumer that is stopped in between has done neither,
//! and the next to get the record does both. The table is created by `postrider migrate`, or in a
//! database of the consumer's own by `migrations/0006_inbox.sql` alone.

use std::time::Duration;

use crate::{Call, Connection, Error, Invalid, Value};

const CONSUMER_BYTES_MAX: usize = 255;
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 512;

/// True for the first transaction that commits with this claim: do the effect in the same one.
/// False if the effect has happened. If another transaction holds the claim, this waits until it
/// ends.
///
/// `consumer` is a name for the consumer, `idempotency_key` the record's header of that name. Keys
/// are unique within a topic: a consumer of several topics needs a name for each.
///
/// # Errors
/// A name that is empty or too long, before the database is called; then the errors of the
/// database.
pub async fn claim<C: Connection>(
    connection: &mut C,
    consumer: &str,
    idempotency_key: &str,
) -> Result<bool, Error> {
    fits("consumer", consumer, CONSUMER_BYTES_MAX, "use 1 to 255 bytes that name the consumer")?;
    let hint = "use 1 to 512 bytes: the header idempotency-key of the record";
    fits("idempotency_key", idempotency_key, IDEMPOTENCY_KEY_BYTES_MAX, hint)?;
    let mut call = Call::new("inbox_claim");
    call.text("consumer", "text", Some(consumer));
    call.text("idempotency_key", "text", Some(idempotency_key));
    connection.call(call).await
}

/// Deletes claims that are older than `retention`, at most 10,000, and returns how many: call it
/// again until that is 0. The effect of a deleted claim can happen again, so keep claims for longer
/// than the topic keeps records.
///
/// # Errors
/// The errors of the database.
pub async fn clean<C: Connection>(connection: &mut C, retention: Duration) -> Result<u64, Error> {
    let mut call = Call::new("inbox_clean");
    let seconds = format!("{} seconds", retention.as_secs());
    call.argument("retention", "text::interval", Value::Text(Some(seconds.into())));
    let cleaned: i64 = connection.call(call).await?;
    Ok(cleaned.unsigned_abs())
}

fn fits(
    argument: &'static str,
    text: &str,
    bytes_max: usize,
    hint: &'static str,
) -> Result<(), Invalid> {
    match text.len() {
        0 => Err(Invalid::new(argument, "is empty", hint)),
        bytes if bytes > bytes_max => {
            Err(Invalid::new(argument, format!("has {bytes} bytes"), hint))
        }
        _ if text.contains('\0') => Err(Invalid::new(argument, "contains NUL", hint)),
        _ => Ok(()),
    }
}
