//! Objects of other roles in the caller's search path, or in a temporary schema, change nothing.

use super::BINARY;
use testkit::fixture::Fixture;

const EVIL: &str = include_str!("evil.sql");

/// Calls of applications: on tables created by migrate and on others, with new events, duplicates,
/// and events that are refused for the given reason.
const CALLS: [(&str, Option<&str>); 29] = [
    ("postrider.enqueue('t', '1')", None),
    (
        "postrider.enqueue('t', '1', 'k', 'o', 'x', '{\"a\":1}', \
         '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', 'type', 'public.outbox', 'c', 0)",
        None,
    ),
    ("postrider.enqueue('t', '1', 'k')", None),
    ("postrider.enqueue_bytes('t', '\\x31', 'k')", None),
    ("postrider.enqueue_bytes('t', '\\x31', outbox => 'public.odd')", None),
    (
        "postrider.enqueue('t', '1', '4bf92f35-77b3-4da6-a3ce-929d0e0e4736', outbox => 'public.odd')",
        None,
    ),
    (
        "postrider.enqueue('t', '1', '4bf92f35-77b3-4da6-a3ce-929d0e0e4736', outbox => 'public.odd')",
        None,
    ),
    ("postrider.enqueue_new('t', '1', 'k')", None),
    ("postrider.enqueue_new_bytes('t', '\\x31', 'k')", None),
    ("postrider.enqueue_batch('public.outbox', '{t,t}', '{1,2}')", None),
    (
        "postrider.enqueue_batch('public.outbox', '{t,t}', '{1,2}', '{b,k}', '{o,o}', '{x,y}', \
         NULL, NULL, '{a,b}', '{c,d}', '{0,1}')",
        None,
    ),
    ("postrider.enqueue_batch('public.odd', '{t,t}', '{1,2}')", None),
    ("postrider.enqueue_jsonb('t', '1', 'k')", None),
    ("postrider.enqueue('t', '1', 'k', 'o', 'o', '{\"a\":1}', outbox => 'public.mapped')", None),
    ("postrider.enqueue('t', '1', 'k', outbox => 'public.mapped')", None),
    ("postrider.enqueue_new('t', '1', ordering_key => 'p', outbox => 'public.mapped')", None),
    ("postrider.enqueue_jsonb('t', '1', outbox => 'public.mapped')", None),
    (
        "postrider.enqueue_batch('public.mapped', '{t,t}', '{1,2}', '{k,l}', '{o,p}', '{o,NULL}')",
        None,
    ),
    (
        "postrider.enqueue('t', '1', 'k', 'o', 'x', outbox => 'public.mapped')",
        Some("ordering_key and tenant differ"),
    ),
    (
        "postrider.enqueue('t', '1', type => 'x', outbox => 'public.mapped')",
        Some("no column for type"),
    ),
    ("postrider.enqueue('t', NULL, 'k', outbox => 'public.needy')", Some("must have a value")),
    ("postrider.require_tenant_keys('public.needy')", Some("has no column tenant")),
    ("postrider.inbox_claim('c', 'k')", None),
    ("postrider.inbox_clean('1 day')", None),
    ("postrider.require_tenant_keys('public.outbox')", None),
    ("postrider.enqueue('t', '1', 'x/k', NULL, 'x')", None),
    ("postrider.enqueue('t', '1', 'a/k')", Some("contains \"/\"")),
    ("postrider.enqueue('no topic', '1')", Some("is not a name that Kafka takes")),
    ("postrider.enqueue('t', '1', headers => '{\"id\":1}')", Some("can't have the name")),
];

