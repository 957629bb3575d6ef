//! Events that can't be published need the side table, or a relay that halts at them.

use tokio_postgres::{Client, Error};

use super::Finding;
use crate::parking::store::has_live;
use crate::rights::check_access;

/// For a relay that parks such events.
pub(crate) async fn check_side_table(client: &Client) -> Result<Result<(), Finding>, Error> {
    Ok(match check_access(client).await? {
        None => Ok(()),
        Some(lacking) => Err(Finding::new(
            lacking.text,
            "events that can't be published are parked in postrider.undelivered",
            format!(
                "{}; or set undelivered.order to halt, so that an event that can't be published \
                 stops the relay",
                lacking.fix
            ),
        )),
    })
}

/// For a relay that halts at such events: it does not retry those that were parked before.
pub(crate) async fn check_nothing_parked(
    client: &Client,
    slot: &str,
) -> Result<Result<(), Finding>, Error> {
    Ok(if !has_live(client, slot).await? {
        Ok(())
    } else {
        Err(Finding::new(
            "undelivered.order is halt, but events of this slot wait in postrider.undelivered",
            "they would stay there, and later events of their keys would overtake them",
            "set undelivered.order back until they are published, or use `postrider replay` and \
         `postrider dead discard` to finish them; `postrider dead list --status pending,dead` \
         shows them",
        ))
    })
}
