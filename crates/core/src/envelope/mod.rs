//! Events → records: key, value, headers, timestamp. No I/O; the clock is an argument.

mod build;
mod format;
mod headers;
mod record;
mod timestamp;

pub use build::Envelope;
pub use format::{Schema, SchemaNeed, protobuf};
pub use headers::COMMITTED_AT as COMMITTED_AT_HEADER;
pub use record::{Destination, Header, Record};
pub use timestamp::{rfc3339, stamp};
