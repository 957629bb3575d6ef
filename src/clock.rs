//! Reads the two clocks that postrider knows: this machine's and the database server's.
//!
//! The clock that decides is the broker's, which can't be queried. If the two agree, they are
//! trusted. If they don't, it is unknown which one is wrong, so timestamps are kept within what
//! both allow (ADR 23).

use std::time::{SystemTime, UNIX_EPOCH};

use postrider_core::clock::Clocks;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, GenericClient, ToStatement};

/// An answer that took longer is too inexact.
const ANSWER_WITHIN_MICROS: i64 = 2_000_000;

/// The query for the server's time.
pub(crate) const QUESTION: &str =
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The present time, where the server's clock is ahead of this machine's by this much.
pub(crate) fn now(server_ahead_micros: i64) -> Clocks {
    Clocks::at(unix_micros(), server_ahead_micros)
}

/// By how much the server's clock is ahead of this machine's. None: the answer took too long.
pub(crate) async fn server_ahead_micros(
    client: &impl GenericClient,
    question: &(impl ToStatement + ?Sized + Sync + Send),
) -> Result<Option<i64>, Error> {
    let asked = unix_micros();
    let nothing: &[&(dyn ToSql + Sync)] = &[];
    let server: i64 = client.query_one(question, nothing).await?.try_get(0)?;
    let took = unix_micros().saturating_sub(asked);
    let middle = asked.saturating_add(took / 2);
    Ok((0..=ANSWER_WITHIN_MICROS).contains(&took).then(|| server.saturating_sub(middle)))
}

pub(crate) fn unix_micros() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}
