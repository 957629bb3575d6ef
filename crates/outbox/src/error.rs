//! What can go wrong on the way into an outbox.

use std::borrow::Cow;
use std::fmt;

/// An event that can't be published as it is. The database was not called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    argument: &'static str,
    problem: Cow<'static, str>,
    hint: &'static str,
    /// The event's number, from 1, and how many there are.
    place: Option<(usize, usize)>,
}

impl Invalid {
    pub(crate) fn new(
        argument: &'static str,
        problem: impl Into<Cow<'static, str>>,
        hint: &'static str,
    ) -> Self {
        Invalid { argument, problem: problem.into(), hint, place: None }
    }

    pub(super) fn at(self, number: usize, count: usize) -> Self {
        Invalid { place: Some((number, count)), ..self }
    }

    /// What is wrong: the name of the function's argument in the database.
    pub fn argument(&self) -> &'static str {
        self.argument
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        self.hint
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((number, count)) = self.place {
            write!(f, "event {number} of {count}: ")?;
        }
        write!(f, "{} {}; {}", self.argument, self.problem, self.hint)
    }
}

impl std::error::Error for Invalid {}

/// Why an event was not written, or a record not claimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's mistake, found before the database was called: the transaction is unchanged.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The database's answer. The transaction has failed.
    #[cfg(feature = "tokio-postgres")]
    #[error("{}", said(.0.as_db_error().map(|error| (error.message(), error.hint())), .0))]
    TokioPostgres(#[from] tokio_postgres::Error),
    /// The database's answer. The transaction has failed.
    #[cfg(feature = "sqlx")]
    #[error("{}", said(.0.as_database_error().map(|error| (error.message(), hint(error))), .0))]
    Sqlx(#[from] sqlx::Error),
}

impl Error {
    /// Whether the whole transaction can succeed if it is retried from its beginning: it conflicted
    /// with another one (a serialization failure or a deadlock).
    pub fn is_retryable(&self) -> bool {
        self.sqlstate().is_some_and(|code| matches!(code.as_ref(), "40001" | "40P01"))
    }

    /// The five characters of Postgres's own code for the error.
    pub fn sqlstate(&self) -> Option<Cow<'_, str>> {
        match self {
            Error::Invalid(_) => None,
            #[cfg(feature = "tokio-postgres")]
            Error::TokioPostgres(error) => error.code().map(|code| code.code().into()),
            #[cfg(feature = "sqlx")]
            Error::Sqlx(error) => error.as_database_error()?.code(),
        }
    }
}

/// The server's message and hint. Not its detail, which can hold a whole row.
#[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
fn said(server: Option<(&str, Option<&str>)>, driver: &dyn fmt::Display) -> String {
    match server {
        Some((message, Some(hint))) => format!("{message}; {hint}"),
        Some((message, None)) => message.to_owned(),
        None => driver.to_string(),
    }
}

#[cfg(feature = "sqlx")]
fn hint(error: &dyn sqlx::error::DatabaseError) -> Option<&str> {
    error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>()?.hint()
}
