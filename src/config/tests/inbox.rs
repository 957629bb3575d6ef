//! `[inbox]`.

use std::time::Duration;

use super::*;

fn given(variable: Option<&'static str>) -> Result<InboxConfig, Vec<String>> {
    let set = variable.map(|value| ("POSTRIDER_INBOX_RETENTION", value));
    let variables: Vec<_> = [URL, BROKERS].into_iter().chain(set).collect();
    let given = Given { variables: &variables, ..Given::default() };
    let told = |error: ConfigError| error.problems.iter().map(ToString::to_string).collect();
    given.load().map(|config| config.inbox).map_err(told)
}

#[test]
fn claims_stay_unless_a_retention_is_set() {
    assert_eq!(given(None), Ok(InboxConfig { retention: None }));
    assert_eq!(given(Some("off")), Ok(InboxConfig { retention: None }));
    let month = Duration::from_secs(30 * 86_400);
    assert_eq!(given(Some("30d")), Ok(InboxConfig { retention: Some(month) }));
    let problems = given(Some("0s")).unwrap_err();
    assert!(problems[0].ends_with("choose 1ms to 100years, or off"), "{problems:?}");
}
