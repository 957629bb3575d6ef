//! The rule that keeps tenants apart.

use super::{BINARY, number, refused};
use testkit::fixture::Fixture;

#[test]
fn the_table_enforces_the_rule_for_every_writer() {
    let fixture = Fixture::new(BINARY, "tenants");
    let mut client = fixture.client();
    let bad = "INSERT INTO outbox (topic, tenant, idempotency_key) VALUES ('t', 'a', 'b/1')";
    client.batch_execute(bad).unwrap();
    let require = "SELECT postrider.require_tenant_keys('outbox')::int::bigint";
    assert_eq!(number(&mut client, require), 0);
    refused(&mut client, &bad.replace("b/1", "b/2"), "23514");
    refused(&mut client, &bad.replace("'a'", "''"), "23514");
    // "a" and "a/b" would collide in "a/b/1".
    refused(&mut client, &bad.replace("'a', 'b/1'", "'a/b', 'a/b/1'"), "23514");
    client.batch_execute(&bad.replace("b/1", "a/1")).unwrap();
    client.batch_execute("INSERT INTO outbox (topic) VALUES ('t')").unwrap();
    // A row from before the rule prevents it from being validated.
    refused(&mut client, require, "23514");
    client.batch_execute("DELETE FROM outbox WHERE idempotency_key = 'b/1'").unwrap();
    assert_eq!(number(&mut client, require), 1);
    assert_eq!(number(&mut client, require), 1);
}

#[test]
fn the_functions_report_what_is_wrong_and_generate_correct_keys() {
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
        let message = refused(&mut client, sql, "22023");
        assert!(message.starts_with(what), "{message}");
    }
    let sql = "SELECT postrider.enqueue('t', '1', tenant => 'a'), postrider.enqueue('t', '1', 'k'),
        postrider.enqueue('t', '1', 'a/1', tenant => 'a'),
        postrider.enqueue_batch('outbox', '{t,t}', '{1,2}', '{NULL,a/2}', tenants => '{a,a}')";
    client.batch_execute(sql).unwrap();
    assert_eq!(number(&mut client, "SELECT count(*) FROM outbox"), 5);
}

#[test]
fn a_writer_without_a_tenant_cannot_take_a_tenants_key() {
    let fixture = Fixture::new(BINARY, "tenantless");
    let mut client = fixture.client();
    client.batch_execute("SELECT postrider.require_tenant_keys('outbox')").unwrap();
    let by_hand = "INSERT INTO outbox (topic, idempotency_key) VALUES ('t', 'acme/order-17')";
    refused(&mut client, by_hand, "23514");
    for (sql, what) in [
        ("SELECT postrider.enqueue('t', '1', 'acme/order-17')", "idempotency_key contains \"/\""),
        ("SELECT postrider.enqueue_bytes('t', '1', 'acme/order-17')", "idempotency_key contains"),
        ("SELECT postrider.enqueue_new('t', '1', 'acme/order-17')", "idempotency_key contains"),
        (
            "SELECT postrider.enqueue_batch('outbox', '{t,t}', '{1,2}', '{k,acme/order-17}')",
            "event 2 of 2: idempotency_key contains \"/\" and the event has no tenant",
        ),
        (
            "SELECT postrider.enqueue_batch('outbox', '{t,t}', '{1,2}', '{b/1,acme/order-17}',
                tenants => '{b,NULL}')",
            "event 2 of 2: idempotency_key contains \"/\" and the event has no tenant",
        ),
    ] {
        let message = refused(&mut client, sql, "22023");
        assert!(message.starts_with(what), "{message}");
    }
    let sql =
        "SELECT is_new FROM postrider.enqueue_new('t', '1', 'acme/order-17', tenant => 'acme')";
    assert!(client.query_one(sql, &[]).unwrap().get::<_, bool>(0), "the tenant's own event");
    client.batch_execute("SELECT postrider.enqueue('t', '1', 'no-slash')").unwrap();
}

#[test]
fn the_same_call_completes_the_rule_of_an_earlier_version() {
    let fixture = Fixture::new(BINARY, "tenants_upgrade");
    let mut client = fixture.client();
    // As created before the rule covered events without a tenant.
    let sql = "ALTER TABLE outbox ADD CONSTRAINT postrider_tenant_keys CHECK (tenant IS NULL OR
            tenant <> '' AND strpos(tenant, '/') = 0 AND starts_with(idempotency_key, tenant || '/'));
        SELECT postrider.enqueue('t', '1', 'acme/order-17')";
    client.batch_execute(sql).unwrap();
    let require = "SELECT postrider.require_tenant_keys('outbox')::int::bigint";
    assert_eq!(number(&mut client, require), 0);
    refused(&mut client, "SELECT postrider.enqueue('t', '1', 'acme/order-18')", "22023");
    refused(&mut client, require, "23514");
    client.batch_execute("DELETE FROM outbox").unwrap();
    assert_eq!(number(&mut client, require), 1);
    assert_eq!(number(&mut client, require), 1);
}
