//! The beginning of a session: everything it needs, in the order in which it can be had.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::Relay;
use super::desk::Desk;
use super::incoming::Incoming;
use super::lock;
use super::lot::Lot;
use super::outgoing::Outgoing;
use super::preflight::{self, Facts};
use super::session::Session;
use super::stop::{POSTGRES, Stop};
use super::watch::SlotWatch;
use crate::ack::AckTracker;
use crate::backfill;
use crate::cleaner::{Permit, Streaming};
use crate::config::{Config, Order, PostgresConfig};
use crate::feedback::Feedback;
use crate::lsn::Lsn;
use crate::ops::State;
use crate::postgres::{Connected, ConnectionGuard, Server};
use crate::progress::{DestinationCheck, Gap, Identity, Keeper, StoredLsn, Untold, judge, store};
use crate::replication::{ReplicationError, ReplicationStream, StreamOptions};
use crate::sink::{Obstacle, Sink};
use crate::undelivered::breaker::Breaker;
use crate::undelivered::keys::HeldKeys;
use crate::undelivered::parker::Parking;
use crate::undelivered::store::{Access, check_access_to};

/// Opening a session may take this many times what connecting may take.
const OPENING_SHARES: u32 = 3;
/// How long a server may be silent: as long as it lets us be, but not less than this. While it
/// decodes a large transaction of other tables it answers only every half of that time.
const SILENCE_MIN: Duration = Duration::from_secs(10);
/// Where it lets us be silent for ever.
const SILENCE_DEFAULT: Duration = Duration::from_secs(60);

impl<S: Sink> Relay<S> {
    /// Connects to all that a session needs.
    pub(super) async fn open(&mut self) -> Result<(Session<'_, S>, Aside), Stop> {
        let config = &self.config.postgres;
        // A link that goes silent between two steps must not hold the relay for ever.
        let limit = config.connection.connect_limit().saturating_mul(OPENING_SHARES);
        let silent = |_| Stop::from(ReplicationError::Silent(limit));
        let opening = open_stream(config, &self.destination, self.text_only, self.parks);
        let opened = tokio::time::timeout(limit, opening).await.map_err(silent)??;
        let Opened { client, postgres, server, stream, here, facts, place } = opened;
        let FoundPlace { stored, told, shown_by, generation } = place;
        self.sink.restart().await?;
        let keeper = Keeper::open(&self.desk.runtime, &server, &config.slot, &generation);
        let keeper = tokio::time::timeout(limit, keeper).await.map_err(silent)??;
        if !self.quiet {
            self.say_hello(&server, &stream, stored.lsn());
        }
        let cleaning = self.desk.cleaning();
        let lot = match self.parks {
            false => None,
            true => {
                let (desk, breaker) = (&mut self.desk, &mut self.breaker);
                let opening = open_lot(&self.config, &server, &here, desk, breaker);
                let lot = tokio::time::timeout(limit, opening).await.map_err(silent)??;
                // What was known before may be of another time, or of another server.
                self.vitals.set_takeovers(lot.takeovers);
                Some(lot)
            }
        };
        match self.sink.obstacle() {
            Some(Obstacle { text, certain: true }) => {
                self.vitals.set_state(State::BlockedOnBroker, Some(text));
            }
            _ => self.vitals.set_state(State::Streaming, None),
        }
        let permit = cleaning.give(Streaming { server, generation });
        let watch = SlotWatch::start(client, config.slot.clone(), Arc::clone(&self.vitals));
        let timeout = facts.wal_sender_timeout;
        let now = Instant::now();
        let session = Session {
            stream,
            postgres,
            incoming: Incoming::new(&config.tables, config.messages.is_some(), facts),
            out: Outgoing {
                sink: &mut self.sink,
                acks: AckTracker::resume_at(stored.lsn()),
                routes: &mut self.routes,
                metrics: &self.metrics,
                envelope: &self.envelope,
                tables: &config.tables,
                limits: &self.config.limits,
                reports: Vec::new(),
                full: false,
                stamp_age_min: Duration::MAX,
                halted: 0,
                lot,
            },
            feedback: Feedback::new(stored.lsn(), timeout, now),
            keeper,
            stored: told,
            untold: shown_by.map(|by| Untold::of(stored, by)).unwrap_or_default(),
            vitals: &self.vitals,
            silence_max: match timeout {
                Duration::ZERO => SILENCE_DEFAULT,
                timeout => timeout.max(SILENCE_MIN),
            },
            listening_since: now,
            last_read: now,
            has_more: false,
            acknowledged_at: now,
            close_at: None,
            told: told.lsn(),
            stuck_at: self.stuck_at,
            stopping: false,
        };
        Ok((session, Aside { _watch: watch, _permit: permit }))
    }

    fn say_hello(&self, server: &Server, stream: &ReplicationStream, from: Lsn) {
        let config = &self.config.postgres;
        let sslmode = config.connection.tls.mode.to_string();
        let tables: Vec<&str> = self.envelope.tables.iter().map(|it| it.name.as_str()).collect();
        tracing::info!(
            %from,
            slot = config.slot,
            server = server.name(),
            tls = if stream.is_encrypted() { sslmode.as_str() } else { "none" },
            tables = tables.join(", "),
            brokers = self.config.kafka.brokers,
            "postrider {} publishes the outbox to Kafka", env!("CARGO_PKG_VERSION"),
        );
    }
}

