//! Creates a slot together with a snapshot: rows that the snapshot has do not come from the slot.

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::connect::connect;
use super::error::ReplicationError;
use super::identify::{identify, one_row};
use super::stream::quote;
use super::wire::Wire;
use crate::postgres::Server;
use crate::progress::Identity;
use postrider_core::lsn::Lsn;

/// A new slot. Its snapshot can be used by other sessions as long as this lives.
pub(crate) struct NewSlot {
    /// The server that has it.
    pub(crate) here: Identity,
    /// Earlier commits are in the snapshot, later ones in the slot.
    pub(crate) starts_at: Lsn,
    /// The snapshot's name.
    pub(crate) snapshot: String,
    _wire: Wire,
}

impl NewSlot {
    /// Creates the slot. Waits for transactions that are open now.
    pub(crate) async fn create(
        server: &Server,
        slot: &str,
        can_fail_over: bool,
    ) -> Result<Self, ReplicationError> {
        let mut wire = connect(server, "UTF8", "postrider").await?;
        let (here, _) = identify(&mut wire).await?;
        let options =
            if can_fail_over { "(SNAPSHOT 'export', FAILOVER)" } else { "EXPORT_SNAPSHOT" };
        let command =
            format!("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput {options}", quote('"', slot));
        let mut message = BytesMut::new();
        frontend::query(&command, &mut message)?;
        wire.send(&message).await?;
        let texts = one_row(&mut wire).await?;
        // slot_name, consistent_point, snapshot_name, output_plugin
        let [_, starts_at, snapshot, ..] = texts.as_slice() else {
            return Err(unreadable());
        };
        let starts_at = starts_at.parse().map_err(|_| unreadable())?;
        Ok(NewSlot { here, starts_at, snapshot: snapshot.clone(), _wire: wire })
    }
}

fn unreadable() -> ReplicationError {
    ReplicationError::Protocol("the answer to CREATE_REPLICATION_SLOT can't be read".into())
}
