//! The library's work on a transaction of tokio-postgres.

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};
use tokio_postgres::{Client, Transaction};

use crate::connection::driver::{Answer, Connection};
use crate::transaction::driver::{Begin, End};
use crate::{Call, Error, JsonText, Value};

impl Connection for Transaction<'_> {
    /// Types are known, so nothing has to be prepared: one round trip, and no statement that a
    /// pooler could lose.
    async fn call<A: Answer>(&mut self, call: Call<'_>) -> Result<A, Error> {
        let (sql, values) = call.into_parts();
        let values: Vec<_> = values.iter().map(typed).collect();
        let rows = self.query_typed(&sql, &values).await?;
        let row = rows.first().ok_or_else(no_row)?;
        Ok(row.try_get(0)?)
    }
}

fn typed<'a>(value: &'a Value<'_>) -> (&'a (dyn ToSql + Sync), Type) {
    match value {
        Value::Text(text) => (text, Type::TEXT),
        Value::Int(int) => (int, Type::INT4),
        Value::Bytes(bytes) => (bytes, Type::BYTEA),
        Value::Jsons(jsons) => (jsons, Type::JSON_ARRAY),
        Value::Texts(texts) => (texts, Type::TEXT_ARRAY),
        Value::Ints(ints) => (ints, Type::INT4_ARRAY),
        Value::BytesOfMany(bytes) => (bytes, Type::BYTEA_ARRAY),
    }
}

impl ToSql for JsonText<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(JSON);

    to_sql_checked!();
}

/// A SELECT of a function has one row.
fn no_row() -> Error {
    crate::Invalid::new("answer", "has no row", "the peer is not a Postgres server").into()
}

impl Begin for Client {
    type Transaction<'t> = Transaction<'t>;

    async fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        Ok(self.transaction().await?)
    }
}

impl End for Transaction<'_> {
    async fn commit(self) -> Result<(), Error> {
        Ok(Transaction::commit(self).await?)
    }

    async fn roll_back(self) -> Result<(), Error> {
        Ok(self.rollback().await?)
    }
}
