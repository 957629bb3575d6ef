//! A table that Debezium Server and postrider publish in the same way.

use std::collections::BTreeMap;

use testkit::debezium::configuration::{Configuration, Source};
use testkit::fixture::Fixture;

use crate::cases::binary;
use crate::servers::Servers;

const TABLE: &str = "public.outbox";
/// The name that Debezium uses if no other is set.
const PUBLICATION: &str = "dbz_publication";
/// The publication is as Debezium creates it, but for this table alone.
const SETUP: &str = "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb);
    CREATE PUBLICATION dbz_publication FOR TABLE outbox";
const SECTION: &[(&str, &str)] =
    &[("profile", "server"), ("key", "string"), ("value", "string"), ("header", "json")];

pub(crate) struct Site {
    /// postrider's; its configuration is the same as Debezium's.
    pub(crate) fixture: Fixture,
    // postrider.toml
    _folder: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new(servers: &Servers, name: &str) -> Site {
        let (postgres, broker) = (servers.postgres(), servers.broker());
        let mut fixture = Fixture::unmigrated(binary(), name, &postgres, &broker);
        fixture.client().batch_execute(SETUP).expect("cannot create the table");
        let folder = tempfile::tempdir().expect("cannot create a folder");
        let file = folder.path().join("postrider.toml");
        let configuration = Configuration::of(SECTION).for_postrider(&[TABLE.to_owned()]);
        std::fs::write(&file, configuration).expect("cannot write postrider.toml");
        fixture.set("POSTRIDER_CONFIG", file.to_str().unwrap());
        fixture.set("POSTRIDER_PUBLICATION", PUBLICATION);
        Site { fixture, _folder: folder }
    }

    /// What Debezium Server is configured with, to read this slot.
    pub(crate) fn server_properties(&self, slot: &str) -> BTreeMap<String, String> {
        let source = Source {
            port: self.fixture.postgres().port(),
            user: "postgres",
            password: "postgres",
            database: self.fixture.database(),
            slot,
            publication: PUBLICATION,
            tables: &[TABLE.to_owned()],
        };
        Configuration::of(SECTION).for_server(&source, self.fixture.broker().brokers())
    }
}
