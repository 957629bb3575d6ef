//! What has become of a promise: the decision, without a database.

use std::fmt;

use crate::config::TableName;

/// A promised table, as the catalogs have it.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) outbox: u32,
    /// Its name when it was last found intact.
    pub(super) known_as: Option<TableName>,
    /// Its present name; none: it was dropped.
    pub(super) name: Option<TableName>,
    /// Another table has the name it is known by.
    pub(super) is_replaced: bool,
    /// It is UNLOGGED, or one of its partitions is.
    pub(super) is_unlogged: bool,
    /// It is in the publication, and always was.
    pub(super) is_kept: bool,
    /// It was promised through this other publication, and the one that is read does not send its
    /// rows.
    pub(super) through: Option<String>,
}

/// What is promised for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promise {
    /// The table's OID.
    pub outbox: u32,
    /// Its name, for people.
    pub name: String,
    /// What has become of it.
    pub state: PromiseState,
}

/// What has become of a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PromiseState {
    /// The table is read, and the slot has all of its rows.
    Kept,
    /// The table is not one of those that are read.
    Unread,
    /// It is not read, and its rows are not sent either: a relay would skip them unnoticed.
    Unsent {
        /// The publication that it was promised through.
        through: String,
    },
    /// The slot may lack rows of a table that is read.
    Lapsed(Lapse),
}

/// Why the slot may lack rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// The table was dropped.
    Dropped,
    /// It has another name, and no table has its old one. A relay that is reading it can continue.
    Renamed(TableName),
    /// Another table has its name.
    Replaced {
        /// What it is called now, if it is still there.
        now: Option<TableName>,
    },
    /// Its rows do not go through the log.
    Unlogged,
    /// It was out of the publication, or that did not publish inserts.
    Unpublished {
        /// The publication's name.
        publication: String,
    },
}

impl Found {
    pub(super) fn judge(self, publication: &str, tables: &[TableName]) -> Promise {
        let is_read =
            |name: &Option<TableName>| name.as_ref().is_some_and(|it| tables.contains(it));
        let was_read = is_read(&self.known_as);
        let state = match &self.name {
            // Its earlier name is unknown if an earlier version made the promise.
            None if was_read || self.known_as.is_none() => {
                PromiseState::Lapsed(if self.is_replaced {
                    Lapse::Replaced { now: None }
                } else {
                    Lapse::Dropped
                })
            }
            None => PromiseState::Unread,
            Some(name) if was_read && self.is_replaced => {
                PromiseState::Lapsed(Lapse::Replaced { now: Some(name.clone()) })
            }
            Some(_) if !was_read && !is_read(&self.name) => match self.through {
                Some(through) => PromiseState::Unsent { through },
                None => PromiseState::Unread,
            },
            Some(_) if self.is_kept && is_read(&self.name) => PromiseState::Kept,
            Some(name) if self.is_kept => PromiseState::Lapsed(Lapse::Renamed(name.clone())),
            Some(_) if self.is_unlogged => PromiseState::Lapsed(Lapse::Unlogged),
            Some(_) => {
                PromiseState::Lapsed(Lapse::Unpublished { publication: publication.to_owned() })
            }
        };
        let name = match (&state, &self.known_as, &self.name) {
            (PromiseState::Lapsed(_), Some(name), _)
            | (_, _, Some(name))
            | (_, Some(name), None) => name.to_string(),
            _ => format!("with OID {}", self.outbox),
        };
        Promise { outbox: self.outbox, name, state }
    }
}

/// The promises that can't be relied on, as sentences. While the relay runs, a table that was only
/// renamed is still read: its rows are identified by its OID.
pub(crate) fn lapses(promises: &[Promise], is_running: bool) -> Vec<String> {
    let lapsed = promises.iter().filter(|promise| match &promise.state {
        PromiseState::Lapsed(Lapse::Renamed(_)) => !is_running,
        PromiseState::Lapsed(_) => true,
        PromiseState::Kept | PromiseState::Unread | PromiseState::Unsent { .. } => false,
    });
    lapsed.map(ToString::to_string).collect()
}

/// The tables that are promised and not read.
pub(crate) fn unread(promises: &[Promise]) -> Vec<String> {
    let unread = promises.iter().filter_map(|Promise { name, state, .. }| match state {
        PromiseState::Unread => Some(name.clone()),
        PromiseState::Unsent { through } => Some(format!("{name} (publication \"{through}\")")),
        PromiseState::Kept | PromiseState::Lapsed(_) => None,
    });
    unread.collect()
}

/// Tables are promised through another publication than the one that is read, which does not send
/// their rows. Waiting for the first of them, as for rows that are skipped, would never end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "rows of {} are promised for slot \"{slot}\", but publication \"{publication}\" does not send \
     them: they would be skipped unnoticed",
    .tables.iter().map(|(table, through)| format!("{table} (publication \"{through}\")"))
        .collect::<Vec<_>>().join(", ")
)]
pub(crate) struct Unsent {
    slot: String,
    publication: String,
    /// Each with the publication that it was promised through.
    tables: Vec<(String, String)>,
}

impl Unsent {
    /// None if all promised tables come through this publication.
    pub(crate) fn find(slot: &str, publication: &str, promises: &[Promise]) -> Option<Self> {
        let tables: Vec<_> = promises
            .iter()
            .filter_map(|promise| match &promise.state {
                PromiseState::Unsent { through } => Some((promise.name.clone(), through.clone())),
                _ => None,
            })
            .collect();
        let (slot, publication) = (slot.to_owned(), publication.to_owned());
        (!tables.is_empty()).then_some(Unsent { slot, publication, tables })
    }

