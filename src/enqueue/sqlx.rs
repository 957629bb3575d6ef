//! The library's work on a transaction of sqlx.

use sqlx::postgres::PgArguments;
use sqlx::query::QueryScalar;
use sqlx::{PgConnection, PgPool, Postgres, Transaction};

use super::connection::driver::{Answer, Connection};
use super::transaction::driver::{Begin, End};
use super::{Call, Error, Value};

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
        Value::Texts(texts) => query.bind(texts),
        Value::Ints(ints) => query.bind(ints),
        Value::BytesOfMany(bytes) => query.bind(bytes),
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
