//! The beginning of a session: everything it needs, in the order in which it can be had.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::Relay;
use super::desk::Desk;
use super::flight::Waiting;
use super::incoming::Incoming;
use super::lock;
use super::lot::Lot;
use super::outgoing::Outgoing;
use super::preflight::{self, Facts};
use super::pulse::Pulse;
use super::renames;
use super::session::Session;
use super::standby;
use super::stop::{POSTGRES, Stop};
use super::topic_queues::TopicQueues;
use super::watch::{OrphanWatch, SlotWatch};
use crate::backfill;
use crate::cleaner::{Permit, Streaming};
use crate::clock;
use crate::config::{Config, Order, PostgresConfig};
use crate::ops::State;
use crate::postgres::{Connected, ConnectionGuard, Server};
use crate::progress::{
    DestinationCheck, Gap, Identity, Keeper, Reading, StoredLsn, Unsent, Untold, coverage,
    depends_on, judge, lapses, store, unread,
};
use crate::replication::{ReplicationError, ReplicationStream, StreamOptions};
use crate::sink::Sink;
use crate::undelivered::parker::Parking;
use crate::undelivered::store::{Access, check_access_to};
use postrider_core::ack::{AckTracker, DoneInside};
use postrider_core::delivery::Obstacle;
use postrider_core::feedback::Feedback;
use postrider_core::lsn::Lsn;
use postrider_core::parking::breaker::Breaker;
use postrider_core::parking::malformed::Malformed;
use postrider_core::parking::notices::Notices;

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
        let terms = Terms { text_only: self.text_only, parks: self.parks, stood_by: self.stood_by };
        let opening = open_stream(config, &self.destination, terms);
        let opened = tokio::time::timeout(limit, opening).await.map_err(silent)??;
        let Opened { client, is_shown, postgres, server, stream, here, facts, place } = opened;
        let FoundPlace { stored, inside, told, shown_by, generation, depends_on } = place;
        self.sink.restart().await?;
        let reading = reading(config, &facts);
        let keeper = Keeper::open(&self.desk.runtime, &server, reading, &generation, &depends_on);
        let keeper = tokio::time::timeout(limit, keeper).await.map_err(silent)??;
        if !self.quiet {
            self.say_hello(&server, &stream, stored.lsn(), inside);
        }
        let cleaning = self.desk.cleaning();
        let lot = match self.parks {
            false => None,
            true => {
                let (desk, alarms) = (&mut self.desk, (&mut self.breaker, &mut self.notices));
                let opening = open_lot(&self.config, &server, &here, desk, alarms);
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
        let pulse = Pulse::begin(&client, &self.vitals);
        let pulse = Arc::new(tokio::time::timeout(limit, pulse).await.map_err(silent)??);
        let (slot, vitals) = (config.slot.clone(), Arc::clone(&self.vitals));
        // Else it is the poller who looks for them.
        let orphans = (!self.parks).then(|| OrphanWatch::new(self.metrics.clone(), self.quiet));
        let watch = SlotWatch::start(client, slot, is_shown, vitals, Arc::clone(&pulse), orphans);
        let timeout = facts.wal_sender_timeout;
        let now = Instant::now();
        self.stood_by = false;
        let acks = AckTracker::resume_at(stored.lsn(), inside);
        let kept = acks.done_so_far();
        let session = Session {
            slot: &config.slot,
            stream,
            postgres,
            incoming: Incoming::new(&config.tables, config.messages.is_some(), facts, inside),
            out: Outgoing {
                sink: &mut self.sink,
                acks,
                kept: Some(kept),
                routes: &mut self.routes,
                metrics: &self.metrics,
                envelope: &self.envelope,
                tables: &config.tables,
                limits: &self.config.limits,
                reports: Vec::new(),
                full: false,
                lacks_room: false,
                stamp_wait_min: Duration::MAX,
                now,
                clocks: clock::now(pulse.server_ahead_micros()),
                halted: 0,
                queues: TopicQueues::default(),
                lot,
            },
            feedback: Feedback::new(kept, timeout, now),
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
            waiting: Waiting::new(now),
            pulse,
            close_at: None,
            told: told.lsn(),
            stuck_at: self.stuck_at,
            stopping: false,
        };
        Ok((session, Aside { _watch: watch, _permit: permit }))
    }

    fn say_hello(
        &self,
        server: &Server,
        stream: &ReplicationStream,
        from: Lsn,
        inside: Option<DoneInside>,
    ) {
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
        if let Some(inside) = inside {
            tracing::info!(
                commit = %inside.commit_lsn(),
                change = %inside.change_lsn(),
                "continuing inside a transaction: its events up to this change are done"
            );
        }
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
    /// The client's session has the lock that shows this relay.
    is_shown: bool,
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
    /// What is done of the transaction after it.
    inside: Option<DoneInside>,
    /// What the slot may be told at once.
    told: StoredLsn,
    /// The rest, once the stream has come so far.
    shown_by: Option<Lsn>,
    generation: String,
    /// What decides which rows and messages are events.
    depends_on: String,
}

/// What decides how a stream is opened, besides the configuration of Postgres.
struct Terms {
    text_only: bool,
    parks: bool,
    /// Another instance may have read more than this one does.
    stood_by: bool,
}

/// The part of opening a session that waits for Postgres.
async fn open_stream(
    config: &PostgresConfig,
    destination: &DestinationCheck,
    Terms { text_only, parks, stood_by }: Terms,
) -> Result<Opened, Stop> {
    let Connected { client, guard, server } = crate::postgres::connect(&config.connection).await?;
    let lacking = check_access_to(&client, Access::Progress).await?;
    if lacking.is_none() && backfill::is_due(&client, config).await? {
        if stood_by {
            standby::check_takeover(&client, config).await?;
        }
        return Err(Stop::Backfill);
    }
    let mut facts = preflight::check(&client, config).await?;
    if stood_by {
        standby::check_takeover(&client, config).await?;
    }
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
    let is_shown = lock::hold(&client, &config.slot).await?;
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
    Ok(Opened { client, is_shown, postgres: guard, server, stream, here, facts, place })
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
    refuse_silent_loss(client, config).await?;
    if store::adopt(client, slot, confirmed).await? {
        tracing::info!(at = %confirmed, slot, "progress of this slot is stored from now on");
    }
    let Some(progress) = store::load(client, slot).await? else {
        return Err(Stop::restart(POSTGRES, "the slot's row in postrider.progress is gone"));
    };
    let log_end = store::log_end(client).await?;
    let stored = judge(slot, &progress, here, confirmed, log_end)?;
    preflight::check_promised(client, config).await?;
    if config.messages.is_some() {
        store::promise_messages(client, slot).await?;
    }
    store::identify(client, slot, here).await?;
    renames::follow(client, config).await?;
    keep_promise(client, &reading(config, facts)).await?;
    let shown_by = store::shown_by(client, slot).await?;
    let told = if shown_by.is_some() { stored.or_before(confirmed) } else { stored };
    let (tables, binary) = (&facts.tables, facts.binary);
    let depends_on = depends_on(client, config, &progress.generation, here, tables, binary).await?;
    let inside = progress.inside(&depends_on);
    if let (Some(void), None) = (&progress.inside, inside) {
        tracing::info!(
            commit = %void.done.commit_lsn(),
            "reading a transaction from its beginning: the tables, the publication, messages or the \
             server have changed since the relay was inside it; its events may be published again"
        );
    }
    let generation = progress.generation;
    Ok(FoundPlace { stored, inside, told, shown_by, generation, depends_on })
}

/// A slot that is taken as it stands may be older than the publication, and a server that leaves out what
/// was written before it does not say so. Once progress is stored nobody could tell any more.
async fn refuse_silent_loss(client: &Client, config: &PostgresConfig) -> Result<(), Stop> {
    let PostgresConfig { slot, publication, .. } = config;
    if store::load(client, slot).await?.is_none()
        && store::skips_in_silence(client).await?
        && store::may_predate(client, slot, publication).await?
    {
        let (slot, publication) = (slot.clone(), publication.clone());
        return Err(Gap::Predates { slot, publication }.into());
    }
    Ok(())
}

fn reading(config: &PostgresConfig, facts: &Facts) -> Reading {
    Reading {
        slot: config.slot.clone(),
        publication: config.publication.clone(),
        names: config.table_names(),
        tables: facts.tables.iter().map(|table| table.id).collect(),
        reads_messages: config.messages.is_some(),
    }
}

/// Sees that the slot has what was promised, and promises what is read from now on.
async fn keep_promise(client: &Client, reading: &Reading) -> Result<(), Stop> {
    let Reading { slot, publication, names, tables, .. } = reading;
    let promises = coverage::look(client, slot, publication, names).await?;
    let lapses = lapses(&promises, false);
    if !lapses.is_empty() {
        coverage::note_unlogged(client, slot).await?;
    }
    if let Some(unsent) = Unsent::find(slot, publication, &promises) {
        return Err(unsent.into());
    }
    if !lapses.is_empty() {
        return Err(Gap::Lapse { slot: slot.clone(), lapses }.into());
    }
    let unread = unread(&promises);
    if !unread.is_empty() {
        tracing::warn!(
            tables = unread.join(", "),
            "these tables are promised for the slot and not in postgres.tables: the relay will stop at \
             the first row of theirs"
        );
    }
    coverage::note_intact(client, slot, publication, names).await?;
    Ok(coverage::cover(client, slot, publication, tables).await?)
}

/// The part that waits for the side table.
pub(super) async fn open_lot<'a>(
    config: &Config,
    server: &Server,
    here: &Identity,
    desk: &'a mut Desk,
    (breaker, notices): (&'a mut Breaker, &'a mut Notices),
) -> Result<Lot<'a>, Stop> {
    let undelivered = &config.undelivered;
    let in_flight = config.limits.in_flight_events.max();
    let opening =
        Parking::open(&desk.runtime, server, here, &config.postgres.slot, undelivered, in_flight);
    let (parking, holdings) = opening.await?;
    breaker.set_live_bytes(holdings.live.bytes);
    breaker.mark(Instant::now());
    Ok(Lot {
        parking,
        keeps_order: undelivered.order != Order::Continue,
        keys: holdings.keys,
        breaker,
        notices,
        malformed: Malformed::new(holdings.live.malformed),
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
