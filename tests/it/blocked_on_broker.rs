//! A broker that does not acknowledge: what the relay reports, and how far it reads.

mod leaderless;
mod real_kafka;
