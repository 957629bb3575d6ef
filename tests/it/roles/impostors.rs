//! A role that may create objects in `public` can't make ours run its code.

use super::{Roles, SOON};
use crate::harness::parked_events::assert_exit_code;
use crate::harness::slot::wait_confirmed;
use testkit::wait::wait_until;

/// Each matches better than Postgres's own, wherever in the search path it is, and records who
/// called it.
const TRAPS: [(&str, &str, &str); 8] = [
    ("unnest(text[])", "SETOF text", "RETURN QUERY SELECT pg_catalog.unnest($1)"),
    ("unnest(oid[])", "SETOF oid", "RETURN QUERY SELECT pg_catalog.unnest($1)"),
    ("to_jsonb(pg_replication_slots)", "jsonb", "RETURN pg_catalog.to_jsonb($1)"),
    ("to_jsonb(pg_publication)", "jsonb", "RETURN pg_catalog.to_jsonb($1)"),
    ("array_agg(text)", "text", "RETURN $1"),
    ("cardinality(text[])", "int", "RETURN pg_catalog.cardinality($1)"),
    ("format(text, text)", "text", "RETURN pg_catalog.format($1, $2)"),
    ("format(text, text, text)", "text", "RETURN pg_catalog.format($1, $2, $3)"),
];

#[test]
fn objects_that_others_create_in_public_are_never_called() {
    let mut roles = Roles::ready("mallory");
    let mallory = roles.name("mallory");
    roles.superuser().batch_execute(&format!(
        "CREATE ROLE \"{mallory}\"; GRANT USAGE, CREATE ON SCHEMA public TO \"{mallory}\"; SET ROLE \"{mallory}\";
         CREATE TABLE public.loot (who text, what text); GRANT INSERT, SELECT ON public.loot TO PUBLIC"
    )).unwrap();
    for (name, result, body) in TRAPS {
        let sql = format!(
            "SET ROLE \"{mallory}\"; CREATE FUNCTION public.{name} RETURNS {result} LANGUAGE plpgsql AS $$BEGIN
             INSERT INTO public.loot VALUES (current_user, '{name}'); {body}; END$$"
        );
        roles.superuser().batch_execute(&sql).unwrap();
    }
    roles.grant();
    let topic = roles.fixture.create_topic("t", 1, &[]);
    let fixture = roles.run_as("relay");
    fixture.start_relay().wait_ready(SOON);
    let write = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '7')";
    fixture.client().execute(write, &[&topic]).unwrap();
    wait_confirmed(fixture);
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    for arguments in [&["dead", "list"][..], &["replay", "--all"]] {
        assert_exit_code(&fixture.run(arguments), 0);
    }
    wait_until("the slot is free", SOON, || fixture.slot_holder().is_none());
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    assert_exit_code(&fixture.run(&["recover"]), 0);
    let fixture = roles.run_as("operator");
    assert_exit_code(&fixture.run(&["migrate"]), 0);
    assert_exit_code(&fixture.run(&["teardown", "--yes"]), 0);
    let sql = "SELECT coalesce(string_agg(DISTINCT who || ' ' || what, ', '), '') FROM public.loot";
    let loot: String = roles.superuser().query_one(sql, &[]).unwrap().get(0);
    assert_eq!(loot, "", "foreign code was run");
    let sql = format!("DROP OWNED BY \"{mallory}\" CASCADE; DROP ROLE \"{mallory}\"");
    roles.superuser().batch_execute(&sql).unwrap();
}
