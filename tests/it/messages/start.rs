//! What must be there before messages are published.

use super::{BINARY, SOON, emit, fixture};
use crate::halt::assert_halts_at_start;
use crate::support::fixture::Fixture;
use crate::support::shared;

#[test]
fn without_the_functions_the_relay_says_so() {
    let mut fixture = fixture("message_unmade");
    let sql = "DROP FUNCTION postrider.emit, postrider.emit_bytes;
        DELETE FROM postrider.schema_version WHERE version >= 5";
    fixture.client().batch_execute(sql).unwrap();
    assert_halts_at_start(&mut fixture, "no function postrider.emit", "run `postrider migrate`");
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "false");
    fixture.start_relay().wait_ready(SOON);
}

#[test]
fn a_database_of_an_earlier_version_is_brought_up_to_date() {
    let (postgres, broker) = shared::pair();
    let mut fixture = Fixture::unmigrated(BINARY, "message_update", &postgres.address(), &broker);
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
    fixture.migrate();
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let id = emit(&fixture, &topic, None);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
}
