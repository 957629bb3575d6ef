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
    const SQL: &str = "SELECT postrider.text_id(concat_ws(E'\\n', $1::text, \
                current_setting('server_version_num'), \
                (SELECT b::text FROM pg_publication b WHERE b.pubname = $2), \
                (SELECT string_agg(r::text, ' ' ORDER BY r.prrelid) \
                   FROM pg_publication_rel r JOIN pg_publication b ON b.oid = r.prpubid \
                  WHERE b.pubname = $2 AND r.prrelid = ANY($3))))::text";
    let mut facts = Facts {
        generation,
        here,
        publication: &config.publication,
        messages: config.messages.is_some(),
        binary,
        tables: Vec::new(),
    };
    for (table, present) in config.tables.iter().zip(tables) {
        let mut partitions = present.partitions.clone();
        partitions.sort_unstable();
        facts.tables.push((table.name.to_string(), present.id, partitions));
    }
    let parts = facts.text();
    let ids: Vec<u32> = tables.iter().map(|table| table.id).collect();
    client.query_one(SQL, &[&parts, &config.publication, &ids]).await?.try_get(0)
}

/// What is known here of all that decides; the rest is asked for in SQL.
struct Facts<'a> {
    generation: &'a str,
    here: &'a Identity,
    publication: &'a str,
    messages: bool,
    binary: bool,
    /// Name, OID, and the OIDs of the partitions.
    tables: Vec<(String, u32, Vec<u32>)>,
}

impl Facts<'_> {
    fn text(&self) -> String {
        let Facts { generation, here, publication, messages, binary, tables } = self;
        let Identity { system_identifier, timeline } = here;
        let mut text = format!(
            "{COUNTING} {generation} {system_identifier} {timeline} {publication} {messages} {binary}"
        );
        for (name, id, partitions) in tables {
            text += &format!("\n{name} {id} {partitions:?}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::lsn::Lsn;

    #[test]
    fn everything_that_decides_is_in_it() {
        let identity =
            |system: &str, timeline| Identity { system_identifier: system.to_owned(), timeline };
        let (here, promoted, copy) = (identity("s", 1), identity("s", 2), identity("x", 1));
        let table = |id, partitions: &[u32]| vec![("public.a".to_owned(), id, partitions.to_vec())];
        let facts = || Facts {
            generation: "g",
            here: &here,
            publication: "p",
            messages: false,
            binary: true,
            tables: table(7, &[8]),
        };
        let two = [table(7, &[8]), table(9, &[])].concat();
        let all = [
            facts(),
            Facts { generation: "h", ..facts() },
            Facts { here: &promoted, ..facts() },
            Facts { here: &copy, ..facts() },
            Facts { publication: "q", ..facts() },
            Facts { messages: true, ..facts() },
            Facts { binary: false, ..facts() },
            Facts { tables: table(6, &[8]), ..facts() },
            Facts { tables: table(7, &[8, 9]), ..facts() },
            Facts { tables: two, ..facts() },
        ];
        let different: BTreeSet<String> = all.iter().map(Facts::text).collect();
        assert_eq!(different.len(), all.len(), "{different:#?}");
    }

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
