//! The application writes events to a table whose columns have names of their own.

use super::Roles;

const ENQUEUE: &str = "SELECT postrider.enqueue('orders', '{}', ordering_key => 'o', type => 't'),
    postrider.enqueue('orders', '{}', '6f1c1f3e-2b1a-4c5d-8e9f-0a1b2c3d4e5f', 'o', type => 't'),
    postrider.enqueue('orders', '{}', '6f1c1f3e-2b1a-4c5d-8e9f-0a1b2c3d4e5f', 'o', type => 't')";

/// Debezium's layout, under the name that the grants are for.
#[track_caller]
fn debezium(name: &str) -> Roles {
    let mut roles = Roles::new(name);
    roles.grant();
    let sql =
        "CREATE TABLE public.outbox (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL,
            aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb);
        ALTER TABLE public.outbox OWNER TO ROLE_NAME";
    roles.as_superuser("operator", sql);
    roles.run_as("operator").set("POSTRIDER_POSTGRES_PRESET", "debezium").migrate();
    roles.grant();
    roles
}

#[test]
fn the_application_reads_the_columns_that_have_the_id_and_the_topic() {
    let roles = debezium("mapped_rights");
    let mut application = roles.client("application");
    application.query_one(ENQUEUE, &[]).unwrap();
    for (right, place) in [
        ("USAGE", "SCHEMA postrider"),
        ("INSERT", "outbox"),
        ("SELECT (id)", "outbox"),
        ("SELECT (aggregatetype)", "outbox"),
    ] {
        roles.as_superuser("application", &format!("REVOKE {right} ON {place} FROM ROLE_NAME"));
        let error = application.query_one(ENQUEUE, &[]).expect_err(right);
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{right}: {error}");
        roles.as_superuser("application", &format!("GRANT {right} ON {place} TO ROLE_NAME"));
        application.query_one(ENQUEUE, &[]).unwrap();
    }
    let error = application.batch_execute("SELECT payload FROM outbox").unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{error}");
    let error = application.batch_execute("UPDATE postrider.outbox_columns SET columns = '{}'");
    assert_eq!(error.unwrap_err().code().map(|code| code.code()), Some("42501"));
}

/// After an update the names are readable without new grants; an administrator may have revoked that.
#[test]
fn without_the_right_to_read_the_names_the_error_has_the_grant() {
    let roles = debezium("names_revoked");
    let mut application = roles.client("application");
    let revoke = "REVOKE SELECT ON postrider.outbox_columns FROM ROLE_NAME";
    roles.as_superuser("application", revoke);
    application.query_one(ENQUEUE, &[]).unwrap();
    roles.as_superuser("application", "REVOKE SELECT ON postrider.outbox_columns FROM PUBLIC");
    let error = application.query_one(ENQUEUE, &[]).unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "42501");
    assert!(error.message().contains("lacks SELECT on postrider.outbox_columns"), "{error}");
    roles.superuser().batch_execute(error.hint().unwrap()).unwrap();
    application.query_one(ENQUEUE, &[]).unwrap();
}

#[test]
fn migrate_names_the_right_to_change_the_names_and_recover_does_not_need_it() {
    let mut roles = debezium("names_kept");
    let sql = "REVOKE ALL ON postrider.outbox_columns FROM ROLE_NAME;
        GRANT USAGE ON SCHEMA postrider TO ROLE_NAME";
    roles.as_superuser("relay", sql);
    // The relay's role may run migrate as long as nothing has to be changed.
    let output = roles.run_as("relay").run(&["migrate"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing to change"), "{output:?}");
    roles.fixture.set("POSTRIDER_POSTGRES_COLUMNS", "tenant=aggregateid");
    let output = roles.fixture.run(&["migrate"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    let grant = format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.outbox_columns TO \"{}\";",
        roles.name("relay")
    );
    assert!(errors.contains(&grant), "{grant} is not in {errors}");
    roles.fixture.postgres().drop_slot(roles.fixture.slot()).unwrap();
    let output = roles.fixture.run(&["recover"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    roles.superuser().batch_execute(&grant).unwrap();
    roles.fixture.migrate();
    let sql = "SELECT columns ->> 'tenant' FROM postrider.outbox_columns";
    let tenant: String = roles.superuser().query_one(sql, &[]).unwrap().get(0);
    assert_eq!(tenant, "aggregateid");
}
