//! The form of the repository: sizes, words, links, the module graph and the packages. It needs no server.

// Test code: a panic is how it reports.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod exceptions;
mod files;
mod links;
mod modules;
mod packages;
mod scan;
mod sizes;
mod words;
