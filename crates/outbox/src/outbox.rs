//! One outbox table, and the rules for its writers.

use std::borrow::Cow;

use super::{Connection, Error, Event, batch, count};

/// An outbox table to write to. `Outbox::default()` is `public.outbox`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox {
    table: Cow<'static, str>,
    tenant_keys: bool,
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox { table: Cow::Borrowed("public.outbox"), tenant_keys: false }
    }
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The event's id, or that of the existing one; `None` if the table has no column of that name.
    pub id: Option<String>,
    /// False: the outbox had an event with this topic and idempotency key, and nothing was written.
    pub is_new: bool,
}

impl Outbox {
    /// The table of that name, written as in SQL: `orders.outbox`, `"Orders".outbox`.
    pub fn table(name: impl Into<Cow<'static, str>>) -> Self {
        Outbox { table: name.into(), ..Self::default() }
    }

    /// The idempotency key of an event with a tenant must begin with the tenant and `/`, and that
    /// of an event without one must not contain `/`: so keys of tenants can't collide.
    /// `postrider.require_tenant_keys` makes the table itself enforce it.
    #[must_use]
    pub fn require_tenant_keys(self) -> Self {
        Outbox { tenant_keys: true, ..self }
    }

    /// Writes an event and returns its id, `None` if the table has no column of that name. If the
    /// outbox has an event with this topic and idempotency key, nothing is written, and the id is
    /// that event's; if another transaction is about to write one, this waits until it ends.
    ///
    /// # Errors
    /// What is wrong with the event, before the database is called; then the errors of the
    /// database.
    pub async fn enqueue<C: Connection>(
        &self,
        connection: &mut C,
        event: &Event,
    ) -> Result<Option<String>, Error> {
        let written = async {
            event.check(self.tenant_keys)?;
            connection.call(event.call_enqueue(&self.table, &event.trace())).await
        };
        count::result(event.topic(), written.await)
    }

    /// [`Outbox::enqueue`], which also returns whether the event was written or existed already.
    ///
    /// # Errors
    /// As for [`Outbox::enqueue`].
    pub async fn enqueue_new<C: Connection>(
        &self,
        connection: &mut C,
        event: &Event,
    ) -> Result<Enqueued, Error> {
        let written = async {
            event.check(self.tenant_keys)?;
            let trace = event.trace();
            let call = event.call_enqueue_new(&self.table, &trace);
            let mut answer: Vec<Option<String>> = connection.call(call).await?;
            let is_new = answer.pop().flatten().as_deref() == Some("true");
            Ok(Enqueued { id: answer.pop().flatten(), is_new })
        };
        count::result(event.topic(), written.await)
    }

    /// Writes events in one round trip, in their order, and returns their ids in the same order. An
    /// event that exists already, or is twice in the batch, has the id of the first.
    ///
    /// # Errors
    /// As for one event. Then none of them is written.
    pub async fn enqueue_batch<C: Connection>(
        &self,
        connection: &mut C,
        events: &[Event],
    ) -> Result<Vec<Option<String>>, Error> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let written = async {
            batch::check(events, self.tenant_keys)?;
            connection.call(batch::call_enqueue(&self.table, events)).await
        };
        count::results(events, written.await)
    }
}
