//! The destination of a slot's events is stored with its progress, and another destination is
//! refused before the first record is sent (ADR 27): events that a wrong broker acknowledges are
//! lost for the right one, and a copy of the database must not publish together with the original.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::store;
use crate::config::Config;
use crate::postgres::{self, ConnectError, Connected, Connection};
use crate::sink::Approval;
use postrider_core::delivery::Broken;

/// How long the database may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How often to try if other instances change the stored value meanwhile.
const TRIES: usize = 3;

/// The ids of librdkafka's embedded brokers are this and a hexadecimal number. They change at every
/// start, so they are not stored. Kafka makes ids of 22 random characters.
const EMBEDDED: &str = "mockCluster";

/// The slot's events have gone somewhere else so far.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WrongDestination {
    /// To another Kafka cluster.
    #[error(
        "the brokers belong to Kafka cluster {found}, but the events of slot \"{slot}\" go to \
         cluster {stored}; nothing was sent"
    )]
    Cluster {
        /// The slot's name.
        slot: String,
        /// The cluster they go to.
        stored: String,
        /// The one that was found.
        found: String,
    },
    /// The database was used in another environment.
    #[error(
        "relay.environment is {}, but slot \"{slot}\" belongs to environment \"{stored}\"; nothing \
         was sent",
        match .found {
            Some(found) => format!("\"{found}\""),
            None => "not set".to_owned(),
        }
    )]
    Environment {
        /// The slot's name.
        slot: String,
        /// The environment it was used in.
        stored: String,
        /// The configured one.
        found: Option<String>,
    },
}

impl WrongDestination {
    /// How to fix it.
    pub(crate) fn fix(&self) -> String {
        match self {
            WrongDestination::Cluster { stored, .. } => format!(
                "correct kafka.brokers to name cluster {stored}; if the events are to go to the \
                 other cluster from now on, run the command once with --accept-destination"
            ),
            WrongDestination::Environment { stored, .. } => format!(
                "set relay.environment to \"{stored}\" if this is that environment; if this \
                 database is a copy, the events in it are published by the original: to publish \
                 them here as well, or to change the name, run the command once with \
                 --accept-destination"
            ),
        }
    }
}

/// Why the destination is not approved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DestinationError {
    /// It is another one.
    #[error(transparent)]
    Wrong(#[from] WrongDestination),
    /// The database has no such columns yet.
    #[error("the table postrider.progress lacks columns that this version needs")]
    OldSchema,
    /// A query failed.
    #[error("{}", postgres::describe(.0))]
    Query(tokio_postgres::Error),
    /// Connecting failed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Other instances keep storing something else.
    #[error("other instances keep changing the stored destination")]
    Contended,
    /// The database does not answer.
    #[error("Postgres did not answer within {0:?}")]
    Silent(Duration),
}

impl DestinationError {
    /// What an operator has to do, if waiting can't help.
    pub(crate) fn fix(&self) -> Option<String> {
        match self {
            DestinationError::Wrong(wrong) => Some(wrong.fix()),
            DestinationError::OldSchema => Some("run `postrider migrate`".to_owned()),
            DestinationError::Connect(error) => error.fix().map(str::to_owned),
            DestinationError::Query(_)
            | DestinationError::Contended
            | DestinationError::Silent(_) => None,
        }
    }
}

impl From<tokio_postgres::Error> for DestinationError {
    fn from(error: tokio_postgres::Error) -> Self {
        if error.code() == Some(&SqlState::UNDEFINED_COLUMN) {
            DestinationError::OldSchema
        } else {
            DestinationError::Query(error)
        }
    }
}

/// Compares where a slot's events go with where they went, for all producers of a process.
#[derive(Debug, Clone)]
pub(crate) struct DestinationCheck {
    connection: Connection,
    slot: String,
    environment: Option<String>,
    /// A value is stored if there was none.
    is_first_stored: bool,
    accepts: Arc<Accepts>,
}

/// What may differ, until it was compared for the first time.
#[derive(Debug)]
struct Accepts {
    cluster: AtomicBool,
    environment: AtomicBool,
}

impl DestinationCheck {
    /// For the relay, which stores what it finds first.
    pub(crate) fn new(config: &Config) -> Self {
        let accepts = config.relay.accept_destination;
        DestinationCheck {
            connection: config.postgres.connection.clone(),
            slot: config.postgres.slot.clone(),
            environment: config.relay.environment.clone(),
            is_first_stored: true,
            accepts: Arc::new(Accepts {
                cluster: AtomicBool::new(accepts),
                environment: AtomicBool::new(accepts),
            }),
        }
    }

    /// For commands other than `run`: they store only what the operator accepts with the flag.
    pub(crate) fn that_only_compares(config: &Config) -> Self {
        DestinationCheck { is_first_stored: false, ..DestinationCheck::new(config) }
    }

    /// In the form that the sink takes.
    pub(crate) fn approval(&self) -> Approval {
        let check = self.clone();
        Approval::new(move |cluster| {
            let check = check.clone();
            Box::pin(async move {
                check
                    .approve(cluster.as_deref())
                    .await
                    .map_err(|error| Broken { fix: error.fix(), ..Broken::new(error.to_string()) })
            })
        })
    }

