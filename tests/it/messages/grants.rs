//! The right to emit is granted explicitly.

use postgres::{Client, NoTls};

use super::{SOON, fixture};
use testkit::fixture::Fixture;

#[track_caller]
fn client(fixture: &Fixture, role: &str) -> Client {
    let url = fixture.postgres().url(fixture.database());
    let url = url.replace("postgres:postgres@", &format!("{role}@"));
    Client::connect(&url, NoTls).unwrap()
}

#[track_caller]
fn assert_denied(client: &mut Client, sql: &str) {
    let error = client.batch_execute(sql).expect_err(sql);
    assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{sql}: {error}");
}

#[test]
fn a_role_needs_the_right_to_emit_and_no_other() {
    let mut fixture = fixture("message_grants");
    let topic = fixture.create_topic("orders", 1, &[]);
    let mut admin = fixture.client();
    let role = format!("app_{}", fixture.database());
    let sql = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA postrider TO {role};
         DO $$ DECLARE f regprocedure; BEGIN
             FOR f IN SELECT oid FROM pg_proc WHERE proname = 'pg_logical_emit_message' LOOP
                 EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
             END LOOP;
         END $$"
    );
    admin.batch_execute(&sql).unwrap();
    let emits = [
        format!("SELECT postrider.emit('{topic}', '1')"),
        format!("SELECT postrider.emit_bytes('{topic}', '2')"),
        format!("SELECT postrider.emit_batch('{{{topic}}}', '{{3}}')"),
        format!("SELECT postrider.emit_batch_bytes('{{{topic}}}', '{{4}}')"),
    ];
    let mut app = client(&fixture, &role);
    for sql in &emits {
        assert_denied(&mut app, sql);
    }
    assert_denied(&mut app, "SELECT postrider.message_text('x')");
    for (number, function) in
        ["emit", "emit_bytes", "emit_batch", "emit_batch_bytes"].iter().enumerate()
    {
        let grant = format!("GRANT EXECUTE ON FUNCTION postrider.{function} TO {role}");
        admin.batch_execute(&grant).unwrap();
        app.batch_execute(&emits[number]).unwrap();
        emits.iter().skip(number + 1).for_each(|sql| assert_denied(&mut app, sql));
    }
    // The right to write arbitrary messages is a separate one.
    assert_denied(&mut app, "SELECT pg_logical_emit_message(true, 'postrider', 'x')");
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(4, SOON);
    let values: Vec<_> = records.iter().filter_map(|record| record.value_text()).collect();
    assert_eq!(values, ["1", "2", "3", "4"]);
}

#[test]
fn a_callers_search_path_changes_nothing() {
    let mut fixture = fixture("message_path");
    let topic = fixture.create_topic("orders", 1, &[]);
    let sql = format!(
        "CREATE SCHEMA evil;
         CREATE FUNCTION evil.convert_to(text, name) RETURNS bytea LANGUAGE sql
             AS $$ SELECT 'evil'::bytea $$;
         CREATE FUNCTION evil.octet_length(bytea) RETURNS int LANGUAGE sql AS $$ SELECT 7 $$;
         CREATE FUNCTION evil.cardinality(anyarray) RETURNS int LANGUAGE sql AS $$ SELECT 7 $$;
         CREATE FUNCTION evil.pg_logical_emit_message(bool, text, bytea) RETURNS pg_lsn
             LANGUAGE sql AS $$ SELECT '0/0'::pg_lsn $$;
         SET search_path = evil, pg_catalog;
         SET standard_conforming_strings = off;
         SELECT postrider.emit('{topic}', '\"good\"');
         SELECT postrider.emit_batch('{{{topic},{topic}}}', '{{1,2}}')"
    );
    fixture.client().batch_execute(&sql).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(3, SOON);
    let values: Vec<_> = records.iter().filter_map(|record| record.value_text()).collect();
    assert_eq!(values, ["\"good\"", "1", "2"]);
}
