//! The one lock under which the first rows of keys change: a row of our own, so that no other
//! program takes it. It is held only in short transactions.

use tokio_postgres::{Error, Transaction};

/// Waits for the lock of a slot. It ends with the transaction. Returns which session parks events.
pub async fn lock(tx: &Transaction<'_>, slot: &str) -> Result<Option<String>, Error> {
    const LOCK: &str = "SELECT parker::text FROM postrider.slot_lock WHERE slot = $1 FOR UPDATE";
    const MAKE: &str = "INSERT INTO postrider.slot_lock (slot) VALUES ($1) ON CONFLICT DO NOTHING";
    let row = match tx.query_opt(LOCK, &[&slot]).await? {
        Some(row) => row,
        None => {
            tx.execute(MAKE, &[&slot]).await?;
            tx.query_one(LOCK, &[&slot]).await?
        }
    };
    row.try_get(0)
}

/// Waits for the lock, and so until an earlier session has finished its writes; from now on only
/// the caller parks events of the slot. A relay that was frozen meanwhile must not add an event
/// that this one does not know of: its key would be free here, and held in the table.
pub async fn begin_parking(tx: &Transaction<'_>, slot: &str) -> Result<String, Error> {
    const SQL: &str = "UPDATE postrider.slot_lock SET parker = gen_random_uuid() WHERE slot = $1 \
        RETURNING parker::text";
    lock(tx, slot).await?;
    tx.query_one(SQL, &[&slot]).await?.try_get(0)
}