    async fn approve(&self, cluster: Option<&str>) -> Result<(), DestinationError> {
        let asking = async {
            let Connected { client, guard: _guard, .. } =
                postgres::connect(&self.connection).await?;
            store::begin_session(&client).await?;
            self.check_environment(&client).await?;
            self.check_cluster(&client, cluster).await
        };
        let silent = |_| DestinationError::Silent(ANSWER_WITHIN);
        tokio::time::timeout(ANSWER_WITHIN, asking).await.map_err(silent)?
    }

    /// Compares the environment's name, and stores it if there is none.
    pub(crate) async fn check_environment(&self, client: &Client) -> Result<(), DestinationError> {
        let accepts = &self.accepts.environment;
        let found = self.environment.as_deref();
        if let Some(stored) = self.compare(client, "environment", found, found, accepts).await? {
            let (slot, found) = (self.slot.clone(), self.environment.clone());
            return Err(WrongDestination::Environment { slot, stored, found }.into());
        }
        Ok(())
    }

    async fn check_cluster(
        &self,
        client: &Client,
        cluster: Option<&str>,
    ) -> Result<(), DestinationError> {
        let Some(found) = cluster else {
            tracing::warn!(
                slot = self.slot,
                "the brokers do not report the id of their cluster; continuing without knowing \
                 whether it is the right one"
            );
            return Ok(());
        };
        let kept = (!is_embedded(found)).then_some(found);
        let accepts = &self.accepts.cluster;
        // A trial. The real cluster stays stored: the next one is compared with it.
        if kept.is_none() && accepts.load(Ordering::Relaxed) {
            tracing::warn!(
                slot = self.slot,
                "accepted the embedded broker {found} for this run only"
            );
            return Ok(());
        }
        if let Some(stored) = self.compare(client, "cluster_id", kept, cluster, accepts).await? {
            let (slot, found) = (self.slot.clone(), found.to_owned());
            return Err(WrongDestination::Cluster { slot, stored, found }.into());
        }
        Ok(())
    }

    /// Returns the stored value if it is a different one. A slot without stored progress has no
    /// destination yet.
    async fn compare(
        &self,
        client: &Client,
        column: &str,
        kept: Option<&str>,
        found: Option<&str>,
        accepts: &AtomicBool,
    ) -> Result<Option<String>, DestinationError> {
        let read = format!("SELECT {column} FROM postrider.progress WHERE slot = $1");
        let write = format!(
            "UPDATE postrider.progress SET {column} = $2 \
              WHERE slot = $1 AND {column} IS NOT DISTINCT FROM $3"
        );
        for _ in 0..TRIES {
            // Read before the stored value: an accepted destination is stored first, and only then
            // the acceptance ends. So one that was accepted meanwhile is never taken for wrong.
            let is_accepted = accepts.load(Ordering::Acquire);
            let Some(row) = client.query_opt(&read, &[&self.slot]).await? else { return Ok(None) };
            let stored: Option<String> = row.try_get(0)?;
            match verdict(stored.as_deref(), kept, is_accepted) {
                Verdict::Wrong => return Ok(stored),
                Verdict::First if self.is_first_stored => {}
                Verdict::Accepted => {}
                Verdict::First | Verdict::Same => {
                    // A later change was not accepted.
                    accepts.store(false, Ordering::Release);
                    return Ok(None);
                }
            }
            if client.execute(&write, &[&self.slot, &kept, &stored]).await? == 1 {
                let (slot, found) = (&self.slot, found.unwrap_or("none"));
                match stored {
                    None => tracing::info!(slot, "{column} {found} is stored with the progress"),
                    Some(stored) => {
                        tracing::warn!(slot, "accepted {column} {found} instead of {stored}");
                    }
                }
                accepts.store(false, Ordering::Release);
                return Ok(None);
            }
        }
        Err(DestinationError::Contended)
    }
}

/// Whether it is the id of a broker inside librdkafka.
fn is_embedded(cluster: &str) -> bool {
    let number = cluster.strip_prefix(EMBEDDED).unwrap_or_default();
    !number.is_empty() && number.chars().all(|c| c.is_ascii_hexdigit())
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    First,
    Accepted,
    Wrong,
}

fn verdict(stored: Option<&str>, found: Option<&str>, is_accepted: bool) -> Verdict {
    match stored {
        _ if stored == found => Verdict::Same,
        None => Verdict::First,
        Some(_) if is_accepted => Verdict::Accepted,
        Some(_) => Verdict::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_librdkafka_s_own_brokers_are_embedded() {
        assert!(is_embedded("mockCluster15aee2a41b0"));
        for real in
            ["", "mockCluster", "mockCluster-1", "cG9zdHJpZGVyLWtyYWZ0LQ", "lkc-mockCluster1"]
        {
            assert!(!is_embedded(real), "{real}");
        }
    }

    #[test]
    fn what_is_stored_holds_until_another_is_accepted() {
        assert_eq!(verdict(None, None, false), Verdict::Same);
        assert_eq!(verdict(Some("a"), Some("a"), true), Verdict::Same);
        assert_eq!(verdict(None, Some("a"), false), Verdict::First);
        for found in [None, Some("b")] {
            assert_eq!(verdict(Some("a"), found, false), Verdict::Wrong);
            assert_eq!(verdict(Some("a"), found, true), Verdict::Accepted);
        }
    }
}
