//! Whether the role is allowed to replicate, found out by trying: managed services have other ways
//! to allow it than the role's attribute.

use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use tokio::time::timeout;

use super::ReplicationError;
use super::connect::connect;
use crate::postgres::Server;

/// How long the server may take to end the session.
const FAREWELL: Duration = Duration::from_secs(2);

/// Opens a replication session and ends it.
pub(crate) async fn probe(server: &Server) -> Result<(), ReplicationError> {
    let mut wire = connect(server, "UTF8", "postrider").await?;
    let mut message = BytesMut::new();
    frontend::terminate(&mut message);
    wire.send(&message).await?;
    // The server's end of the socket closes with the session; only then is the connection free for
    // somebody else. The answer is already known.
    let ended = async { while wire.fill().await.is_ok() {} };
    let _ = timeout(FAREWELL, ended).await;
    Ok(())
}