fn prepared(name: &str) -> Fixture {
    let fixture = Fixture::new(BINARY, name);
    let sql = "\n        CREATE TABLE public.odd (topic varchar(99), payload text,
            idempotency_key uuid UNIQUE, id uuid DEFAULT gen_random_uuid());
        CREATE TABLE public.mapped (event uuid PRIMARY KEY, \"to\" varchar(99), body jsonb,
            key text UNIQUE, aggregate text, meta jsonb, at timestamptz NOT NULL);
        CREATE TABLE public.needy (topic text, payload json, idempotency_key text, more int NOT NULL);
        INSERT INTO postrider.outbox_columns VALUES ('public.mapped', '{\"id\": \"event\",
            \"topic\": \"to\", \"payload\": \"body\", \"idempotency_key\": \"key\",
            \"ordering_key\": \"aggregate\", \"tenant\": \"aggregate\", \"headers\": \"meta\",
            \"type\": \"\", \"created_at\": \"at\"}', 's'),
            ('public.needy', '{\"topic\": \"topic\"}', 's')";
    fixture.client().batch_execute(sql).unwrap();
    fixture
}

#[track_caller]
fn assert_all_work(client: &mut postgres::Client) {
    for (call, refusal) in CALLS {
        let error = client.batch_execute(&format!("SELECT {call}")).err();
        let message = error.map(|error| error.as_db_error().unwrap().message().to_owned());
        match (refusal, message) {
            (None, None) => {}
            (Some(refusal), Some(message)) => {
                assert!(message.contains(refusal), "{call}: {message}")
            }
            (_, message) => panic!("{call}: {message:?}"),
        }
    }
}

/// Whichever schema comes first, even before Postgres's own.
#[test]
fn impostors_in_the_search_path_are_not_called() {
    let fixture = prepared("impostors");
    let mut client = fixture.client();
    client.batch_execute(EVIL).unwrap();
    let functions = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'evil'::regnamespace";
    assert!(super::number(&mut client, functions) > 300, "this would not test much");
    client.batch_execute("SET search_path = evil, pg_catalog, public").unwrap();
    assert_all_work(&mut client);
}

/// With an ordinary search path, where Postgres's own schema comes first, a role that may create
/// objects in `public` can add functions that match better.
#[test]
fn better_matching_impostors_are_not_called() {
    let fixture = prepared("better");
    let mut client = fixture.client();
    let evil = EVIL.replace("CREATE SCHEMA evil;", "").replace("evil.", "public.");
    let sql = format!("SET search_path = pg_catalog; {evil}; RESET search_path");
    client.batch_execute(&sql).unwrap();
    assert_all_work(&mut client);
}

/// Types and tables of a temporary schema come before all others unless the path names it.
#[test]
fn temporary_objects_are_not_used() {
    let fixture = prepared("temporary");
    let mut client = fixture.client();
    for name in
        ["text", "json", "jsonb", "bytea", "oid", "regclass", "name", "record", "uuid", "char"]
    {
        client
            .batch_execute(&format!("CREATE DOMAIN pg_temp.{name} AS int CHECK (VALUE > 0)"))
            .unwrap();
    }
    for name in [
        "outbox",
        "pg_attribute",
        "pg_constraint",
        "pg_type",
        "pg_class",
        "inbox",
        "outbox_columns",
    ] {
        client.batch_execute(&format!("CREATE TEMPORARY TABLE {name} (id int)")).unwrap();
    }
    assert_all_work(&mut client);
}

/// Covers functions that are not called above or are added later: calls name the schema, unless the
/// path is pinned or the body was parsed when the function was created.
#[test]
fn every_function_names_the_schema_of_what_it_calls() {
    let fixture = Fixture::new(BINARY, "qualified");
    let sql = "SELECT coalesce(string_agg(DISTINCT p.proname || ' calls ' || m.found[1], ', '), '')
          FROM pg_proc p, regexp_matches(p.prosrc, '(?<![.\\w])([a-z_]+)\\(', 'g') AS m (found)
         WHERE p.pronamespace = 'postrider'::regnamespace AND p.prosqlbody IS NULL
           AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS s WHERE s LIKE 'search_path=%')
           AND EXISTS (SELECT FROM pg_proc f WHERE f.pronamespace = 'pg_catalog'::regnamespace
                          AND f.proname = m.found[1])";
    assert_eq!(super::text(&mut fixture.client(), sql), "");
}