    /// How to fix it.
    pub(crate) fn fix(&self) -> String {
        let withdraw: Vec<String> =
            self.tables.iter().map(|(table, _)| format!("--withdraw {table}")).collect();
        format!(
            "set postgres.publication to the one that they were promised through, or postgres.slot \
             to a slot that nobody else uses; or, to end the promise and skip such rows, run \
             `postrider migrate {}`",
            withdraw.join(" ")
        )
    }
}

/// For people.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.name;
        match &self.state {
            PromiseState::Kept => write!(f, "table {table} is in the slot"),
            PromiseState::Unread => write!(f, "table {table} is promised, but not read"),
            PromiseState::Unsent { through } => {
                write!(f, "table {table} is promised through publication \"{through}\"")
            }
            PromiseState::Lapsed(Lapse::Dropped) => write!(f, "table {table} was dropped"),
            PromiseState::Lapsed(Lapse::Renamed(now)) => {
                write!(f, "table {table} was renamed to {now}")
            }
            PromiseState::Lapsed(Lapse::Replaced { now }) => {
                write!(f, "table {table} was replaced by another table of that name")?;
                match now {
                    Some(now) => write!(f, " (the earlier one is now {now})"),
                    None => Ok(()),
                }
            }
            PromiseState::Lapsed(Lapse::Unlogged) => {
                write!(f, "table {table}, or a partition of it, is UNLOGGED")
            }
            PromiseState::Lapsed(Lapse::Unpublished { publication }) => write!(
                f,
                "table {table} was not in publication \"{publication}\" all the time, or was \
                 UNLOGGED for a time, or the publication was recreated or its options changed"
            ),
        }
    }
}

/// Why a relay must not move past rows of these tables.
pub(crate) fn unread_rows(slot: &str, tables: &[String]) -> String {
    format!(
        "received rows of {}, which {} promised for slot \"{slot}\", but this relay does not read \
         them; its position stays before them",
        tables.join(", "),
        if tables.len() == 1 { "is" } else { "are" },
    )
}

/// How to fix it.
pub(crate) fn fix_unread(tables: &[String]) -> String {
    let withdraw: Vec<String> = tables.iter().map(|table| format!("--withdraw {table}")).collect();
    format!(
        "start the relay with the configuration that names {} in postgres.tables; or, to end the \
         promise and skip such rows, run `postrider migrate {}`",
        tables.join(", "),
        withdraw.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        let name = || Some("a".parse().unwrap());
        let (known_as, name) = (name(), name());
        let (is_replaced, is_unlogged) = (false, false);
        let (is_kept, through) = (true, None);
        Found { outbox: 7, known_as, name, is_replaced, is_unlogged, is_kept, through }
    }

    #[track_caller]
    fn check(found: Found, tables: &[&str], said: &str, is_lapse: bool) {
        let tables: Vec<TableName> = tables.iter().map(|name| name.parse().unwrap()).collect();
        let promise = found.judge("p", &tables);
        assert!(promise.to_string().contains(said), "{promise}");
        assert_eq!(lapses(&[promise], false).len(), usize::from(is_lapse));
    }

    #[test]
    fn a_promise_is_kept_unread_or_broken() {
        let name = |text: &str| Some(text.parse().unwrap());
        check(found(), &["a"], "in the slot", false);
        check(found(), &["b"], "not read", false);
        check(Found { name: None, ..found() }, &["a"], "dropped", true);
        check(Found { name: None, ..found() }, &["b"], "public.a is promised", false);
        check(Found { name: None, known_as: None, ..found() }, &["b"], "OID 7 was dropped", true);
        check(Found { name: name("c"), ..found() }, &["a"], "renamed to public.c", true);
        check(Found { name: name("c"), ..found() }, &["c"], "in the slot", false);
        let replaced = Found { name: name("c"), is_replaced: true, ..found() };
        check(replaced.clone(), &["a"], "public.a was replaced", true);
        check(replaced.clone(), &["a", "c"], "public.a was replaced", true);
        check(replaced, &["c"], "in the slot", false);
        let broken = Found { is_kept: false, ..found() };
        check(broken.clone(), &["a"], "not in publication", true);
        check(broken.clone(), &["b"], "not read", false);
        check(Found { is_unlogged: true, ..broken.clone() }, &["a"], "UNLOGGED", true);
        let elsewhere = Found { through: Some("q".to_owned()), ..broken };
        check(elsewhere.clone(), &["a"], "not in publication \"p\"", true);
        check(elsewhere.clone(), &["b"], "through publication \"q\"", false);
        check(Found { name: None, ..elsewhere }, &["b"], "not read", false);
    }

    #[test]
    fn rows_that_another_publication_sends_are_not_waited_for() {
        let find = |through: Option<&str>| {
            let found = Found { through: through.map(str::to_owned), ..found() };
            let promise = found.judge("p", &["b".parse().unwrap()]);
            assert_eq!(unread(std::slice::from_ref(&promise)).len(), 1);
            Unsent::find("s", "p", &[promise])
        };
        assert_eq!(find(None), None);
        let unsent = find(Some("q")).unwrap();
        let (what, fix) = (unsent.to_string(), unsent.fix());
        assert!(what.contains("rows of public.a (publication \"q\") are promised"), "{what}");
        assert!(fix.contains("`postrider migrate --withdraw public.a`"), "{fix}");
    }

    #[test]
    fn a_table_that_was_only_renamed_is_read_on() {
        let renamed = Found { name: Some("c".parse().unwrap()), ..found() };
        let promise = renamed.judge("p", &["a".parse().unwrap()]);
        assert!(lapses(std::slice::from_ref(&promise), true).is_empty());
        assert_eq!(lapses(&[promise], false).len(), 1);
    }
}
