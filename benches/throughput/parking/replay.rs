//! How fast dead events are published again.

use std::time::Instant;

use serde::Serialize;

use crate::servers::Servers;
use crate::{BINARY, PARTITION_COUNT, tell};
use testkit::fixture::Fixture;

const ROWS: i64 = 100_000;
/// The exit code for a command line that is not understood.
const USAGE: i32 = 2;

/// As the relay would have parked them, about 350 bytes each.
const FILL: &str = r#"
    INSERT INTO postrider.undelivered
           (slot, source_table, row_id, idempotency_key, ordering_key, tenant, commit_lsn, ordinal,
            topic, key, value, value_bytes, headers, "timestamp", form, status, reason, attempts)
    SELECT $1, 'public.outbox', n::text, md5(n::text), 'customer-' || n % 10000,
           'tenant-' || n % 100, '0/0'::pg_lsn + n, 0, $2,
           convert_to('customer-' || n % 10000, 'UTF8'), value, octet_length(value),
           json_build_array(json_build_array('id', n::text),
                            json_build_array('idempotency-key', md5(n::text)),
                            json_build_array('type', 'order.placed'),
                            json_build_array('tenant', 'tenant-' || n % 100)),
           now(), 'whole', 'dead', 'too-large', 1
    FROM generate_series(1, $3::bigint) n,
         LATERAL (SELECT convert_to('{"order":' || n || ',"text":"' || rpad('', 170, 'abcdefghij')
                                    || '"}', 'UTF8') AS value) payload"#;

#[derive(Serialize)]
pub(crate) struct Replay {
    rows: i64,
    /// From the start of the process until its end.
    seconds: f64,
}

impl Replay {
    pub(crate) fn rate(&self) -> f64 {
        self.rows as f64 / self.seconds
    }
}

/// `None` if the binary has no such command.
pub(super) fn measure(servers: &Servers) -> Option<Replay> {
    tell(format!("replaying {ROWS} dead events"));
    let address = servers.postgres.address();
    let mut fixture = Fixture::on(BINARY, "bench", &address, &servers.broker);
    let topic = fixture.create_topic("events", PARTITION_COUNT, &[]);
    let mut client = fixture.client();
    client.execute(FILL, &[&fixture.slot(), &topic, &ROWS]).expect("cannot write dead events");
    client.batch_execute("ANALYZE postrider.undelivered; CHECKPOINT").unwrap();

    let begun = Instant::now();
    let output = fixture.run(&["replay", "--all"]);
    let seconds = begun.elapsed().as_secs_f64();
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(USAGE) && errors.contains("unrecognized subcommand") {
        tell("  this binary has no command `replay`");
        return None;
    }
    assert!(output.status.success(), "replay failed ({}): {errors}", output.status);
    let sql = "SELECT count(*) FROM postrider.undelivered WHERE status = 'delivered'";
    let delivered: i64 = client.query_one(sql, &[]).unwrap().get(0);
    assert_eq!(delivered, ROWS, "delivered events");
    tell(format!("  {seconds:.2} s"));
    Some(Replay { rows: ROWS, seconds })
}
