//! A business change and its events, both or neither.

use self::driver::End as _;
use super::Error;

/// What can begin a transaction: `tokio_postgres::Client`, `sqlx::PgConnection`, `sqlx::PgPool`
/// (a clone of it will do). Implemented for the drivers that are enabled.
pub trait Begin: driver::Begin {}

impl<B: driver::Begin> Begin for B {}

/// Runs `work` in a transaction: commits it if the work returns `Ok`, rolls it back if not.
///
/// ```
/// # #[cfg(feature = "tokio-postgres")]
/// # async fn place(client: &mut tokio_postgres::Client)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let event = postrider_outbox::Event::json("orders", &serde_json::json!({ "order": 17 }))?;
/// postrider_outbox::with_transaction(client, async |transaction| {
///     transaction.execute("INSERT INTO orders (id) VALUES (17)", &[]).await?;
///     postrider_outbox::enqueue(transaction, &event).await?;
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })
/// .await
/// # }
/// ```
///
/// # Errors
/// Those of the work; and of beginning and committing.
pub async fn with_transaction<B, T, E>(
    on: &mut B,
    // For any lifetime: a task that holds the future can't name one.
    work: impl for<'t> AsyncFnOnce(&mut B::Transaction<'t>) -> Result<T, E>,
) -> Result<T, E>
where
    B: Begin,
    E: From<Error>,
{
    let mut transaction = on.begin().await?;
    match work(&mut transaction).await {
        Ok(done) => {
            transaction.commit().await?;
            Ok(done)
        }
        Err(error) => {
            // If that fails the session has ended, and the transaction with it. The work's own
            // error is more useful.
            let _ = transaction.roll_back().await;
            Err(error)
        }
    }
}

/// Not reachable from outside the crate, so that it can change.
pub(super) mod driver {
    use super::Error;

    pub trait Begin: Send + 'static {
        type Transaction<'t>: End;

        fn begin(&mut self) -> impl Future<Output = Result<Self::Transaction<'_>, Error>> + Send;
    }

    pub trait End {
        fn commit(self) -> impl Future<Output = Result<(), Error>> + Send;

        fn roll_back(self) -> impl Future<Output = Result<(), Error>> + Send;
    }
}
