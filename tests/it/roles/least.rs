//! Everything works with exactly the rights of docs/grants.sql, and fails without any one of them.

use super::{Roles, SOON};
use crate::harness::halt::{assert_halts_at_start, assert_one_sentence_and_its_fix};
use crate::harness::metrics::state;
use testkit::wait::wait_until;

const INSERT: &str = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '7')";

#[test]
fn three_roles_do_everything_and_none_is_a_superuser() {
    let mut roles = Roles::ready("least");
    let topic = roles.fixture.create_topic("events", 1, &[]);
    roles.fixture.set("POSTRIDER_CLEANER_RETENTION", "1s");
    roles.fixture.set("POSTRIDER_CLEANER_INTERVAL", "200ms");
    roles.run_as("relay").start_relay().wait_ready(SOON);
    roles.client("application").execute(INSERT, &[&"no topic!"]).unwrap();
    roles.client("application").execute(INSERT, &[&topic]).unwrap();
    let records = roles.fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].value_text(), Some("7"));
    let mut client = roles.fixture.client();
    wait_until("the bad event to be parked", SOON, || {
        let sql = "SELECT count(*) FROM postrider.undelivered";
        client.query_one(sql, &[]).unwrap().get::<_, i64>(0) == 1
    });
    wait_until("the published row to be cleaned, and the parked one to stay", SOON, || {
        let sql = "SELECT count(*) FROM outbox";
        client.query_one(sql, &[]).unwrap().get::<_, i64>(0) == 1
    });
    let relay = roles.fixture.relay();
    assert_eq!(state(relay), "streaming");
    wait_until("the slot's gauges", SOON, || {
        let (_, body) = relay.http_get("/status").unwrap();
        let status: serde_json::Value = serde_json::from_str(&body).unwrap();
        status["slot_retained_bytes"].as_i64() > Some(0)
    });
    relay.terminate();
    assert_eq!(relay.wait_exit(SOON).code(), Some(0));
    // Once more: it is idempotent, and migrate has nothing to do for the operator.
    roles.grant();
    let output = roles.run_as("operator").run(&["migrate"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing to change"));
    let output = roles.fixture.run(&["teardown", "--tables", "--yes"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_schema_created_by_migrate_can_be_granted_afterwards() {
    let mut roles = Roles::new("new_schema");
    let schema = "Orders";
    roles.grant_in(schema);
    roles.run_as("operator").set("POSTRIDER_TABLES", "\"Orders\".outbox").migrate();
    roles.grant_in(schema);
    let topic = roles.fixture.create_topic("events", 1, &[]);
    roles.run_as("relay").start_relay().wait_ready(SOON);
    let insert = INSERT.replace("public", "\"Orders\"");
    roles.client("application").execute(&insert, &[&topic]).unwrap();
    let records = roles.fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].value_text(), Some("7"));
}

#[test]
fn an_application_can_emit_if_granted() {
    let mut roles = Roles::ready("emit");
    let topic = roles.fixture.create_topic("events", 1, &[]);
    let emit = format!("SELECT postrider.emit('{topic}', '7')");
    let error = roles.client("application").batch_execute(&emit).unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{error}");
    roles.grant_with("public", &["-v", "messages=on"]);
    roles.fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
    // The relay needs no additional right.
    roles.run_as("relay").start_relay().wait_ready(SOON);
    roles.client("application").batch_execute(&emit).unwrap();
    let batch = format!("SELECT postrider.emit_batch('{{{topic}}}', '{{8}}')");
    roles.client("application").batch_execute(&batch).unwrap();
    let records = roles.fixture.consumer().read_n(2, SOON);
    let values: Vec<_> = records.iter().filter_map(|record| record.value_text()).collect();
    assert_eq!(values, ["7", "8"]);
}

#[test]
fn no_role_can_do_more() {
    let roles = Roles::ready("no_more");
    let denied = |role: &str, sql: &str| {
        let error = roles.client(role).batch_execute(sql).expect_err(sql);
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{role}: {sql}: {error}");
    };
    denied("application", "SELECT payload FROM public.outbox");
    denied("application", "DELETE FROM public.outbox");
    for role in ["application", "relay"] {
        denied(role, "UPDATE public.outbox SET topic = ''");
    }
    denied("relay", "INSERT INTO public.outbox (topic) VALUES ('t')");
    for role in ["application", "relay"] {
        denied(role, "CREATE TABLE public.t ()");
        denied(role, "CREATE SCHEMA s");
        denied(role, "CREATE PUBLICATION p");
        denied(role, "DELETE FROM postrider.schema_version");
        denied(role, "DROP PUBLICATION postrider");
    }
    denied("application", "SELECT pg_drop_replication_slot('x')");
    denied("operator", "CREATE ROLE r");
}

#[test]
fn the_application_writes_by_function_and_reads_back_what_it_needs() {
    let roles = Roles::ready("read_back");
    let mut application = roles.client("application");
    for sql in [
        "INSERT INTO outbox (topic) VALUES ('t') RETURNING id",
        "INSERT INTO outbox (topic) VALUES ('t') ON CONFLICT (topic, idempotency_key) DO NOTHING",
    ] {
        application.batch_execute(sql).unwrap();
    }
    let sql = "SELECT postrider.enqueue('t', '1', 'k'),
        (postrider.enqueue_batch('outbox', '{t,t}', '{1,2}', '{k,l}'))[1]";
    let row = application.query_one(sql, &[]).unwrap();
    assert_eq!(row.get::<_, String>(0), row.get::<_, String>(1));
    for (right, place) in [
        ("USAGE", "SCHEMA postrider"),
        ("INSERT", "outbox"),
        ("SELECT (id)", "outbox"),
        ("SELECT (topic)", "outbox"),
        ("SELECT (idempotency_key)", "outbox"),
    ] {
        roles.as_superuser("application", &format!("REVOKE {right} ON {place} FROM ROLE_NAME"));
        let error = application.query_one(sql, &[]).expect_err(right);
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{right}: {error}");
        roles.as_superuser("application", &format!("GRANT {right} ON {place} TO ROLE_NAME"));
        application.query_one(sql, &[]).unwrap();
    }
}

#[test]
fn the_application_needs_each_of_its_rights() {
    let roles = Roles::ready("application");
    let check = |revoke: &str, grant: &str, what: &str| {
        let write = || {
            let mut client = postgres::Client::connect(&roles.url("application"), postgres::NoTls)?;
            client.execute(INSERT, &[&"t"])
        };
        roles.as_superuser("application", revoke);
        let error = write().expect_err(revoke);
        let message = error.as_db_error().map(|error| error.message()).unwrap_or_default();
        assert!(message.contains(what), "{what:?} is not in {message:?}");
        roles.as_superuser("application", grant);
        write().unwrap();
    };
    check(
        "REVOKE CONNECT ON DATABASE DATABASE_NAME FROM ROLE_NAME",
        "GRANT CONNECT ON DATABASE DATABASE_NAME TO ROLE_NAME",
        "permission denied for database",
    );
    check(
        "REVOKE USAGE ON SCHEMA public FROM ROLE_NAME",
        "GRANT USAGE ON SCHEMA public TO ROLE_NAME",
        "permission denied for schema public",
    );
    check(
        "REVOKE INSERT ON outbox FROM ROLE_NAME",
        "GRANT INSERT ON outbox TO ROLE_NAME",
        "permission denied for table outbox",
    );
}

#[test]
fn the_relay_needs_each_of_its_rights() {
    let mut roles = Roles::ready("relay");
    let connect = "CONNECT ON DATABASE DATABASE_NAME";
    roles.as_superuser("relay", "ALTER ROLE ROLE_NAME NOREPLICATION");
    let fix = "ALTER ROLE … REPLICATION (on Amazon RDS: GRANT rds_replication TO …)";
    assert_halts_at_start(roles.run_as("relay"), "SQLSTATE 42501", fix);
    roles.as_superuser("relay", "ALTER ROLE ROLE_NAME REPLICATION");
    roles.as_superuser("relay", &format!("REVOKE {connect} FROM ROLE_NAME"));
    let fix = "grant the role CONNECT on the database";
    assert_halts_at_start(roles.run_as("relay"), "permission denied for database", fix);
    roles.as_superuser("relay", &format!("GRANT {connect} TO ROLE_NAME"));
    let role = format!("\"{}\"", roles.name("relay"));
    // The SQL in the relay's fix is run unchanged.
    for (right, place) in [
        ("USAGE", "SCHEMA postrider"),
        ("SELECT, INSERT, UPDATE, DELETE", "postrider.undelivered"),
        ("SELECT", "postrider.replayed"),
        ("SELECT", "postrider.schema_version"),
    ] {
        roles.as_superuser("relay", &format!("REVOKE {right} ON {place} FROM ROLE_NAME"));
        let fix = format!("GRANT {right} ON {place} TO {role}");
        assert_halts_at_start(roles.run_as("relay"), "lacks ", &fix);
        roles.as_superuser("relay", &fix);
    }
    roles.run_as("relay").start_relay().wait_ready(SOON);
}

#[test]
fn a_relay_with_order_halt_needs_no_right_on_the_side_table() {
    let mut roles = Roles::ready("halting");
    let topic = roles.fixture.create_topic("events", 1, &[]);
    for table in ["undelivered", "replayed"] {
        roles.as_superuser("relay", &format!("REVOKE ALL ON postrider.{table} FROM ROLE_NAME"));
    }
    roles.fixture.set("POSTRIDER_UNDELIVERED_ORDER", "halt");
    roles.run_as("relay").start_relay().wait_ready(SOON);
    roles.client("application").execute(INSERT, &[&topic]).unwrap();
    roles.fixture.consumer().read_n(1, SOON);
}

#[test]
fn the_operator_needs_each_of_its_rights() {
    let mut roles = Roles::new("operator");
    roles.grant();
    let mut check = |revoke: &str, grant: &str, what: &str, fix: &str| {
        roles.as_superuser("operator", revoke);
        let output = roles.run_as("operator").run(&["migrate"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{errors}");
        assert_one_sentence_and_its_fix(&errors);
        let operator = format!("\"{}\"", roles.name("operator"));
        let database = format!("\"{}\"", roles.fixture.database());
        let fix = fix.replace("ROLE_NAME", &operator).replace("DATABASE_NAME", &database);
        assert!(errors.contains(what), "{what:?} is not in\n{errors}");
        assert!(errors.contains(&fix), "{fix:?} is not in\n{errors}");
        roles.as_superuser("operator", grant);
    };
    check(
        "REVOKE CONNECT ON DATABASE DATABASE_NAME FROM ROLE_NAME",
        "GRANT CONNECT ON DATABASE DATABASE_NAME TO ROLE_NAME",
        "permission denied for database",
        "grant the role CONNECT on the database",
    );
    // The SQL in migrate's fix is run unchanged.
    for (revoke, grant, what) in [
        (
            "REVOKE CREATE ON DATABASE DATABASE_NAME FROM ROLE_NAME",
            "GRANT CREATE ON DATABASE DATABASE_NAME TO ROLE_NAME;",
            "(for schema postrider, publication postrider)",
        ),
        (
            "REVOKE CREATE ON SCHEMA public FROM ROLE_NAME",
            "GRANT USAGE, CREATE ON SCHEMA \"public\" TO ROLE_NAME;",
            "(for table public.outbox)",
        ),
        (
            "REVOKE USAGE ON SCHEMA public FROM ROLE_NAME",
            "GRANT USAGE, CREATE ON SCHEMA \"public\" TO ROLE_NAME;",
            "(for table public.outbox)",
        ),
        (
            "ALTER ROLE ROLE_NAME NOREPLICATION",
            "ALTER ROLE ROLE_NAME REPLICATION /* on Amazon RDS: GRANT rds_replication TO ROLE_NAME */;",
            "lacks REPLICATION (for slot ",
        ),
    ] {
        check(revoke, grant, what, grant);
    }
    roles.run_as("operator").migrate();
}
