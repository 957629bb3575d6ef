//! The rule that keeps tenants apart.

use super::{BINARY, number, refused};
use crate::support::fixture::Fixture;

#[test]
fn the_table_insists_on_it_whoever_writes() {
    let fixture = Fixture::new(BINARY, "tenants");
    let mut client = fixture.client();
    let bad = "INSERT INTO outbox (topic, tenant, idempotency_key) VALUES ('t', 'a', 'b/1')";
    client.batch_execute(bad).unwrap();
    let require = "SELECT postrider.require_tenant_keys('outbox')::int::bigint";
    assert_eq!(number(&mut client, require), 0);
    refused(&mut client, &bad.replace("b/1", "b/2"), "23514");
    refused(&mut client, &bad.replace("'a'", "''"), "23514");
    // "a" and "a/b" would meet in "a/b/1".
    refused(&mut client, &bad.replace("'a', 'b/1'", "'a/b', 'a/b/1'"), "23514");
    client.batch_execute(&bad.replace("b/1", "a/1")).unwrap();
    client.batch_execute("INSERT INTO outbox (topic) VALUES ('t')").unwrap();
    // A row from before the rule keeps it from being valid for all.
    refused(&mut client, require, "23514");
    client.batch_execute("DELETE FROM outbox WHERE idempotency_key = 'b/1'").unwrap();
    assert_eq!(number(&mut client, require), 1);
    assert_eq!(number(&mut client, require), 1);
}

#[test]
fn the_functions_say_what_is_wrong_and_generate_keys_that_are_right() {
    let fixture = Fixture::new(BINARY, "tenant_keys");
    let mut client = fixture.client();
    client.batch_execute("SELECT postrider.require_tenant_keys('outbox')").unwrap();
    for (sql, what) in [
        (
            "SELECT postrider.enqueue('t', '1', 'b/1', tenant => 'a')",
            "idempotency_key does not begin",
        ),
        ("SELECT postrider.enqueue('t', '1', tenant => 'a/b')", "tenant contains \"/\""),
        (
            "SELECT postrider.enqueue_batch('outbox', '{t,t}', '{1,2}', '{a/1,1}', tenants => '{a,a}')",
            "event 2 of 2: idempotency_key does not begin",
        ),
    ] {
        let said = refused(&mut client, sql, "22023");
        assert!(said.starts_with(what), "{said}");
    }
    let sql = "SELECT postrider.enqueue('t', '1', tenant => 'a'), postrider.enqueue('t', '1', 'k'),
        postrider.enqueue('t', '1', 'a/1', tenant => 'a'),
        postrider.enqueue_batch('outbox', '{t,t}', '{1,2}', '{NULL,a/2}', tenants => '{a,a}')";
    client.batch_execute(sql).unwrap();
    assert_eq!(number(&mut client, "SELECT count(*) FROM outbox"), 5);
}
