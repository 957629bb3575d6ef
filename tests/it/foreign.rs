//! Programs of others that read what postrider publishes. These tests try the programs, on records
//! made by hand as the specifications say: a reader that accepts everything proves nothing.

mod mock_registry;
mod real_kafka;
