//! What the role is allowed to do in the database: on postrider's own tables, and on the outbox
//! tables.
//!
//! A missing right is always a [`Lacking`]: what is missing, and the statement that grants it. All
//! of them are found at once, so that an administrator is asked only once.

mod outbox;
mod own;

pub(crate) use self::outbox::{HiddenRows, hidden_rows, lacking_on_tables};
pub(crate) use self::own::{Access, Missing, check_access_to, missing_rights};
pub use self::own::{NoAccess, check_access};

/// A right that the role does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lacking {
    /// For people, with what it is needed for.
    pub(crate) right: String,
    /// What grants it.
    pub(crate) statement: String,
}

/// The rights, for a sentence.
pub(crate) fn rights(lacking: &[Lacking]) -> String {
    lacking.iter().map(|lacking| lacking.right.as_str()).collect::<Vec<_>>().join("; ")
}

/// The statements, ready to be run.
pub(crate) fn remedy(lacking: &[Lacking]) -> String {
    lacking.iter().map(|lacking| format!("{};", lacking.statement)).collect::<Vec<_>>().join(" ")
}
