//! Whether a transaction may be gone on with where an earlier session was inside it.

use tokio_postgres::{Client, Error};

use super::{Identity, Progress};
use crate::ack::DoneInside;
use crate::config::PostgresConfig;
use crate::outbox::PresentTable;

/// Another number when events are counted in another way.
const COUNTING: u32 = 1;

/// How far inside a transaction everything is done, and what that depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// How far.
    pub done: DoneInside,
    /// See [`depends_on`].
    pub depends_on: String,
}

impl Progress {
    /// What is done inside the transaction after the position, if that still says which events these
    /// are. In doubt they are published again.
    pub fn inside(&self, depends_on: &str) -> Option<DoneInside> {
        let inside = self.inside.as_ref()?;
        let fits = inside.depends_on == depends_on && inside.done.commit_lsn() >= self.position;
        fits.then_some(inside.done)
    }
}

/// A hash of all that decides which rows and messages of a transaction are events, and in which order
/// they come. If any of it has changed, an event before the stored place may never have been published.
///
/// The form of values counts, because the bytes of rows decide how many are held to be sorted.
pub(crate) async fn depends_on(
    client: &Client,
    config: &PostgresConfig,
    generation: &str,
    here: &Identity,
    tables: &[PresentTable],
    binary: bool,
) -> Result<String, Error> {
    const SQL: &str = "SELECT md5(concat_ws(E'\\n', $1::text, \
                current_setting('server_version_num'), \
                (SELECT b::text FROM pg_publication b WHERE b.pubname = $2), \
                (SELECT string_agg(r::text, ' ' ORDER BY r.prrelid) \
                   FROM pg_publication_rel r JOIN pg_publication b ON b.oid = r.prpubid \
                  WHERE b.pubname = $2 AND r.prrelid = ANY($3))))::uuid::text";
    let Identity { system_identifier, timeline } = here;
    let messages = config.messages.is_some();
    let mut parts = format!(
        "{COUNTING} {generation} {system_identifier} {timeline} {} {messages} {binary}",
        config.publication
    );
    for (table, present) in config.tables.iter().zip(tables) {
        let mut partitions = present.partitions.clone();
        partitions.sort_unstable();
        parts += &format!("\n{} {} {partitions:?}", table.name, present.id);
    }
    let ids: Vec<u32> = tables.iter().map(|table| table.id).collect();
    client.query_one(SQL, &[&parts, &config.publication, &ids]).await?.try_get(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;

    #[test]
    fn what_depends_on_something_else_or_is_over_is_void() {
        let check = |commit: u64, depends_on: &str| {
            let done = DoneInside::stored(Lsn::new(commit), Lsn::new(7), 3);
            let progress = Progress {
                generation: "g".to_owned(),
                system_identifier: None,
                position: Lsn::new(100),
                has_moved: true,
                inside: Some(Inside { done, depends_on: "a".to_owned() }),
            };
            progress.inside(depends_on).is_some()
        };
        assert!(check(100, "a") && check(200, "a"));
        assert!(!check(99, "a"), "the transaction lies before the position");
        assert!(!check(200, "b"));
    }
}
