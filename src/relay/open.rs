//! Opening a session: everything it needs, in the order in which it becomes available.

use std::sync::Arc;
use std::time::Instant;

use postrider_core::ack::{AckTracker, DoneInside};
use postrider_core::delivery::Obstacle;
use postrider_core::lsn::Lsn;
use tokio::time::timeout;
use tokio_postgres::Client;

use super::confirmer::{Confirmer, Start};
use super::incoming::Incoming;
use super::listening::Listening;
use super::session::Session;
use crate::backfill;
use crate::checks::{self, Facts, Finding};
use crate::cleaner::{Permit, Streaming};
use crate::config::PostgresConfig;
use crate::engine::{Engine, Lent};
use crate::ops::State;
use crate::parking::renames;
use crate::postgres::{Connected, ConnectionGuard, Server, log_end};
use crate::progress::{
    DestinationCheck, Gap, Identity, ProgressWriter, Reading, StoredLsn, Unsent, coverage,
    depends_on, judge, lapses, store, unread,
};
use crate::publish::flight::Waiting;
use crate::pulse::Pulse;
use crate::replication::{ReplicationError, ReplicationStream, StreamOptions};
use crate::rights::{Access, check_access_to};
use crate::session_end::{RestartReason, SessionEnd};
use crate::sink::Sink;
use crate::standby;
use crate::standby::liveness;
use crate::standby::slot_watch::{OrphanWatch, SlotWatch};

/// Opening a session may take this many times the limit for connecting.
const OPENING_SHARES: u32 = 3;

/// How to open a session, given what earlier ones have shown.
pub(super) struct Opening {
    /// The start need not be logged.
    pub(super) is_quiet: bool,
    /// Where an earlier session got stuck.
    pub(super) stuck_at: Option<Lsn>,
    /// Values are asked for as text.
    pub(super) text_only: bool,
    /// Another instance may have read more than this one does.
    pub(super) stood_by: bool,
}

impl Opening {
    /// Connects to all that a session needs.
    pub(super) async fn open<'a, S: Sink>(
        self,
        engine: &'a mut Engine<S>,
    ) -> Result<(Session<'a, S>, SessionGuards), SessionEnd> {
        let config = &engine.config.postgres;
        // A link that goes silent between two steps must not hold the relay indefinitely.
        let limit = config.connection.connect_limit().saturating_mul(OPENING_SHARES);
        let silent = |_| SessionEnd::from(ReplicationError::Silent(limit));
        let opening = self.open_stream(config, &engine.destination, engine.parks);
        let opened = timeout(limit, opening).await.map_err(silent)??;
        let Opened { client, is_shown, postgres, server, stream, here, facts, place } = opened;
        engine.sink.restart().await?;
        let StartPlace { stored, inside, reportable, safe_once_read_to, generation, depends_on } =
            place;
        let runtime = &engine.background.poller.runtime;
        let reading = reading(config, &facts);
        let writer = ProgressWriter::open(runtime, &server, reading, &generation, &depends_on);
        let writer = timeout(limit, writer).await.map_err(silent)??;
        if !self.is_quiet {
            log_start(engine, &server, &stream, stored.lsn(), inside);
        }
        let acks = AckTracker::resume_at(stored.lsn(), inside);
        let done = acks.done_so_far();
        let (cleaning, orphans) = (engine.background.cleaning(), self.watch_orphans(engine));
        let lending = engine.lend(&server, &here, acks, Some(done));
        let Lent { config, vitals, out } = timeout(limit, lending).await.map_err(silent)??;
        if let Some(parking) = &out.parking {
            // What was known before may be of another time, or of another server.
            vitals.set_takeovers(parking.takeovers());
        }
        match out.sink.obstacle() {
            Some(Obstacle { text, certain: true }) => {
                vitals.set_state(State::BlockedOnBroker, Some(text));
            }
            _ => vitals.set_state(State::Streaming, None),
        }
        let permit = cleaning.give(Streaming { server, generation });
        let pulse = Pulse::begin(&client, vitals);
        let pulse = Arc::new(timeout(limit, pulse).await.map_err(silent)??);
        let PostgresConfig { slot, tables, messages, .. } = &config.postgres;
        let watch = SlotWatch::start(
            client,
            slot.clone(),
            is_shown,
            Arc::clone(vitals),
            Arc::clone(&pulse),
            orphans,
        );
        let (wal_sender_timeout, now) = (facts.wal_sender_timeout, Instant::now());
        let start = Start { done, stored, reportable, safe_once_read_to };
        let session = Session {
            slot,
            stream,
            postgres,
            incoming: Incoming::new(tables, messages.is_some(), facts, inside),
            out,
            confirmer: Confirmer::new(writer, &start, wal_sender_timeout, now),
            vitals,
            listening: Listening::new(wal_sender_timeout, now),
            pulse,
            waiting: Waiting::new(now),
            close_at: None,
            stuck_at: self.stuck_at,
            stopping: false,
        };
        Ok((session, SessionGuards { _watch: watch, _permit: permit }))
    }

    /// Looks for events of slots that are gone, unless the poller does that.
    fn watch_orphans<S>(&self, engine: &Engine<S>) -> Option<OrphanWatch> {
        (!engine.parks).then(|| OrphanWatch::new(engine.metrics.clone(), self.is_quiet))
    }

    /// The part of opening a session that waits for Postgres.
    async fn open_stream(
        &self,
        config: &PostgresConfig,
        destination: &DestinationCheck,
        parks: bool,
    ) -> Result<Opened, SessionEnd> {
        let Connected { client, guard, server } =
            crate::postgres::connect(&config.connection).await?;
        let lacking = check_access_to(&client, Access::Progress).await?;
        if lacking.is_none() && backfill::is_due(&client, config).await? {
            if self.stood_by {
                standby::check_takeover(&client, config).await?;
            }
            return Err(SessionEnd::BackfillFirst);
        }
        let mut facts = checks::check_startup(&client, config).await?;
        if self.stood_by {
            standby::check_takeover(&client, config).await?;
        }
        facts.binary &= !self.text_only;
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
        let at =
            before.as_ref().and_then(|it| Some((it.system_identifier.as_deref()?, it.position)));
        let is_shown = liveness::hold(&client, &config.slot).await?;
        let (stream, here) = ReplicationStream::start(&server, &options, at).await?;
        // Only now, so that a missing right to replicate is reported first.
        if let Some(lacking) = lacking {
            return Err(Finding::from(lacking).into());
        }
        if parks {
            checks::check_side_table(&client).await??
        } else {
            checks::check_nothing_parked(&client, &config.slot).await??
        }
        let place = find_place(&client, config, &facts, &here).await?;
        destination.check_environment(&client).await?;
        if !self.is_quiet {
            checks::warn_outdated_columns(&client, config).await?;
        }
        Ok(Opened { client, is_shown, postgres: guard, server, stream, here, facts, place })
    }
}

