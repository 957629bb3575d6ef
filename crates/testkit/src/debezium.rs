//! Debezium, in the versions that `scripts/setup compare` fetches, and the cases in which its records and
//! postrider's must be the same.
//!
//! A file of cases has a table, rows, and configurations: `[debezium]` sections as postrider has them. What
//! Debezium publishes of the rows under each of them is recorded in a file of the same name.

pub mod case;
pub mod comparison;
pub mod configuration;
pub mod connect;
mod jars;
mod publisher;
pub mod record;
pub mod server;
mod unstable;

pub use self::case::{Case, CaseFile, Step};
pub use self::configuration::{Configuration, Profile};
pub use self::publisher::Publisher;
pub use self::record::{Outcome, Published, Recorded};

/// Of each topic: enough that a record in the wrong one is noticed.
pub const PARTITIONS: i32 = 6;
