//! What Debezium's Outbox Event Router does with a row, for tables that were made for it.

pub mod topic;