/// What goes on beside a session, and ends with it.
pub(super) struct Aside {
    _watch: SlotWatch,
    _permit: Permit,
}

/// A stream, and what was learned on the way to it.
struct Opened {
    client: Client,
    postgres: ConnectionGuard,
    server: Server,
    stream: ReplicationStream,
    here: Identity,
    facts: Facts,
    place: FoundPlace,
}

/// Where the stream begins.
struct FoundPlace {
    stored: StoredLsn,
    /// What the slot may be told at once.
    told: StoredLsn,
    /// The rest, once the stream has come so far.
    shown_by: Option<Lsn>,
    generation: String,
}

/// The part of opening a session that waits for Postgres.
async fn open_stream(
    config: &PostgresConfig,
    destination: &DestinationCheck,
    text_only: bool,
    parks: bool,
) -> Result<Opened, Stop> {
    let Connected { client, guard, server } = crate::postgres::connect(&config.connection).await?;
    let lacking = check_access_to(&client, Access::Progress).await?;
    if lacking.is_none() && backfill::is_due(&client, config).await? {
        return Err(Stop::Backfill);
    }
    let mut facts = preflight::check(&client, config).await?;
    facts.binary &= !text_only;
    let options = StreamOptions {
        slot: config.slot.clone(),
        publication: config.publication.clone(),
        binary: facts.binary,
        messages: config.messages.is_some(),
        client_encoding: facts.client_encoding,
    };
    let before = match &lacking {
        None => store::load(&client, &config.slot).await?,
        Some(_) => None,
    };
    let at = before.as_ref().and_then(|it| Some((it.system_identifier.as_deref()?, it.position)));
    lock::hold(&client, &config.slot).await?;
    let (stream, here) = ReplicationStream::start(&server, &options, at).await?;
    // Who may not replicate hears that first.
    if let Some(lacking) = lacking {
        return Err(Stop::halt(lacking.text, lacking.fix));
    }
    match parks {
        true => preflight::check_side_table(&client).await?,
        false => preflight::check_nothing_parked(&client, &config.slot).await?,
    }
    let place = find_place(&client, config, &facts, &here).await?;
    destination.check_environment(&client).await?;
    Ok(Opened { client, postgres: guard, server, stream, here, facts, place })
}

/// Compares the slot with what is stored of it. While the stream is open nobody else can move it.
async fn find_place(
    client: &Client,
    config: &PostgresConfig,
    facts: &Facts,
    here: &Identity,
) -> Result<FoundPlace, Stop> {
    let slot = &config.slot;
    store::begin_session(client).await?;
    let confirmed = preflight::confirmed_position(client, slot).await?;
    if store::adopt(client, slot, confirmed).await? {
        tracing::info!(at = %confirmed, slot, "progress of this slot is stored from now on");
        let publication = &config.publication;
        if store::skips_in_silence(client).await?
            && store::may_predate(client, slot, publication).await?
        {
            tracing::warn!(
                slot,
                publication,
                "the slot may be older than the publication: rows that were written before the \
                 publication was created are left out; to publish them, stop the relay and run \
                 `postrider recover`"
            );
        }
    }
    let Some(progress) = store::load(client, slot).await? else {
        return Err(Stop::restart(POSTGRES, "the slot's row in postrider.progress is gone"));
    };
    let log_end = store::log_end(client).await?;
    let stored = judge(slot, &progress, here, confirmed, log_end)?;
    store::identify(client, slot, here).await?;
    let tables: Vec<u32> = facts.tables.iter().map(|table| table.id).collect();
    let lapsed = store::lapsed(client, slot, &config.publication, &tables).await?;
    if !lapsed.is_empty() {
        return Err(Gap::Lapse { slot: slot.clone(), tables: lapsed }.into());
    }
    store::cover(client, slot, &config.publication, &tables).await?;
    let shown_by = store::shown_by(client, slot).await?;
    let told = if shown_by.is_some() { stored.or_before(confirmed) } else { stored };
    Ok(FoundPlace { stored, told, shown_by, generation: progress.generation })
}

/// The part that waits for the side table.
pub(super) async fn open_lot<'a>(
    config: &Config,
    server: &Server,
    here: &Identity,
    desk: &'a mut Desk,
    breaker: &'a mut Breaker,
) -> Result<Lot<'a>, Stop> {
    let undelivered = &config.undelivered;
    let in_flight = config.limits.in_flight_events;
    let opening =
        Parking::open(&desk.runtime, server, here, &config.postgres.slot, undelivered, in_flight);
    let (parking, holdings) = opening.await?;
    breaker.set_live_bytes(holdings.live.bytes);
    breaker.mark(Instant::now());
    Ok(Lot {
        parking,
        keeps_order: undelivered.order != Order::Continue,
        keys: HeldKeys::new(holdings.keys, undelivered.order == Order::ParkTopic),
        breaker,
        key_news: &mut desk.key_news,
        kick: Arc::clone(&desk.kick),
        handover_rows_max: undelivered.batch,
        check_every: undelivered.poll_interval,
        checked_at: Instant::now(),
        finished: HashSet::new(),
        takeovers: holdings.takeovers,
        newest_commit: holdings.live.newest_commit,
        counted_at: Instant::now(),
        on_the_way: HashMap::new(),
        again: BTreeSet::new(),
        probe: None,
    })
}
