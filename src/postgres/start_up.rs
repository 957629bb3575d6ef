//! The settings that every session of ours begins with, whatever the role's and the database's
//! defaults are: they are in the start-up packet, which overrides both, of ordinary and of
//! replication connections alike. Sessions that need other ones set them later.

use tokio_postgres::{Client, Config, Error};

/// Time-outs that end a session which merely waits would make a long transaction, snapshot or
/// recovery start again forever; another isolation level or a read-only default makes statements
/// fail; a commit that was not flushed is not stored; and objects that somebody has created in a
/// schema of the search path could replace the functions and operators that we mean. `pg_temp` is
/// named because otherwise the temporary schema would come first.
const SETTINGS: &str = "-c search_path=pg_catalog,pg_temp -c statement_timeout=0 -c lock_timeout=0 \
    -c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0 \
    -c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off \
    -c default_transaction_deferrable=off -c synchronous_commit=on";

/// Servers before `TRANSACTION_TIMEOUT_SINCE` refuse a connection that sets it.
const TRANSACTION_TIMEOUT: &str = "-c transaction_timeout=0";
const TRANSACTION_TIMEOUT_SINCE: u32 = 17;

/// The options of a session, after those of the operator: of two, the last one counts.
pub(crate) fn options(given: Option<&str>) -> String {
    match given {
        Some(given) => format!("{given} {SETTINGS}"),
        None => SETTINGS.to_owned(),
    }
}

/// Time-outs that only newer servers have: switched off for this session, and in the options of
/// later sessions.
pub(super) async fn complete(
    client: &Client,
    version: Option<&str>,
    config: &mut Config,
) -> Result<(), Error> {
    let options = config.get_options().unwrap_or_default();
    let is_told = options.ends_with(TRANSACTION_TIMEOUT);
    if is_told || major(version) < Some(TRANSACTION_TIMEOUT_SINCE) {
        return Ok(());
    }
    client.batch_execute("SET transaction_timeout = 0").await?;
    let options = format!("{options} {TRANSACTION_TIMEOUT}");
    config.options(options);
    Ok(())
}

/// The first number of a version such as `17.2 (Debian 17.2-1)` or `18beta1`.
fn major(version: Option<&str>) -> Option<u32> {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    digits(version?).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version() {
        assert_eq!(major(Some("17.2 (Debian 17.2-1)")), Some(17));
        assert_eq!(major(Some("18beta1")), Some(18));
        assert_eq!(major(Some("?")), None);
        assert!(major(None) < Some(TRANSACTION_TIMEOUT_SINCE));
    }
}
