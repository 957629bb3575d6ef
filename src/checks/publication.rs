//! The publication: whether it exists, and what it sends.

use tokio_postgres::{Client, Error};

use super::Finding;
use crate::config::quote_identifier;

/// A publication that exists.
pub(crate) struct Publication {
    inserts: bool,
    /// Rows of partitions arrive under the name of their table.
    pub(crate) via_root: bool,
}

impl Publication {
    pub(crate) async fn look_up(client: &Client, name: &str) -> Result<Option<Self>, Error> {
        let sql = "select pubinsert, pubviaroot from pg_publication where pubname = $1";
        let row = client.query_opt(sql, &[&name]).await?;
        row.map(|row| Ok(Publication { inserts: row.try_get(0)?, via_root: row.try_get(1)? }))
            .transpose()
    }

    pub(crate) fn check_inserts(&self, name: &str) -> Result<(), Finding> {
        if self.inserts {
            Ok(())
        } else {
            Err(Finding::new(
                format!("publication \"{name}\" does not publish inserts"),
                "events are inserted rows",
                format!(
                    "run ALTER PUBLICATION {} SET (publish = 'insert'), or choose another name for \
                 postgres.publication",
                    quote_identifier(name)
                ),
            ))
        }
    }
}

/// The finding if there is no publication.
pub(crate) fn missing(name: &str) -> Finding {
    Finding::new(
        format!("there is no publication \"{name}\""),
        "Postgres sends rows only through one",
        "run `postrider migrate`, which creates it; if it existed before, run `postrider recover`: \
         WAL from before a publication can't be read through it",
    )
}
