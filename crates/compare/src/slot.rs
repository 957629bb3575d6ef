//! Where a slot is, and who reads it.

use postgres::Client;
use postgres::types::PgLsn;

/// A slot is also active while it is created.
pub(crate) fn streams(client: &mut Client, slot: &str) -> bool {
    let sql =
        "SELECT FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid
        WHERE s.slot_name = $1 AND r.state = 'streaming'";
    client.query_opt(sql, &[&slot]).expect("cannot read the slot").is_some()
}

/// The oldest position that the server can still read for it.
pub(crate) fn restart_lsn(client: &mut Client, slot: &str) -> u64 {
    let sql = "SELECT restart_lsn FROM pg_replication_slots WHERE slot_name = $1";
    let row = client.query_one(sql, &[&slot]).expect("cannot read the slot");
    row.get::<_, PgLsn>(0).into()
}
