//! What is created in an empty database, and that it is created once.

use postgres::error::SqlState;

use super::{BINARY, SOON, assert_changes, empty, inventory, stdout};
use testkit::check::Expected;
use testkit::fixture::Fixture;
use testkit::shared;

#[test]
fn the_first_run_creates_everything_and_the_second_nothing() {
    let fixture = empty("first");
    let slot = format!("slot {}", fixture.slot());
    let schema = format!("schema postrider, version {}", newest_migration());
    let things = |change| {
        [
            (change, schema.as_str()),
            (change, "table public.outbox"),
            (change, "publication postrider"),
        ]
    };
    let first = fixture.run(&["migrate"]);
    assert_changes(&first, &things("created"));
    assert_changes(&first, &[("created", &format!("{slot} at "))]);
    assert!(!stdout(&first).contains("nothing to change"));
    let made = inventory(&fixture);
    let second = fixture.run(&["migrate"]);
    assert_changes(&second, &things("found"));
    assert_changes(&second, &[("found", &slot)]);
    assert!(stdout(&second).contains("\nnothing to change\n"));
    assert_eq!(inventory(&fixture), made);
}

#[test]
fn readme_counts_what_the_schema_has() {
    let fixture = empty("counted");
    fixture.run(&["migrate"]);
    let count = |sql: &str| fixture.client().query_one(sql, &[]).unwrap().get::<_, i64>(0);
    let tables = count("SELECT count(*) FROM pg_tables WHERE schemaname = 'postrider'");
    let functions = count(
        "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
          WHERE n.nspname = 'postrider'",
    );
    let readme = include_str!("../../../README.md");
    let counted = format!("{tables} tables and {functions} functions");
    assert!(readme.contains(&counted), "README.md does not say: {counted}");
}

/// The highest number among the files of `migrations/`.
fn newest_migration() -> u32 {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
    let number = |name: String| name.split('_').next()?.parse().ok();
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    files.filter_map(|name| number(name.into_string().unwrap())).max().unwrap()
}

