//! The library's work on a transaction of sqlx.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgHasArrayType, PgTypeInfo};
use sqlx::query::QueryScalar;
use sqlx::{Encode, PgConnection, PgPool, Postgres, Transaction, Type};

use crate::connection::driver::{Answer, Connection};
use crate::transaction::driver::{Begin, End};
use crate::{Call, Error, JsonText, Value};

impl Connection for PgConnection {
    /// One round trip, once the driver has prepared the statement on this connection.
    async fn call<A: Answer>(&mut self, call: Call<'_>) -> Result<A, Error> {
        let (sql, values) = call.into_parts();
        let query = sqlx::query_scalar::<Postgres, A>(&sql);
        let query = values.into_iter().fold(query, bind);
        Ok(query.fetch_one(self).await?)
    }
}

impl Connection for Transaction<'_, Postgres> {
    async fn call<A: Answer>(&mut self, call: Call<'_>) -> Result<A, Error> {
        PgConnection::call(self, call).await
    }
}

fn bind<'q, A>(
    query: QueryScalar<'q, Postgres, A, PgArguments>,
    value: Value<'q>,
) -> QueryScalar<'q, Postgres, A, PgArguments> {
    match value {
        Value::Text(text) => query.bind(text),
        Value::Int(int) => query.bind(int),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Jsons(jsons) => query.bind(jsons),
        Value::Texts(texts) => query.bind(texts),
        Value::Ints(ints) => query.bind(ints),
        Value::BytesOfMany(bytes) => query.bind(bytes),
    }
}

// sqlx's own JSON is jsonb, which does not keep the text as it was written.
impl Type<Postgres> for JsonText<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(114))
    }
}

impl PgHasArrayType for JsonText<'_> {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(199))
    }
}

impl Encode<'_, Postgres> for JsonText<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

impl Begin for PgPool {
    type Transaction<'t> = Transaction<'t, Postgres>;

    async fn begin(&mut self) -> Result<Transaction<'_, Postgres>, Error> {
        Ok(PgPool::begin(self).await?)
    }
}

impl Begin for PgConnection {
    type Transaction<'t> = Transaction<'t, Postgres>;

    async fn begin(&mut self) -> Result<Transaction<'_, Postgres>, Error> {
        Ok(sqlx::Connection::begin(self).await?)
    }
}

impl End for Transaction<'_, Postgres> {
    async fn commit(self) -> Result<(), Error> {
        Ok(Transaction::commit(self).await?)
    }

    async fn roll_back(self) -> Result<(), Error> {
        Ok(self.rollback().await?)
    }
}
