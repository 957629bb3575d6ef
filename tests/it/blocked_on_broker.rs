//! A broker that does not acknowledge: what the relay says, and what it keeps in mind.

mod leaderless;
mod real_kafka;
