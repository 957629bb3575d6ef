//! The parts of postrider that do no I/O: no runtime, no network, no SQL client, and no clock of
//! their own.
//!
//! They are in the order in which an event meets them:
//!
//! | module | what it does |
//! |---|---|
//! | [`lsn`], [`clock`] | positions in the log; the time by two clocks |
//! | [`framing`], [`pgoutput`] | bytes of the stream → messages |
//! | [`transaction`], [`same_position`] | Begin, rows, Commit → positions, which only increase |
//! | [`connect`] | columns' values by their types, as Kafka Connect has and writes them |
//! | [`row`] | a table's layout, a row's values |
//! | [`order`] | which events keep their order with each other |
//! | [`route`], [`format`] | where a table's events go, and in which form |
//! | [`event`] | row → event |
//! | [`envelope`] | event → record: value, headers, timestamp |
//! | [`debezium`] | the same as Debezium's Outbox Event Router does it |
//! | [`delivery`] | what the relay and a destination exchange about records |
//! | [`ack`], [`feedback`] | acknowledgements → the position that may be confirmed, and when |
//! | [`gap`] | why a slot may lack events |
//! | [`parking`] | rules for events that can't be published |
//! | [`cleaning`] | rules for deleting rows |
//! | [`transaction_age`] | which transaction wrote a row |
//!
//! The crate is a part of postrider, not an API: it has postrider's version, and changes with it.

// Everything is public here because the program is another crate.
#![allow(missing_docs)]

pub mod lsn;

pub mod clock;

pub mod framing;

pub mod pgoutput;

pub mod transaction;

pub mod same_position;

pub mod connect;

pub mod row;

pub mod order;

pub mod route;

pub mod format;

pub mod event;

pub mod envelope;

pub mod debezium;

pub mod delivery;

pub mod ack;

pub mod feedback;

pub mod gap;

pub mod parking;

pub mod cleaning;

pub mod transaction_age;
