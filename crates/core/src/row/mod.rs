//! Outbox rows: which columns a table has, what a row's bytes mean; and events without a table. No
//! I/O.

mod column;
mod fault;
mod layout;
mod message;
mod names;
mod present;
#[cfg(test)]
pub mod tests;
mod values;

pub use column::{Column, Source};
pub use fault::{ColumnFault, RowFault};
pub use layout::{Layout, LayoutError, built_in_type, has_binary_form};
pub use message::MESSAGE_BYTES_MAX;
pub use message::{MESSAGES, MessageFault, PREFIX, pack};
pub use names::{ColumnNames, ColumnRef};
pub use present::{PresentColumn, PresentTable};
pub use values::{Row, explicit_partition};
