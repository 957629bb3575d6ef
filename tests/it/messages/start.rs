//! What must be there before messages are published.

use super::{SOON, fixture};
use crate::harness::halt::assert_halts_at_start;

#[test]
fn the_relay_reports_missing_functions() {
    let mut fixture = fixture("message_unmade");
    let sql = "DROP FUNCTION postrider.emit, postrider.emit_bytes";
    fixture.client().batch_execute(sql).unwrap();
    assert_halts_at_start(&mut fixture, "no function postrider.emit", "run `postrider migrate`");
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "false");
    assert!(fixture.run(&["migrate", "--withdraw", "messages"]).status.success());
    fixture.start_relay().wait_ready(SOON);
}
