//! Least privilege: docs/grants.sql is enough for the three roles, and each of its grants is
//! needed.

mod columns;
mod impostors;
mod least;
mod migrate;
mod recover;
mod replay;
mod row_security;
mod settings;
mod teardown;
mod update;

use std::process::Command;
use std::time::Duration;

use postgres::{Client, NoTls};

use testkit::fixture::Fixture;
use testkit::shared;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// An empty database where PUBLIC has no rights, so that every right is granted explicitly, and
/// three roles that are not superusers.
struct Roles {
    fixture: Fixture,
}

impl Roles {
    #[track_caller]
    fn new(name: &str) -> Roles {
        let (server, broker) = shared::pair();
        let fixture = Fixture::unmigrated(BINARY, name, &server.address(), &broker);
        let database = fixture.database();
        let sql = format!(
            "REVOKE ALL ON DATABASE \"{database}\" FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC"
        );
        fixture.client().batch_execute(&sql).unwrap();
        Roles { fixture }
    }

    /// The name passed to grants.sql for a role. In capitals, so it must be quoted to work.
    fn name(&self, role: &str) -> String {
        format!("{}_{}", role.to_uppercase(), self.fixture.database())
    }

    /// Runs docs/grants.sql as it is documented.
    #[track_caller]
    fn grant(&self) {
        self.grant_in("public");
    }

    /// The same for the outbox of another schema.
    #[track_caller]
    fn grant_in(&self, schema: &str) {
        self.grant_with(schema, &[]);
    }

    /// The same with more variables.
    #[track_caller]
    fn grant_with(&self, schema: &str, variables: &[&str]) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/grants.sql");
        let mut psql = psql(&self.fixture);
        for role in ["application", "relay", "operator"] {
            psql.args(["-v", &format!("{role}={}", self.name(role))]);
        }
        psql.args(variables);
        psql.args(["-v", &format!("schema={schema}"), "-v", "table=outbox", "-f", script]);
        let output = psql.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let sql = "SELECT count(*) FROM pg_roles WHERE rolname = ANY($1)
            AND NOT rolsuper AND NOT rolcreaterole AND NOT rolcreatedb AND NOT rolbypassrls";
        let names = ["application", "relay", "operator"].map(|role| self.name(role));
        let plain: i64 = self.superuser().query_one(sql, &[&&names[..]]).unwrap().get(0);
        assert_eq!(plain, 3, "a role has more than it should");
    }

    /// `ROLE_NAME` and `DATABASE_NAME` stand for the quoted names.
    #[track_caller]
    fn as_superuser(&self, role: &str, sql: &str) {
        let sql = sql.replace("ROLE_NAME", &format!("\"{}\"", self.name(role)));
        let sql = sql.replace("DATABASE_NAME", &format!("\"{}\"", self.fixture.database()));
        self.superuser().batch_execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn superuser(&self) -> Client {
        self.fixture.client()
    }

    fn url(&self, role: &str) -> String {
        let url = self.fixture.postgres().url(self.fixture.database());
        url.replace("postgres:postgres@", &format!("{}@", self.name(role)))
    }

    /// Everything started from now on runs as this role.
    fn run_as(&mut self, role: &str) -> &mut Fixture {
        let url = self.url(role);
        self.fixture.set("POSTRIDER_DATABASE_URL", &url);
        &mut self.fixture
    }

    #[track_caller]
    fn client(&self, role: &str) -> Client {
        Client::connect(&self.url(role), NoTls).unwrap()
    }

    /// Migrated by the operator, and all grants given.
    #[track_caller]
    fn ready(name: &str) -> Roles {
        let mut roles = Roles::new(name);
        roles.grant();
        roles.run_as("operator").migrate();
        roles.grant();
        roles
    }
}

/// psql on the fixture's database, as the superuser, without the developer's own settings.
fn psql(fixture: &Fixture) -> Command {
    let mut psql = shared::postgres().tool("psql");
    psql.args(["--no-psqlrc", "--quiet", "-d", fixture.database()]);
    psql
}
