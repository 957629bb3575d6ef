//! What must be true before something is done. A check examines one thing, and reports what is
//! wrong as a [`Finding`]: what, why it matters, and the fix. `run` collects all findings and ends
//! with the first one; `migrate`, `recover` and a paused relay make the checks that concern them.

mod finding;
mod outbox_columns;
mod parked;
mod promised;
mod server;
mod slot;
mod startup;
pub(crate) mod table;
mod tables;

pub(crate) use self::finding::{Finding, Findings};
pub(crate) use self::outbox_columns::{
    columns_of, is_of_another, is_of_table, warn_outdated_columns,
};
pub(crate) use self::parked::{check_nothing_parked, check_side_table};
pub(crate) use self::promised::{check_promised, unread_by};
pub(crate) use self::server::{ServerFacts, check_server};
pub(crate) use self::slot::{Slot, SlotState, check_slot, confirmed_position, find_slot};
pub(crate) use self::startup::{Facts, check_startup, client_encoding};
pub(crate) use self::tables::{Publication, check_readable, check_tables_to_read};
