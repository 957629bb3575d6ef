//! One file per driver: how it calls a function, and how it begins and ends a transaction.

#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;
