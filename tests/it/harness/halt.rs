//! A relay that gives up: one sentence about what happened, one about the fix, exit code 3.

use std::time::Duration;

use super::slot::confirmed_lsn;
use testkit::fixture::Fixture;

const SOON: Duration = Duration::from_secs(60);

/// Waits for the end of the fixture's relay, which must ask for an operator, and returns its log.
#[track_caller]
pub fn wait_halt(fixture: &mut Fixture) -> String {
    let relay = fixture.relay();
    let status = relay.wait_exit(SOON);
    let log = relay.log();
    assert_eq!(status.code(), Some(3), "it did not ask for an operator:\n{log}");
    assert_one_sentence_and_its_fix(&log);
    log
}

/// Starts the relay, which must halt, and checks its message and that nothing was confirmed.
#[track_caller]
pub fn assert_halts_at_start(fixture: &mut Fixture, what: &str, fix: &str) -> String {
    let before = confirmed_lsn(fixture);
    fixture.start_relay();
    let log = wait_halt(fixture);
    let [message, fix_line] = last_two_lines(&log);
    assert!(message.contains(what), "{what:?} is not in {message:?}");
    assert!(fix_line.contains(fix), "{fix:?} is not in {fix_line:?}");
    assert_eq!(before, confirmed_lsn(fixture), "the position has moved");
    log
}

/// The message and its fix, each on its own line, once, at the very end.
#[track_caller]
pub fn assert_one_sentence_and_its_fix(output: &str) {
    let [message, fix_line] = last_two_lines(output);
    assert!(message.starts_with("postrider: "), "{output}");
    assert!(fix_line.starts_with("fix: "), "{output}");
    let count = |prefix| output.lines().filter(|it| it.starts_with(prefix)).count();
    assert_eq!((count("postrider: "), count("fix: ")), (1, 1), "{output}");
}

/// The last two lines.
#[track_caller]
pub fn last_two_lines(output: &str) -> [&str; 2] {
    let mut lines = output.lines().rev();
    match (lines.next(), lines.next()) {
        (Some(last), Some(before)) => [before, last],
        _ => panic!("too few lines:\n{output}"),
    }
}
