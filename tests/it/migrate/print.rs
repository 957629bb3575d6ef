//! `postrider migrate --print`: a script that does what `migrate` does.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use super::{BINARY, SOON, empty, inventory, prepared, stdout};
use testkit::fixture::Fixture;
use testkit::relay::postrider;
use testkit::shared;

const TABLES: &str = "public.outbox,orders.outbox,\"Odd $postrider$ \\'schema\".\"say \"\"hi\"\"\"";
const PUBLICATION: &str = "An \"odd\" publication\\'s $postrider$ name";

/// Runs a script with psql.
#[track_caller]
pub(crate) fn psql(fixture: &Fixture, script: &str) -> Output {
    let mut psql = shared::postgres().tool("psql");
    // The server may be another one than the one this program belongs to.
    psql.args(["--no-psqlrc", "-p", &fixture.postgres().port().to_string()]);
    psql.arg("-h").arg(fixture.postgres().socket_dir());
    psql.args(["-d", fixture.database(), "-f", "-"]);
    psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut psql = psql.spawn().expect("cannot start psql");
    // After an error, psql does not read the rest.
    if let Err(error) = psql.stdin.take().unwrap().write_all(script.as_bytes()) {
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
    }
    psql.wait_with_output().unwrap()
}

#[track_caller]
fn run_script(fixture: &Fixture) {
    let output = psql(fixture, &stdout(&fixture.run(&["migrate", "--print"])));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Describes all created objects, without what differs between two databases.
#[track_caller]
fn descriptions(fixture: &Fixture) -> Vec<String> {
    let sql = "SELECT format('%s %s %s %s %s', attrelid::regclass, attname,
                format_type(atttypid, atttypmod), attnotnull, col_description(attrelid, attnum))
            FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
            WHERE attnum > 0 AND relnamespace::regnamespace::text NOT LIKE 'pg\\_%'
              AND relnamespace::regnamespace::text <> 'information_schema'
        UNION ALL SELECT format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
            FROM pg_constraint WHERE conrelid <> 0
              AND connamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')
        UNION ALL SELECT format('%s %s', oid::regclass, obj_description(oid)) FROM pg_class
            WHERE obj_description(oid) IS NOT NULL AND relnamespace::regnamespace::text <> 'pg_catalog'
        UNION ALL SELECT format('schema %s %s', nspname, obj_description(oid)) FROM pg_namespace
        UNION ALL SELECT format('%s %s %s %s', pubname, puballtables, pubinsert, pubviaroot)
            FROM pg_publication
        UNION ALL SELECT format('%s %s.%s', pubname, schemaname, tablename) FROM pg_publication_tables
        UNION ALL SELECT format('version %s %s', version, name) FROM postrider.schema_version
        UNION ALL SELECT format('slot %s %s', plugin, two_phase) FROM pg_replication_slots
            WHERE database = current_database()
        ORDER BY 1";
    let rows = fixture.client().query(sql, &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn the_script_creates_what_migrate_creates_and_migrate_finds_it() {
    let [mut by_hand, mut by_migrate] = [empty("by_hand"), empty("by_migrate")];
    for fixture in [&mut by_hand, &mut by_migrate] {
        fixture.set("POSTRIDER_TABLES", TABLES).set("POSTRIDER_PUBLICATION", PUBLICATION);
    }
    run_script(&by_hand);
    by_migrate.migrate();
    let made = descriptions(&by_migrate);
    assert!(made.len() > 40, "this would not compare much: {made:?}");
    assert_eq!(descriptions(&by_hand), made);
    assert!(stdout(&by_hand.run(&["migrate"])).contains("\nnothing to change\n"));

    let topic = by_hand.create_topic("works", 1, &[]);
    by_hand.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO orders.outbox (topic, payload) VALUES ($1, '7')";
    by_hand.client().execute(sql, &[&topic]).unwrap();
    let records = by_hand.consumer().read_n(1, SOON);
    assert_eq!(records[0].value_text(), Some("7"));
}

#[test]
fn the_script_can_be_run_again_and_adds_what_is_new() {
    let mut fixture = empty("again");
    run_script(&fixture);
    let before = (descriptions(&fixture), inventory(&fixture));
    run_script(&fixture);
    assert_eq!((descriptions(&fixture), inventory(&fixture)), before);
    fixture.set("POSTRIDER_TABLES", "public.outbox,late.outbox");
    run_script(&fixture);
    assert!(stdout(&fixture.run(&["migrate"])).contains("\nnothing to change\n"));
}

#[test]
fn an_error_leaves_no_slot_behind() {
    let fixture = empty("error");
    // A type with the table's name exists: the script can't know that, and fails.
    fixture.client().batch_execute("CREATE TYPE outbox AS ENUM ('x')").unwrap();
    let before = inventory(&fixture);
    let output = psql(&fixture, &stdout(&fixture.run(&["migrate", "--print"])));
    assert_eq!(output.status.code(), Some(3), "psql should have stopped at the error");
    assert_eq!(inventory(&fixture), before);
}

#[test]
fn a_slot_that_is_older_than_its_publication_is_refused_as_by_migrate() {
    let sql = "SELECT pg_create_logical_replication_slot('SLOT', 'pgoutput')";
    let fixture = prepared("old_slot", sql);
    let before = inventory(&fixture);
    let output = psql(&fixture, &stdout(&fixture.run(&["migrate", "--print"])));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("exists but publication postrider does not"), "{errors}");
    assert!(errors.contains("HINT:  run `postrider recover`"), "{errors}");
    assert!(errors.contains("pg_drop_replication_slot"), "{errors}");
    assert_eq!(inventory(&fixture), before);
}

#[test]
fn printing_contacts_no_server_and_needs_none_configured() {
    let printed = |env: &[(&str, &str)]| {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let env: Vec<(String, String)> = env.iter().map(owned).collect();
        let output = postrider(Path::new(BINARY), &env).args(["migrate", "--print"]).output();
        stdout(&output.unwrap())
    };
    let script = printed(&[]);
    assert!(script.contains("CREATE PUBLICATION \"postrider\" FOR TABLE \"public\".\"outbox\""));
    assert!(script.contains("pg_create_logical_replication_slot('postrider', 'pgoutput')"));
    // There is no server, and none is contacted.
    let unreachable = [("POSTRIDER_DATABASE_URL", "postgres://me:hush-hush@127.0.0.1:1/db")];
    assert_eq!(printed(&unreachable), script);
}

/// A slot that a promoted standby continues with; older servers have no such slots.
#[test]
fn the_slot_is_a_failover_slot_where_the_server_supports_them() {
    let server = shared::postgres_17();
    let fixture =
        Fixture::unmigrated(BINARY, "print_failover", &server.address(), &shared::broker());
    run_script(&fixture);
    let sql = "SELECT failover FROM pg_replication_slots WHERE slot_name = $1";
    let failover: bool = fixture.client().query_one(sql, &[&fixture.slot()]).unwrap().get(0);
    assert!(failover, "a standby would not get the slot");
    assert!(stdout(&fixture.run(&["migrate"])).contains("\nnothing to change\n"));
}

/// The messages of the script.
#[track_caller]
fn stderr_of_script(fixture: &Fixture, before: &str) -> String {
    let script = format!("{before}\n{}", stdout(&fixture.run(&["migrate", "--print"])));
    let output = psql(fixture, &script);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    stderr
}

#[test]
fn rows_of_a_table_added_to_a_slot_are_not_skipped_silently() {
    let mut fixture = empty("print_joins");
    assert!(!stderr_of_script(&fixture, "").contains("older than slot"));
    let write = "INSERT INTO public.outbox (topic, payload) VALUES ('t', '1');
        CREATE TABLE later (LIKE outbox INCLUDING ALL);
        INSERT INTO later (topic, payload) VALUES ('t', '1')";
    fixture.client().batch_execute(write).unwrap();
    fixture.set("POSTRIDER_TABLES", "public.outbox,public.later");
    let stderr = stderr_of_script(&fixture, "");
    assert!(stderr.contains("WARNING:  rows of public.later are older than slot"), "{stderr}");
    assert!(!stderr.contains("rows of public.outbox"), "{stderr}");
    assert!(!stderr_of_script(&fixture, "").contains("older than slot"));
}

#[test]
fn rows_hidden_from_the_role_are_not_skipped_silently() {
    let hide =
        "ALTER TABLE outbox ENABLE ROW LEVEL SECURITY; ALTER TABLE outbox FORCE ROW LEVEL SECURITY";
    let deny = "REVOKE SELECT ON outbox FROM CURRENT_ROLE";
    for (name, sql) in [("print_hidden", hide), ("print_denied", deny)] {
        let fixture = prepared(
            name,
            "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                topic text NOT NULL, payload json);
             INSERT INTO outbox (topic, payload) VALUES ('t', '1')",
        );
        let role = format!("\"role_of_{}\"", fixture.database());
        let database = fixture.database();
        let setup = format!(
            "CREATE ROLE {role} REPLICATION; GRANT CREATE ON DATABASE \"{database}\" TO {role};
             GRANT USAGE, CREATE ON SCHEMA public TO {role}; ALTER TABLE outbox OWNER TO {role};
             SET ROLE {role}; {sql}"
        );
        fixture.client().batch_execute(&setup).unwrap();
        let stderr = stderr_of_script(&fixture, &format!("SET ROLE {role};"));
        let warning = "WARNING:  rows of public.outbox, if it has any, are older than slot";
        assert!(stderr.contains(warning), "{name}: {stderr}");
        let drop = format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}");
        fixture.client().batch_execute(&drop).unwrap();
    }
}
