//! How to reach a Postgres server: a value that can be copied, so that a test can stop and start
//! the server while others hold its address.

use std::path::{Path, PathBuf};
use std::time::Duration;

use postgres::{Client, Config, NoTls};

use crate::name::unique;

pub(super) const USER: &str = "postgres";
pub(super) const PASSWORD: &str = "postgres";

#[derive(Clone, Debug)]
pub struct PostgresAddress {
    pub(super) port: u16,
    pub(super) socket_dir: PathBuf,
}

impl PostgresAddress {
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The superuser's URL over TCP.
    pub fn url(&self, database: &str) -> String {
        self.url_via(self.port, database)
    }

    /// The same through another port of this machine: a proxy's.
    pub fn url_via(&self, port: u16, database: &str) -> String {
        format!("postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/{database}")
    }

    /// The same over the Unix socket, which requires no password.
    pub fn socket_url(&self, database: &str) -> String {
        let host = self.socket_dir.display().to_string().replace('/', "%2F");
        format!("postgresql://{USER}@{host}:{}/{database}", self.port)
    }

    pub fn try_client(&self, database: &str) -> Result<Client, postgres::Error> {
        let mut config: Config = self.url(database).parse()?;
        config.connect_timeout(Duration::from_secs(10)).application_name("harness");
        config.connect(NoTls)
    }

    #[track_caller]
    pub fn client(&self, database: &str) -> Client {
        self.try_client(database)
            .unwrap_or_else(|error| panic!("cannot connect to database {database}: {error:?}"))
    }

    #[track_caller]
    pub fn major_version(&self) -> u32 {
        let sql = "SELECT current_setting('server_version_num')::int / 10000";
        let version: i32 = self.client(USER).query_one(sql, &[]).unwrap().get(0);
        version.cast_unsigned()
    }

    /// A new database with a unique name that starts with `prefix`.
    #[track_caller]
    pub fn create_database(&self, prefix: &str) -> String {
        let name = unique(prefix);
        // template0, because nobody can be connected to it, which would prevent the copy.
        let sql = format!("CREATE DATABASE \"{name}\" TEMPLATE template0");
        self.client(USER).batch_execute(&sql).expect("cannot create a database");
        name
    }

    /// Drops a slot, ending its walsender first. A slot that does not exist is fine.
    pub fn drop_slot(&self, slot: &str) -> Result<(), postgres::Error> {
        drop_slot(&mut self.try_client(USER)?, slot)
    }

    /// Drops a database with all that would prevent it: slots, prepared transactions, sessions.
    pub fn drop_database(&self, database: &str) -> Result<(), postgres::Error> {
        let mut admin = self.try_client(USER)?;
        // Commits must not wait for a standby, which may be gone.
        admin.batch_execute("SET statement_timeout = '30s'; SET synchronous_commit = local")?;
        for row in admin.query(SLOTS_OF_DATABASE, &[&database])? {
            drop_slot(&mut admin, row.get(0))?;
        }
        // A prepared transaction can only be ended from its own database.
        let prepared = admin.query(PREPARED_IN_DATABASE, &[&database])?;
        if !prepared.is_empty() {
            let mut inside = self.try_client(database)?;
            for row in prepared {
                let gid: String = row.get(0);
                inside.batch_execute(&format!("ROLLBACK PREPARED '{gid}'"))?;
            }
        }
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS \"{database}\" WITH (FORCE)"))
    }
}

const SLOTS_OF_DATABASE: &str =
    "SELECT slot_name::text FROM pg_replication_slots WHERE database = $1";
const PREPARED_IN_DATABASE: &str = "SELECT gid FROM pg_prepared_xacts WHERE database = $1";
const END_WALSENDER: &str = "SELECT pg_terminate_backend(active_pid, 10000)
    FROM pg_replication_slots WHERE slot_name = $1 AND active";
const DROP_SLOT: &str = "SELECT pg_drop_replication_slot(slot_name)
    FROM pg_replication_slots WHERE slot_name = $1";

fn drop_slot(admin: &mut Client, slot: &str) -> Result<(), postgres::Error> {
    admin.query(END_WALSENDER, &[&slot])?;
    admin.query(DROP_SLOT, &[&slot])?;
    Ok(())
}
