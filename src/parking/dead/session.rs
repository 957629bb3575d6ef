//! The connection of a command on the side table.

use tokio_postgres::Client;

use super::CommandError;
use crate::config::Config;
use crate::parking::store;
use crate::postgres::session_settings::PERSON;
use crate::postgres::{self, Connected, ConnectionGuard, Server};
use crate::rights::{Access, check_access_to};

pub(crate) struct CommandSession {
    pub(crate) client: Client,
    _guard: ConnectionGuard,
    pub(crate) server: Server,
}

impl CommandSession {
    /// `name` becomes the session's application_name.
    pub(crate) async fn open(config: &Config, name: &str) -> Result<Self, CommandError> {
        let Connected { client, guard, server } =
            postgres::connect(&config.postgres.connection).await?;
        begin(&client, name).await?;
        let session = CommandSession { client, _guard: guard, server };
        session.check_access(Access::Look).await?;
        Ok(session)
    }

    /// Another session, which can be used while this one has a transaction open.
    pub(crate) async fn another(&self, name: &str) -> Result<Self, CommandError> {
        let (client, guard) = postgres::connect_server(&self.server).await?;
        begin(&client, name).await?;
        Ok(CommandSession { client, _guard: guard, server: self.server.clone() })
    }

    /// Checks what the command needs. To be called before anything that can't be undone: an event
    /// that is published and can't be marked is published again by every run.
    pub(crate) async fn check_access(&self, access: Access) -> Result<(), CommandError> {
        let failed = |error| CommandError::statement("show its rights", &error);
        match check_access_to(&self.client, access).await.map_err(failed)? {
            Some(lacking) => Err(CommandError::NoAccess(lacking)),
            None => Ok(()),
        }
    }
}

async fn begin(client: &Client, name: &str) -> Result<(), CommandError> {
    let failed = |error| CommandError::statement("begin a session", &error);
    store::begin_session(client).await.map_err(failed)?;
    let settings = format!("{PERSON}; SET application_name = '{name}'");
    client.batch_execute(&settings).await.map_err(failed)
}
