//! A database of an earlier version, with parked events.

use super::SOON;
use super::print::psql;
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");

/// The migrations up to an earlier version.
pub(crate) fn migrations(up_to: i32) -> Vec<(i32, String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
    let mut found: Vec<(i32, String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|file| {
            let path = file.unwrap().path();
            let (number, name) = path.file_stem()?.to_str()?.split_once('_')?;
            let number = number.parse().ok().filter(|number| *number <= up_to)?;
            Some((number, name.to_owned(), std::fs::read_to_string(&path).unwrap()))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn parked_events_of_version_17_are_found_and_delivered() {
    let (postgres, broker) = shared::pair();
    let mut fixture = Fixture::unmigrated(BINARY, "upgraded", &postgres.address(), &broker);
    let topic = fixture.create_topic("events", 1, &[]);
    let mut client = fixture.client();
    for (version, name, sql) in migrations(17) {
        client.batch_execute(&sql).unwrap();
        let note = "INSERT INTO postrider.schema_version (version, name) VALUES ($1, $2)";
        client.execute(note, &[&version, &name]).unwrap();
    }
    let park = "INSERT INTO postrider.undelivered (slot, source_table, row_id, ordering_key, \
            commit_lsn, ordinal, topic, key, value, value_bytes, headers, \"timestamp\", form, \
            status, reason, next_attempt_at)
        SELECT $1, 'public.outbox', n::text, 'k' || n % 10, '0/1000100', n, $2, 'k', '12345', 5, \
            '[]', now(), 'whole', 'pending', 'topic-missing', now() FROM generate_series(1, 100) n";
    client.execute(park, &[&fixture.slot(), &topic]).unwrap();
    fixture.migrate();
    let sql = "SELECT count(DISTINCT key_id), min(bytes), max(bytes) FROM postrider.undelivered";
    let row = client.query_one(sql, &[]).unwrap();
    assert_eq!(row.get::<_, i64>(0), 10);
    // Its topic, the empty headers, key, value, id and ordering key, and the overhead of a row.
    let rest = i64::try_from(topic.len()).unwrap() + 2 + 1 + 5 + 2 + 1024;
    assert_eq!((row.get::<_, i64>(1), row.get::<_, i64>(2)), (rest + 1, rest + 3));
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(100, SOON);
    let sql = "SELECT count(*) FROM postrider.undelivered WHERE status = 'delivered'";
    wait_until("all to be delivered", SOON, || {
        client.query_one(sql, &[]).unwrap().get::<_, i64>(0) == 100
    });
}

/// The number of column limits that are not validated for existing rows.
fn unchecked_limits(client: &mut postgres::Client) -> i64 {
    let sql = "SELECT count(*) FROM pg_constraint WHERE conrelid = 'public.outbox'::regclass
        AND contype = 'c' AND NOT convalidated";
    client.query_one(sql, &[]).unwrap().get(0)
}

#[test]
fn a_table_created_without_limits_gets_them() {
    let fixture = Fixture::new(BINARY, "limited");
    let mut client = fixture.client();
    let sql = "DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT conname FROM pg_constraint
            WHERE conrelid = 'public.outbox'::regclass AND contype = 'c'
              AND pg_get_constraintdef(oid) NOT LIKE ALL ('{%16777216%,%512%}') LOOP
          EXECUTE format('ALTER TABLE public.outbox DROP CONSTRAINT %I', name);
        END LOOP;
        ALTER TABLE public.outbox DROP COLUMN content_type;
        INSERT INTO public.outbox (topic, ordering_key) VALUES ('t', repeat('x', 100000)); END $$";
    let too_large = "INSERT INTO public.outbox (topic, ordering_key)
        VALUES ('t', repeat('x', 65537))";
    for by_script in [false, true] {
        client.batch_execute(sql).unwrap();
        assert_eq!(unchecked_limits(&mut client), 0);
        let output = fixture.run(if by_script { &["migrate", "--print"] } else { &["migrate"] });
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        if by_script {
            assert!(psql(&fixture, &printed).status.success())
        } else {
            assert!(printed.contains("updated  table public.outbox"), "{printed}")
        }
        // Topic, ordering key, type, tenant, traceparent and headers.
        assert_eq!(unchecked_limits(&mut client), 6);
        let error = client.batch_execute(too_large).unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("23514"), "{error}");
        let output = fixture.run(&["migrate"]);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("found    table public.outbox"), "{printed}");
        client.batch_execute("ALTER TABLE public.outbox ADD COLUMN content_type text").unwrap();
    }
}

/// A user's own CHECK is a limit only if it bounds the size.
#[test]
fn a_column_with_another_check_gets_its_limit_too() {
    let (postgres, broker) = shared::pair();
    let mut fixture = Fixture::unmigrated(BINARY, "limits_of_users", &postgres.address(), &broker);
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", r#"tenant="Odd (""tenant"")""#);
    fixture.migrate();
    let mut client = fixture.client();
    let sql = r#"DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT conname FROM pg_constraint
            WHERE conrelid = 'public.outbox'::regclass AND contype = 'c' LOOP
          EXECUTE format('ALTER TABLE public.outbox DROP CONSTRAINT %I', name);
        END LOOP;
        ALTER TABLE public.outbox
          ADD CHECK (headers IS NOT NULL AND length(topic) > 0),
          ADD CHECK (traceparent <> type AND octet_length(traceparent) < 100),
          ADD CHECK (length(content_type) BETWEEN 1 AND 200),
          ADD CHECK (octet_length(payload::text) <= 40000000),
          ADD CHECK (char_length(idempotency_key) = 36); END $$"#;
    client.batch_execute(sql).unwrap();
    fixture.migrate();
    let sql = "SELECT string_agg(a.attname, ',' ORDER BY a.attnum) FROM pg_constraint k
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)
        WHERE k.conrelid = 'public.outbox'::regclass AND k.contype = 'c' AND NOT k.convalidated";
    let limited: String = client.query_one(sql, &[]).unwrap().get(0);
    assert_eq!(limited, "topic,ordering_key,type,Odd (\"tenant\"),headers");
    let output = fixture.run(&["migrate"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("found    table public.outbox"), "{printed}");
}

#[test]
fn a_table_of_another_owner_is_not_changed() {
    let (postgres, broker) = shared::pair();
    let fixture = Fixture::unmigrated(BINARY, "unlimited", &postgres.address(), &broker);
    let mut client = fixture.client();
    let sql = "CREATE TABLE public.outbox (id bigserial PRIMARY KEY, topic text, payload json)";
    client.batch_execute(sql).unwrap();
    fixture.migrate();
    assert_eq!(unchecked_limits(&mut client), 0);
}
