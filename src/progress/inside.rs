//! Whether a session may continue inside a transaction where an earlier session stopped.

use sha2::{Digest, Sha256};
use tokio_postgres::{Client, Error};

use super::{Identity, Progress};
use crate::config::PostgresConfig;
use postrider_core::ack::DoneInside;
use postrider_core::row::PresentTable;

/// To be changed when events are counted in another way.
const COUNTING: u32 = 1;

/// How far inside a transaction everything is done, and what that depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inside {
    /// How far.
    pub done: DoneInside,
    /// See [`depends_on`].
    pub depends_on: String,
}

impl Progress {
    /// What is done inside the transaction after the position, if it still identifies the same
    /// events. In doubt they are published again.
    pub(crate) fn inside(&self, depends_on: &str) -> Option<DoneInside> {
        let inside = self.inside.as_ref()?;
        let fits = inside.depends_on == depends_on && inside.done.commit_lsn() >= self.position;
        fits.then_some(inside.done)
    }
}

/// A hash of all that decides which rows and messages of a transaction are events, and in which
/// order they come. If any of it has changed, an event before the stored place may never have been
/// published.
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
    const SQL: &str = "SELECT current_setting('server_version_num'), \
                (SELECT b::text FROM pg_publication b WHERE b.pubname = $1), \
                (SELECT string_agg(r::text, ' ' ORDER BY r.prrelid) \
                   FROM pg_publication_rel r JOIN pg_publication b ON b.oid = r.prpubid \
                  WHERE b.pubname = $1 AND r.prrelid = ANY($2))";
    let ids: Vec<u32> = tables.iter().map(|table| table.id).collect();
    let row = client.query_one(SQL, &[&config.publication, &ids]).await?;
    let mut facts = Facts {
        generation,
        here,
        publication: &config.publication,
        messages: config.messages.is_some(),
        binary,
        tables: Vec::new(),
        server_version: row.try_get(0)?,
        publication_row: row.try_get(1)?,
        publication_entries: row.try_get(2)?,
    };
    for (table, present) in config.tables.iter().zip(tables) {
        let mut partitions = present.partitions.clone();
        partitions.sort_unstable();
        facts.tables.push((table.name.to_string(), present.id, partitions));
    }
    Ok(text_id(&facts.text()))
}

/// All that decides.
struct Facts<'a> {
    generation: &'a str,
    here: &'a Identity,
    publication: &'a str,
    messages: bool,
    binary: bool,
    /// Name, OID, and the OIDs of the partitions.
    tables: Vec<(String, u32, Vec<u32>)>,
    server_version: String,
    /// As pg_publication has it: its operations, its options, its owner.
    publication_row: Option<String>,
    /// As pg_publication_rel has them: row filters, column lists.
    publication_entries: Option<String>,
}

impl Facts<'_> {
    fn text(&self) -> String {
        let Facts { generation, here, publication, messages, binary, tables, .. } = self;
        let Identity { system_identifier, timeline } = here;
        let mut text = format!(
            "{COUNTING} {generation} {system_identifier} {timeline} {publication} {messages} {binary}"
        );
        for (name, id, partitions) in tables {
            text += &format!("\n{name} {id} {partitions:?}");
        }
        let Facts { server_version, publication_row, publication_entries, .. } = self;
        for fact in [Some(server_version), publication_row.as_ref(), publication_entries.as_ref()] {
            text.extend(fact.into_iter().flat_map(|fact| ["\n", fact]));
        }
        text
    }
}

/// The same as `postrider.text_id` in SQL, which earlier versions used for it.
fn text_id(text: &str) -> String {
    let mut id = String::with_capacity(36);
    for (place, byte) in Sha256::digest(text.as_bytes()).iter().take(16).enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            id.push('-');
        }
        id += &format!("{byte:02x}");
    }
    id
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use postrider_core::lsn::Lsn;

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
            server_version: "180000".to_owned(),
            publication_row: Some("(1,p,t)".to_owned()),
            publication_entries: Some("(2,1,7)".to_owned()),
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
            Facts { server_version: "190000".to_owned(), ..facts() },
            Facts { publication_row: Some("(1,p,f)".to_owned()), ..facts() },
            Facts { publication_row: None, ..facts() },
            Facts { publication_entries: Some("(2,1,7,filter)".to_owned()), ..facts() },
            Facts { publication_entries: None, ..facts() },
        ];
        let different: BTreeSet<String> = all.iter().map(|facts| text_id(&facts.text())).collect();
        assert_eq!(different.len(), all.len(), "{different:#?}");
    }

    #[test]
    fn a_text_has_the_id_that_postgres_gives_it() {
        assert_eq!(text_id(""), "e3b0c442-98fc-1c14-9afb-f4c8996fb924");
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
        assert!(!check(99, "a"), "the transaction is before the position");
        assert!(!check(200, "b"));
    }
}
