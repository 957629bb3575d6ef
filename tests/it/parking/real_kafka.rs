//! What only a real broker refuses.

mod attempts;
mod breaker;
mod codes;
mod denied;
mod instances;
mod kills;
mod many_topics;
mod mixed;
mod partitions;
mod postgres_faults;
mod recreated;
mod references;
mod topics;