#[test]
fn concurrent_runs_wait_for_each_other() {
    let fixture = empty("at_once");
    let spawn = || {
        let mut command = fixture.command(&["migrate"]);
        command.stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let racers: Vec<_> = (0..3).map(|_| spawn()).collect();
    let outputs = racers.into_iter().map(|it| it.wait_with_output().unwrap());
    let outputs: Vec<String> = outputs.map(|output| stdout(&output)).collect();
    let created = |stdout: &&String| stdout.contains("created  table public.outbox");
    let found = |stdout: &&String| stdout.contains("nothing to change");
    assert_eq!(outputs.iter().filter(created).count(), 1, "{outputs:?}");
    assert_eq!(outputs.iter().filter(found).count(), 2, "{outputs:?}");
}

#[test]
fn the_table_matches_the_contract() {
    let fixture = Fixture::new(BINARY, "contract");
    let sql = "SELECT attname::text, format_type(atttypid, NULL), attnotnull,
            col_description(attrelid, attnum) IS NOT NULL
        FROM pg_attribute WHERE attrelid = 'public.outbox'::regclass AND attnum > 0";
    let rows = fixture.client().query(sql, &[]).unwrap();
    let mut columns: Vec<(String, String, bool)> = Vec::new();
    for row in &rows {
        assert!(row.get::<_, bool>(3), "{:?} has no comment", row);
        columns.push((row.get(0), row.get(1), row.get(2)));
    }
    columns.sort();
    let expect = [
        ("content_type", "text", false),
        ("created_at", "timestamp with time zone", true),
        ("headers", "json", false),
        ("id", "bigint", true),
        ("idempotency_key", "text", true),
        ("ordering_key", "text", false),
        ("partition", "integer", false),
        ("payload", "json", false),
        ("tenant", "text", false),
        ("topic", "text", true),
        ("traceparent", "text", false),
        ("type", "text", false),
    ];
    let expect = expect.map(|(name, kind, required)| (name.to_owned(), kind.to_owned(), required));
    assert_eq!(columns, expect);
    let sql = "SELECT obj_description('public.outbox'::regclass) IS NOT NULL,
        (SELECT pubinsert AND NOT pubupdate AND NOT pubdelete AND NOT pubtruncate AND pubviaroot
           FROM pg_publication WHERE pubname = 'postrider')";
    let row = fixture.client().query_one(sql, &[]).unwrap();
    assert!(row.get::<_, bool>(0), "the table has no comment");
    assert!(row.get::<_, bool>(1), "more than inserts are published");
}

#[test]
fn the_table_refuses_unpublishable_rows() {
    let fixture = Fixture::new(BINARY, "constraints");
    let mut client = fixture.client();
    let mut check = |sql: &str, expect: Option<&SqlState>| {
        let result = client.batch_execute(sql);
        let code = result.as_ref().err().and_then(|error| error.code());
        assert_eq!(code, expect, "{sql}: {result:?}");
    };
    let check_violation = Some(&SqlState::CHECK_VIOLATION);
    // Quotes count: they are part of the JSON text.
    let payload = |bytes: usize| {
        format!(
            "INSERT INTO outbox (topic, payload) VALUES ('t', to_json(repeat('x', {})))",
            bytes - 2
        )
    };
    check(&payload(16 * 1024 * 1024), None);
    check(&payload(16 * 1024 * 1024 + 1), check_violation);
    let key = |key: &str, topic: &str| {
        format!("INSERT INTO outbox (topic, idempotency_key) VALUES ('{topic}', '{key}')")
    };
    check(&key(&"k".repeat(512), "t"), None);
    check(&key(&"k".repeat(513), "t"), check_violation);
    // Bytes, not characters.
    check(&key(&"é".repeat(257), "t"), check_violation);
    check(&key("same", "t"), None);
    check(&key("same", "other"), None);
    check(&key("same", "t"), Some(&SqlState::UNIQUE_VIOLATION));
    let no_topic = "INSERT INTO outbox (payload) VALUES ('1')";
    check(no_topic, Some(&SqlState::NOT_NULL_VIOLATION));
    check("INSERT INTO outbox (topic, payload) VALUES ('t', '1')", None);
}

#[test]
fn several_tables_with_odd_names_in_schemas_of_their_own_are_created() {
    let mut fixture = empty("odd_names");
    let topic = fixture.create_topic("events", 1, &[]);
    let tables = [
        "public.outbox",
        "orders.outbox",
        "\"Odd schema\".\"say \"\"hi\"\", or. not\"",
        "public.\"grüße\"",
    ];
    fixture.set("POSTRIDER_TABLES", &tables.join(","));
    fixture.set("POSTRIDER_PUBLICATION", "An \"odd\" publication's name");
    let output = fixture.run(&["migrate"]);
    // Names are shown with quotes only where they need them.
    let shown = tables.map(|table| format!("table {}", table.replace("\"grüße\"", "grüße")));
    for thing in &shown {
        assert_changes(&output, &[("created", thing)]);
    }
    assert!(stdout(&fixture.run(&["migrate"])).contains("nothing to change"));
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    let mut expected = Expected::default();
    for (number, table) in tables.iter().enumerate() {
        // Ids are unique per table only; the keys of this check are not.
        let sql = format!(
            "ALTER TABLE {table} ALTER id RESTART WITH {};
             INSERT INTO {table} (topic, payload) VALUES ('{topic}', '{number}')",
            number * 100 + 100
        );
        client.batch_execute(&sql).unwrap();
        expected.push_unordered(&topic, number * 100 + 100);
    }
    let records = fixture.consumer().read_n(tables.len(), SOON);
    expected.verdict(&records).assert_exact();
}

#[test]
fn an_owner_who_is_not_a_superuser_can_migrate_and_run() {
    let (server, broker) = shared::pair();
    let mut fixture = Fixture::unmigrated(BINARY, "owner", &server.address(), &broker);
    let role = format!("role_{}", fixture.database());
    let sql = format!(
        "CREATE ROLE {role} LOGIN REPLICATION; ALTER DATABASE {} OWNER TO {role}",
        fixture.database()
    );
    server.client("postgres").batch_execute(&sql).unwrap();
    let url = fixture.postgres().url(fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url.replace("postgres:postgres@", &format!("{role}@")));
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO outbox (topic, payload) VALUES ($1, '1')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    fixture.consumer().read_n(1, SOON);
}
