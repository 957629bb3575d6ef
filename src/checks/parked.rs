//! Events that can't be published: they need the side table, or a relay that halts at them.

use tokio_postgres::{Client, Error};

use super::Finding;
use crate::parking::store::has_live;
use crate::rights::check_access;

/// Where such events are parked.
pub(crate) async fn check_side_table(client: &Client) -> Result<Result<(), Finding>, Error> {
    Ok(match check_access(client).await? {
        None => Ok(()),
        Some(lacking) => Err(Finding::new(
            lacking.text,
            "events that can't be published are parked in postrider.undelivered",
            format!(
                "{}; or set undelivered.order to halt: then an event that can't be published stops \
                 the relay",
                lacking.fix
            ),
        )),
    })
}

/// Where such events halt the relay, nobody works on those that were parked before.
pub(crate) async fn check_nothing_parked(
    client: &Client,
    slot: &str,
) -> Result<Result<(), Finding>, Error> {
    Ok(match has_live(client, slot).await? {
        false => Ok(()),
        true => Err(Finding::new(
            "undelivered.order is halt, and events of this slot wait in postrider.undelivered",
            "they would stay there, and later events of their keys overtake them",
            "set undelivered.order back until they are published, or finish them by `postrider \
             replay` and `postrider dead discard`; `postrider dead list --status pending,dead` shows \
             them",
        )),
    })
}
