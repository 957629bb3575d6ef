//! What is the same for all hosts: timeouts, keepalives, names and requirements.

use std::time::Duration;

use tokio_postgres::config::{ChannelBinding, TargetSessionAttrs};

use super::ConnectionInput;
use crate::postgres::session_options;

const APPLICATION_NAME: &str = "postrider";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that is cut silently is noticed after about a minute; systems' defaults are hours.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVES_COUNT: u32 = 3;
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings that are the same for all hosts.
pub(super) fn session(given: &mut ConnectionInput<'_>) -> tokio_postgres::Config {
    let mut config = tokio_postgres::Config::new();
    let name = given.get("application_name").map(|value| value.text);
    config.application_name(name.as_deref().unwrap_or(APPLICATION_NAME));
    let options = given.get("options").map(|value| value.text);
    config.options(session_options(options.as_deref()));
    let seconds = |text: &str| text.parse().ok().map(Duration::from_secs);
    let some_seconds = "a number of seconds such as 10";
    let limit = given.read("connect_timeout", CONNECT_TIMEOUT, some_seconds, seconds);
    // 0 means "no limit" in libpq, which no relay should have.
    config.connect_timeout(if limit.is_zero() { CONNECT_TIMEOUT } else { limit });
    let idle = given.read("keepalives_idle", KEEPALIVES_IDLE, some_seconds, seconds);
    let interval = given.read("keepalives_interval", KEEPALIVES_INTERVAL, some_seconds, seconds);
    let number = |text: &str| text.parse().ok();
    let count = given.read("keepalives_count", KEEPALIVES_COUNT, "a number such as 3", number);
    let milliseconds = |text: &str| text.parse().ok().map(Duration::from_millis);
    let some_milliseconds = "a number of milliseconds such as 60000";
    let user_timeout =
        given.read("tcp_user_timeout", TCP_USER_TIMEOUT, some_milliseconds, milliseconds);
    let switch = |text: &str| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    let keepalives = given.read("keepalives", true, "0 or 1", switch);
    config.keepalives(keepalives).keepalives_idle(idle).keepalives_interval(interval);
    config.keepalives_retries(count).tcp_user_timeout(user_timeout);
    config.target_session_attrs(target(given));
    let binding = |text: &str| match text {
        "disable" => Some(ChannelBinding::Disable),
        "prefer" => Some(ChannelBinding::Prefer),
        "require" => Some(ChannelBinding::Require),
        _ => None,
    };
    let expected = "disable, prefer or require";
    config.channel_binding(given.read(
        "channel_binding",
        ChannelBinding::Prefer,
        expected,
        binding,
    ));
    // GSSAPI encryption is at most preferred, so libpq would also connect without it.
    let without = |text: &str| matches!(text, "disable" | "prefer").then_some(());
    given.read("gssencmode", (), "disable: postrider has no GSSAPI; use TLS", without);
    config
}

fn target(given: &mut ConnectionInput<'_>) -> TargetSessionAttrs {
    let expected = "any or read-write: the slot is on the primary, and postrider writes there";
    given.read("target_session_attrs", TargetSessionAttrs::Any, expected, |text| match text {
        "any" => Some(TargetSessionAttrs::Any),
        "read-write" | "primary" => Some(TargetSessionAttrs::ReadWrite),
        _ => None,
    })
}
