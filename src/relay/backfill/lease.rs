//! Who publishes the rows of the tables: a lease, renewed while it goes on. Every write names the try it
//! belongs to, so a holder that was silent for too long can't do harm when it wakes.

use std::sync::LazyLock;

use tokio::task::JoinHandle;

use super::ELSEWHERE;
use crate::backfill::store::{self, Attempt, LEASE};
use crate::postgres::{self, Server};
use crate::relay::stop::Stop;

/// A process that begins anew need not wait for its own lease.
static HOLDER: LazyLock<String> = LazyLock::new(|| {
    let host = whoami::hostname().unwrap_or_default();
    format!("{host}:{}:{:08x}", std::process::id(), rand::random::<u32>())
});

/// Held until it is dropped, or somebody else has taken it.
pub(super) struct Lease {
    renewing: JoinHandle<()>,
}

impl Lease {
    pub(super) async fn take(
        client: &tokio_postgres::Client,
        server: &Server,
        slot: &str,
    ) -> Result<(Attempt, Self), Stop> {
        let Some(attempt) = Attempt::begin(client, slot, &HOLDER).await? else {
            if !store::exists(client, slot).await? {
                // Another instance has published the rows meanwhile.
                return Err(Stop::Backfill);
            }
            let text = "another instance publishes the rows of the tables; waiting for it";
            return Err(Stop::restart(ELSEWHERE, text));
        };
        let renewing = tokio::spawn(renew(server.clone(), attempt.clone()));
        Ok((attempt, Lease { renewing }))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// On a connection of its own: the other one waits for long statements. Whatever ends it, the lease
/// runs out, and what is written then is refused if somebody else has begun.
async fn renew(server: Server, attempt: Attempt) {
    let Ok((client, _guard)) = postgres::connect_server(&server).await else { return };
    loop {
        tokio::time::sleep(LEASE / 4).await;
        match attempt.renew(&client).await {
            Ok(true) => {}
            Ok(false) | Err(_) => return,
        }
    }
}
