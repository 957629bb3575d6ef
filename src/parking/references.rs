//! Values that are too large for the side table: they are read from the outbox before their events
//! are sent.

use std::collections::HashMap;

use tokio_postgres::{Client, Error};

use super::sender::RowResult;
use super::store::{self, ParkedRow};
use crate::config::OutboxTable;
use crate::postgres::describe;
use postrider_core::delivery::{Reason, Refusal};
use postrider_core::parking::Completeness;

/// By row id: what becomes of rows whose values can't be read.
pub(super) struct UnreadableValues(HashMap<i64, RowResult>);

/// Adds the values. An error that Postgres reports about one of them, for example a missing right,
/// can be fixed, so it is the result of that row and of no other.
pub(super) async fn load_values(
    client: &Client,
    rows: &mut [ParkedRow],
    tables: &[OutboxTable],
) -> Result<UnreadableValues, Error> {
    let mut unreadable = HashMap::new();
    for row in rows.iter_mut().filter(|row| row.completeness == Completeness::Reference) {
        match store::reference_value(client, row, tables).await {
            Ok(Ok(value)) => {
                row.value = value;
                row.completeness = Completeness::Whole;
            }
            Ok(Err(refusal)) => drop(unreadable.insert(row.id, RowResult::Reject(refusal))),
            Err(error) if error.as_db_error().is_some() && !client.is_closed() => {
                let (table, reason) = (&row.source_table, describe(&error));
                let detail = format!("the event's value can't be read from {table}: {reason}");
                let refusal = Refusal { reason: Reason::ValueMissing, detail };
                unreadable.insert(row.id, RowResult::Retry(refusal));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(UnreadableValues(unreadable))
}

impl UnreadableValues {
    /// Rows without their value are refused by the sender, which also holds back the rows after
    /// them. It does not know why the value is missing.
    pub(super) fn explain(mut self, rows: &[ParkedRow], results: &mut [RowResult]) {
        for (row, result) in rows.iter().zip(results) {
            if let RowResult::Reject(_) = result
                && let Some(why) = self.0.remove(&row.id)
            {
                *result = why;
            }
        }
    }
}
