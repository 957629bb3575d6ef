//! Row-level security hides rows from a role that reads the table, but not from the log.

use super::{Roles, SOON};
use crate::harness::halt::assert_halts_at_start;
use crate::harness::parked_events::assert_exit_code;
use testkit::wait::wait_until;

const WRITE: &str = "INSERT INTO public.outbox (topic, tenant, payload)
    SELECT $1, 'tenant-' || g, '{}' FROM generate_series(1, 5) g";
/// Shows the relay's role one row of five.
const POLICY: &str = "ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY;
    CREATE POLICY one_tenant ON public.outbox USING (tenant = 'tenant-1')";

#[test]
fn a_recovery_that_would_not_see_all_rows_is_refused() {
    let mut roles = Roles::ready("rls_recover");
    let topic = roles.fixture.create_topic("t", 1, &[]);
    roles.as_superuser("relay", POLICY);
    let sql = "SELECT pg_drop_replication_slot($1)";
    roles.superuser().execute(sql, &[&roles.fixture.slot()]).unwrap();
    roles.superuser().execute(WRITE, &[&topic]).unwrap();
    let fixture = roles.run_as("relay");
    for arguments in [&["recover", "--dry-run"][..], &["recover"]] {
        let output = fixture.run(arguments);
        assert_exit_code(&output, 3);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("row-level security hides rows of public.outbox"), "{stderr}");
        assert!(stderr.contains("BYPASSRLS"), "{stderr}");
    }
    roles.as_superuser("relay", "ALTER ROLE ROLE_NAME BYPASSRLS");
    let fixture = roles.run_as("relay");
    assert_exit_code(&fixture.run(&["recover"]), 0);
    assert_eq!(fixture.consumer().read_n(5, SOON).len(), 5);
}

#[test]
fn a_snapshot_that_would_not_see_all_rows_is_refused() {
    let mut roles = Roles::new("rls_snapshot");
    roles.fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    roles.grant();
    roles.run_as("operator").migrate();
    roles.grant();
    let topic = roles.fixture.create_topic("t", 1, &[]);
    roles.superuser().execute(WRITE, &[&topic]).unwrap();
    roles.as_superuser("relay", POLICY);
    let hides = "row-level security hides rows of public.outbox";
    assert_halts_at_start(roles.run_as("relay"), hides, "BYPASSRLS");
    // An owner sees everything, unless row security is forced.
    roles.as_superuser("operator", "ALTER TABLE public.outbox FORCE ROW LEVEL SECURITY");
    assert_halts_at_start(roles.run_as("operator"), hides, "NO FORCE ROW LEVEL SECURITY");
    roles.as_superuser("operator", "ALTER TABLE public.outbox NO FORCE ROW LEVEL SECURITY");
    roles.run_as("operator").start_relay().wait_ready(SOON);
    assert_eq!(roles.fixture.consumer().read_n(5, SOON).len(), 5);
}

#[test]
fn a_partition_with_hidden_rows_is_not_dropped() {
    let mut roles = Roles::new("rls_cleaner");
    roles.grant();
    roles
        .superuser()
        .batch_execute(
            "CREATE TABLE public.outbox (id bigint GENERATED ALWAYS AS IDENTITY, topic text,
                 payload json, tenant text, created_at timestamptz NOT NULL) PARTITION BY RANGE (created_at);
             CREATE TABLE public.outbox_old PARTITION OF public.outbox
                 FOR VALUES FROM ('2020-01-01') TO ('2020-02-01');
             CREATE TABLE public.outbox_new PARTITION OF public.outbox
                 FOR VALUES FROM ('2020-02-01') TO ('2120-01-01')",
        )
        .unwrap();
    for table in ["outbox", "outbox_old", "outbox_new"] {
        let owner = format!("ALTER TABLE public.{table} OWNER TO ROLE_NAME");
        roles.as_superuser("operator", &owner);
    }
    roles.run_as("operator").migrate();
    roles.grant();
    let topic = roles.fixture.create_topic("t", 1, &[]);
    // The operator owns it, and its rows are still hidden from it.
    let hide = "ALTER TABLE public.outbox_old ENABLE ROW LEVEL SECURITY;
        ALTER TABLE public.outbox_old FORCE ROW LEVEL SECURITY;
        CREATE POLICY one_tenant ON public.outbox_old USING (tenant = 'tenant-1')";
    roles.as_superuser("operator", hide);
    let fixture = roles.run_as("operator");
    fixture.set("POSTRIDER_CLEANER_RETENTION", "1s");
    fixture.set("POSTRIDER_CLEANER_INTERVAL", "1s");
    fixture.start_relay().wait_ready(SOON);
    let write = "INSERT INTO public.outbox (topic, payload, tenant, created_at)
        SELECT $1, '{}', 'tenant-' || g, '2020-01-15' FROM generate_series(1, 5) g";
    fixture.client().execute(write, &[&topic]).unwrap();
    fixture.consumer().read_n(5, SOON);
    wait_until("the cleaner to log why it does not clean", SOON, || {
        fixture.relay().log().contains("row-level security hides rows")
    });
    let left = "SELECT count(*) FROM public.outbox_old";
    assert_eq!(fixture.client().query_one(left, &[]).unwrap().get::<_, i64>(0), 5);
}