fn log_start<S: Sink>(
    engine: &Engine<S>,
    server: &Server,
    stream: &ReplicationStream,
    from: Lsn,
    inside: Option<DoneInside>,
) {
    let config = &engine.config.postgres;
    let sslmode = config.connection.tls.mode.to_string();
    let tables: Vec<&str> = engine.envelope.tables.iter().map(|it| it.name.as_str()).collect();
    tracing::info!(
        %from,
        slot = config.slot,
        server = server.name(),
        tls = if stream.is_encrypted() { sslmode.as_str() } else { "none" },
        tables = tables.join(", "),
        "postrider {} publishes the outbox to {}", env!("CARGO_PKG_VERSION"), engine.sink.describe(),
    );
    if let Some(inside) = inside {
        tracing::info!(
            commit = %inside.commit_lsn(),
            change = %inside.change_lsn(),
            "continuing inside a transaction: its events up to this change are done"
        );
    }
}

/// What runs alongside a session, and ends with it.
pub(super) struct SessionGuards {
    _watch: SlotWatch,
    _permit: Permit,
}

/// A stream, and what was found out while it was opened.
struct Opened {
    client: Client,
    /// The client's session holds the lock that shows this relay.
    is_shown: bool,
    postgres: ConnectionGuard,
    server: Server,
    stream: ReplicationStream,
    here: Identity,
    facts: Facts,
    place: StartPlace,
}

/// Where the stream begins.
struct StartPlace {
    stored: StoredLsn,
    /// How much of the transaction after it is done.
    inside: Option<DoneInside>,
    /// What may be reported to the slot immediately.
    reportable: StoredLsn,
    /// The rest may be reported once the stream was read up to this position.
    safe_once_read_to: Option<Lsn>,
    generation: String,
    /// What decides which rows and messages are events.
    depends_on: String,
}

/// Compares the slot with what is stored about it. While the stream is open nobody else can move
/// the slot.
async fn find_place(
    client: &Client,
    config: &PostgresConfig,
    facts: &Facts,
    here: &Identity,
) -> Result<StartPlace, SessionEnd> {
    let slot = &config.slot;
    store::begin_session(client).await?;
    let confirmed = checks::confirmed_position(client, slot).await?;
    refuse_silent_loss(client, config).await?;
    if store::adopt(client, slot, confirmed).await? {
        tracing::info!(at = %confirmed, slot, "progress of this slot is stored from now on");
    }
    let Some(progress) = store::load(client, slot).await? else {
        return Err(SessionEnd::restart(
            RestartReason::Postgres,
            "the slot's row in postrider.progress is gone",
        ));
    };
    let log_end = log_end(client).await?;
    let stored = judge(slot, &progress, here, confirmed, log_end)?;
    checks::check_promised(client, config).await??;
    if config.messages.is_some() {
        store::promise_messages(client, slot).await?;
    }
    store::identify(client, slot, here).await?;
    renames::follow(client, config).await?;
    keep_promise(client, &reading(config, facts)).await?;
    let safe_once_read_to = store::safe_once_read_to(client, slot).await?;
    let reportable = if safe_once_read_to.is_some() { stored.or_before(confirmed) } else { stored };
    let (tables, binary) = (&facts.tables, facts.binary);
    let depends_on = depends_on(client, config, &progress.generation, here, tables, binary).await?;
    let inside = progress.inside(&depends_on);
    if let (Some(void), None) = (&progress.inside, inside) {
        tracing::info!(
            commit = %void.done.commit_lsn(),
            "reading a transaction from its beginning: the tables, the publication, messages or \
             the server have changed since the relay was inside it; its events may be published \
             again"
        );
    }
    let generation = progress.generation;
    Ok(StartPlace { stored, inside, reportable, safe_once_read_to, generation, depends_on })
}

/// A slot without stored progress may be older than the publication, and some servers leave out
/// rows from before the publication without reporting it. Once progress is stored, nobody could
/// detect that any more.
async fn refuse_silent_loss(client: &Client, config: &PostgresConfig) -> Result<(), SessionEnd> {
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

/// Checks that the slot has what was promised, and promises the tables that are read from now on.
async fn keep_promise(client: &Client, reading: &Reading) -> Result<(), SessionEnd> {
    let Reading { slot, publication, names, tables, .. } = reading;
    let promises = coverage::find_promises(client, slot, publication, names).await?;
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
            "promised for the slot, but not in postgres.tables: the relay will stop at the first row of any \
             of these tables"
        );
    }
    coverage::note_intact(client, slot, publication, names).await?;
    Ok(coverage::cover(client, slot, publication, tables).await?)
}
