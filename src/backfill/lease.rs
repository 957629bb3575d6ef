//! The lease of the instance that publishes the rows of the tables, which is renewed while it does
//! so. Every write names the attempt it belongs to, so a holder that was silent for too long can't
//! do harm when it wakes.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::Instrument;

use super::store::Attempt;
use crate::postgres::{self, Server};
use crate::schema::has_backfill;
use crate::session_end::{RestartReason, SessionEnd};

/// How often the lease is renewed. When another instance takes over, no producer of this one may be
/// left: a pass that gets no answer from Postgres ends before its lease does.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// A renewal that is not answered within this time is tried again on another connection.
const RENEW_WITHIN: Duration = Duration::from_secs(3);

/// Held until it is dropped, or until another instance has taken it.
pub(crate) struct Lease {
    renewing: JoinHandle<()>,
}

impl Lease {
    /// None: another instance has published the rows meanwhile. `holder`: the relay, under the same
    /// name in each of its sessions, so that it need not wait for its own lease.
    pub(crate) async fn take(
        client: &tokio_postgres::Client,
        server: &Server,
        slot: &str,
        holder: &str,
    ) -> Result<Option<(Attempt, Self)>, SessionEnd> {
        let Some(attempt) = Attempt::begin(client, slot, holder).await? else {
            if !has_backfill(client, slot).await? {
                return Ok(None);
            }
            let text = "another instance publishes the rows of the tables; waiting for it";
            return Err(SessionEnd::restart(RestartReason::BackfillElsewhere, text));
        };
        let renewing = renew(server.clone(), attempt.clone()).in_current_span();
        let renewing = tokio::spawn(renewing);
        Ok(Some((attempt, Lease { renewing })))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// On a connection of its own: the other one waits for long statements. A connection that breaks is
/// replaced. The lease ends when another attempt has begun; what is written then is refused.
async fn renew(server: Server, attempt: Attempt) {
    let mut failures: u32 = 0;
    while let Err(stop) = renew_until_lost(&server, &attempt, &mut failures).await {
        if failures == 0 {
            tracing::warn!(
                reason = stop.text(),
                "the snapshot's lease could not be renewed; retrying"
            );
        }
        failures = failures.saturating_add(1);
        tokio::time::sleep(RENEW_EVERY).await;
    }
}

/// Returns once the lease is lost, or with what broke. Counts failures from the last renewal on.
async fn renew_until_lost(
    server: &Server,
    attempt: &Attempt,
    failures: &mut u32,
) -> Result<(), SessionEnd> {
    let (client, _guard) = postgres::connect_server(server).await?;
    let silent = |_| {
        SessionEnd::restart(RestartReason::Postgres, format!("no answer within {RENEW_WITHIN:?}"))
    };
    while timeout(RENEW_WITHIN, attempt.renew(&client)).await.map_err(silent)?? {
        *failures = 0;
        tokio::time::sleep(RENEW_EVERY).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backfill::publish::SAVE_EVERY;
    use crate::backfill::store::LEASE;
    use crate::pulse::SILENCE_MAX;

    #[test]
    fn a_pass_ends_before_somebody_else_can_have_its_lease() {
        assert!(RENEW_EVERY + SAVE_EVERY + SILENCE_MAX < LEASE);
        // A renewal that is lost leaves time for another.
        assert!(2 * (RENEW_EVERY + RENEW_WITHIN) < LEASE);
    }
}
