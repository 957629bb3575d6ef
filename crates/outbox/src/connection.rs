//! What the library needs from a driver: to call one function and return its result.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A transaction, or a session in one, of a driver: `tokio_postgres::Transaction`,
/// `sqlx::Transaction<Postgres>`, `sqlx::PgConnection`. Implemented for the drivers that are
/// enabled.
pub trait Connection: driver::Connection {}

impl<C: driver::Connection> Connection for C {}

/// One call of a function of schema `postrider`, by names of arguments.
// `Call` and `Value` don't implement Debug: they hold payloads.
pub struct Call<'a> {
    sql: String,
    values: Vec<Value<'a>>,
    end: &'static str,
}

/// The kinds of arguments.
#[cfg_attr(not(any(feature = "tokio-postgres", feature = "sqlx")), allow(dead_code))]
pub(crate) enum Value<'a> {
    Text(Option<Cow<'a, str>>),
    Int(i32),
    Bytes(Option<&'a [u8]>),
    Texts(Vec<Option<Cow<'a, str>>>),
    Jsons(Vec<Option<JsonText<'a>>>),
    Ints(Vec<Option<i32>>),
    BytesOfMany(Vec<Option<&'a [u8]>>),
}

impl<'a> Call<'a> {
    pub(crate) fn new(function: &'static str) -> Self {
        Call { sql: format!("SELECT postrider.{function}("), values: Vec::new(), end: ")" }
    }

    /// A function that returns an id and whether it is new, as one array.
    pub(crate) fn telling(self) -> Self {
        let sql =
            self.sql.replacen("SELECT", "SELECT ARRAY[e.id, e.is_new::pg_catalog.text] FROM", 1);
        Call { sql, end: ") AS e", ..self }
    }

    /// `types` begins with the type that is sent; further ones are casts.
    pub(crate) fn argument(&mut self, name: &'static str, types: &str, value: Value<'a>) {
        let comma = if self.values.is_empty() { "" } else { ", " };
        self.values.push(value);
        // Writing to a string can't fail.
        let _ = write!(self.sql, "{comma}\"{name}\" => ${}::{types}", self.values.len());
    }

    /// The caller has done the checks that the function would do for each event.
    pub(crate) fn checked(&mut self) {
        self.sql.push_str(", \"checked\" => true");
    }

    /// Left to the function's default if there is none.
    pub(crate) fn text(&mut self, name: &'static str, types: &str, value: Option<&'a str>) {
        if let Some(value) = value {
            self.argument(name, types, Value::Text(Some(Cow::Borrowed(value))));
        }
    }

    #[cfg_attr(not(any(feature = "tokio-postgres", feature = "sqlx")), allow(dead_code))]
    pub(crate) fn into_parts(self) -> (String, Vec<Value<'a>>) {
        (self.sql + self.end, self.values)
    }
}

/// JSON as text, sent as JSON: a cast from text would copy it once more.
#[cfg_attr(not(any(feature = "tokio-postgres", feature = "sqlx")), allow(dead_code))]
pub(crate) struct JsonText<'a>(pub(crate) &'a str);

/// The drivers require it; the content is not shown.
impl std::fmt::Debug for JsonText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of JSON", self.0.len())
    }
}

/// Not reachable from outside the crate, so that it can change.
pub(super) mod driver {
    use super::Call;
    use crate::Error;

    pub trait Connection: Send {
        fn call<A: Answer>(
            &mut self,
            call: Call<'_>,
        ) -> impl Future<Output = Result<A, Error>> + Send;
    }

    /// What a function returns, readable by every driver that is enabled.
    pub trait Answer: TokioPostgres + Sqlx + Send + Unpin + 'static {}

    impl Answer for bool {}
    impl Answer for i64 {}
    impl Answer for String {}
    impl Answer for Option<String> {}
    impl Answer for Vec<String> {}
    impl Answer for Vec<Option<String>> {}

    #[cfg(feature = "tokio-postgres")]
    pub trait TokioPostgres: tokio_postgres::types::FromSqlOwned {}
    #[cfg(feature = "tokio-postgres")]
    impl<T: tokio_postgres::types::FromSqlOwned> TokioPostgres for T {}
    #[cfg(not(feature = "tokio-postgres"))]
    pub trait TokioPostgres {}
    #[cfg(not(feature = "tokio-postgres"))]
    impl<T> TokioPostgres for T {}

    #[cfg(feature = "sqlx")]
    pub trait Sqlx: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> {}
    #[cfg(feature = "sqlx")]
    impl<T> Sqlx for T where T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> {}
    #[cfg(not(feature = "sqlx"))]
    pub trait Sqlx {}
    #[cfg(not(feature = "sqlx"))]
    impl<T> Sqlx for T {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_by_name() {
        let mut call = Call::new("emit");
        call.text("topic", "text", Some("orders"));
        call.text("tenant", "text", None);
        call.argument("headers", "text::json", Value::Text(None));
        let (sql, values) = call.into_parts();
        let expect = "SELECT postrider.emit(\"topic\" => $1::text, \"headers\" => $2::text::json)";
        assert_eq!(sql, expect);
        assert_eq!(values.len(), 2);
    }

    #[test]
    fn two_answers_come_as_one() {
        let mut call = Call::new("enqueue_new");
        call.text("topic", "text", Some("orders"));
        let (sql, _) = call.telling().into_parts();
        let expect = "SELECT ARRAY[e.id, e.is_new::pg_catalog.text] \
            FROM postrider.enqueue_new(\"topic\" => $1::text) AS e";
        assert_eq!(sql, expect);
    }
}
