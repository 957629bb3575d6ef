//! Turns the messages of the stream into rows, one message at a time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::updates::Updates;
use crate::checks::Facts;
use crate::config::OutboxTable;
use crate::ops::Ignored;
use crate::progress::store::ANY_TABLE;
use crate::publish::attempt::Sent;
use crate::publish::outgoing::Outgoing;
use crate::publish::raw_event::{Encoding, RawEvent};
use crate::replication::{ReplicationError, ReplicationStream};
use crate::session_end::{RestartReason, SessionEnd};
use crate::sink::Sink;
use postrider_core::ack::DoneInside;
use postrider_core::framing::Frame;
use postrider_core::lsn::Lsn;
use postrider_core::pgoutput::{
    DecodeError, Message, PgTime, Relation, RelationColumn, RelationId, decode,
};
use postrider_core::row::{Layout, PREFIX, PresentTable, Row, built_in_type, pack};
use postrider_core::same_position::SamePositionOrder;
use postrider_core::transaction::{Position, Transactions};

/// Where postrider's own tables are.
const OWN_SCHEMA: &str = "postrider";
/// How many tables with skipped rows are remembered by their OIDs.
const SKIPPED_MAX: usize = 1_000;

/// The incoming half of a session.
pub(super) struct Incoming<'a> {
    tables: &'a [OutboxTable],
    /// What was known when the session began.
    facts: Facts,
    transactions: Transactions,
    /// What earlier sessions have done of the first transaction: it is read, but not published
    /// again.
    done: Option<DoneInside>,
    /// The layout of each announced relation; none if it is not an outbox.
    relations: HashMap<RelationId, Option<Arc<Layout>>>,
    /// postrider's own tables.
    own: HashSet<RelationId>,
    updates: Updates,
    /// Tables of which rows were skipped since a position was last handed over to be stored.
    skipped: BTreeSet<RelationId>,
    /// How messages are read, if they are published.
    messages: Option<Arc<Layout>>,
    same_position: SamePositionOrder,
    /// The base types of the domains that were announced so far.
    domains: HashMap<u32, u32>,
    /// When the transaction read last was committed.
    committed_at: PgTime,
    /// A row that waits for room.
    held: Option<RawEvent>,
    /// The rest of a pack: the events after the held one, or after the last one for which there was
    /// room.
    pack: Bytes,
    /// The position of that pack.
    pack_lsn: Lsn,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(
        tables: &'a [OutboxTable],
        messages: bool,
        facts: Facts,
        done: Option<DoneInside>,
    ) -> Self {
        Incoming {
            tables,
            messages: messages.then(|| Arc::new(Layout::of_messages(tables.len()))),
            facts,
            same_position: SamePositionOrder::default(),
            transactions: Transactions::new(),
            done,
            relations: HashMap::new(),
            own: HashSet::new(),
            updates: Updates::new(),
            skipped: BTreeSet::new(),
            domains: HashMap::new(),
            committed_at: PgTime::default(),
            held: None,
            pack: Bytes::new(),
            pack_lsn: Lsn::ZERO,
        }
    }

    /// Whether a row waits for room.
    pub(super) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Whether everything that was popped was handed over, and does not halt the relay. Before that,
    /// nothing more must be popped.
    pub(super) fn is_done(&self) -> bool {
        self.held.is_none() && self.pack.is_empty() && !self.updates.is_halting()
    }

    /// When the transaction read last was committed.
    pub(super) fn committed_at(&self) -> PgTime {
        self.committed_at
    }

    /// When the row that waits for room was committed.
    pub(super) fn held_since(&self) -> Option<PgTime> {
        self.held.as_ref().map(RawEvent::commit_time)
    }

    /// Whether the stream is inside a transaction.
    pub(super) fn in_transaction(&self) -> bool {
        self.transactions.is_open()
    }

    /// The next frame that has arrived completely, in the order in which things were written.
    pub(super) fn pop(
        &mut self,
        stream: &mut ReplicationStream,
    ) -> Result<Option<Frame>, ReplicationError> {
        if self.messages.is_some() { self.same_position.pop(|| stream.pop()) } else { stream.pop() }
    }

    /// Retries the held row, and continues with its pack.
    pub(super) fn retry<S: Sink>(&mut self, out: &mut Outgoing<'_, S>) -> Result<(), SessionEnd> {
        if let Some(held) = self.held.take() {
            held.read(|row| self.publish(row, held.clone(), out))?;
        }
        self.unpack(out)
    }

    /// Handles one pgoutput message, which came at this position.
    pub(super) fn message<S: Sink>(
        &mut self,
        at: Lsn,
        message: &Bytes,
        out: &mut Outgoing<'_, S>,
    ) -> Result<(), SessionEnd> {
        match decode(message)? {
            Message::Insert { relation, row } => {
                let Some(layout) = self.layout(relation)? else {
                    self.ignore(Ignored::OtherTable, relation, out);
                    self.skip(relation);
                    return Ok(());
                };
                let layout = Arc::clone(layout);
                let (position, commit_time) = self.transactions.event(at)?;
                if self.is_done_before(position) {
                    return Ok(());
                }
                let row = Row::read(&layout, &row, position, commit_time)?;
                let source = RawEvent::of(&row, Encoding::Insert, message.clone(), &layout);
                self.publish(&row, source, out)?;
            }
            Message::Logical { transactional, prefix, content, .. } => {
                let Some(layout) = self.messages.clone().filter(|_| prefix == PREFIX) else {
                    out.metrics.ignored(Ignored::ForeignMessage);
                    return Ok(());
                };
                if !transactional {
                    out.metrics.ignored(Ignored::NonTransactionalMessage);
                    return Ok(());
                }
                if let Some(events) = pack(content) {
                    self.pack = message.slice_ref(events);
                    self.pack_lsn = at;
                    return self.unpack(out);
                }
                let (position, commit_time) = self.transactions.event(at)?;
                if self.is_done_before(position) {
                    return Ok(());
                }
                let row = Row::of_message(&layout, content, position, commit_time);
                let source =
                    RawEvent::of(&row, Encoding::Message, message.slice_ref(content), &layout);
                self.publish(&row, source, out)?;
            }
            Message::Begin { commit_lsn, commit_time, .. } => {
                self.transactions.begin(commit_lsn, commit_time)?;
                self.committed_at = commit_time;
            }
            Message::Commit { commit_lsn, end_lsn, .. } => {
                let end = self.transactions.commit(commit_lsn, end_lsn)?;
                out.committed(end);
            }
            Message::Relation(relation) => self.announce(relation)?,
            Message::Type { oid, schema, name } => self.note_type(oid, schema, name),
            Message::Update { relation, .. } => {
                self.ignore(Ignored::Update, relation, out);
                self.note_update(relation);
            }
            Message::Delete { relation, .. } => self.ignore(Ignored::Delete, relation, out),
            Message::Truncate { .. } => out.metrics.ignored(Ignored::Truncate),
            Message::Origin { .. } => {}
        }
        Ok(())
    }

    /// Whether an earlier session has done this event.
    fn is_done_before(&self, position: Position) -> bool {
        self.done.is_some_and(|done| done.covers(position))
    }

    /// Counts a change that is not published. A publication of all tables also sends changes of
    /// postrider's own tables, which are not counted.
    fn ignore<S: Sink>(&self, kind: Ignored, relation: RelationId, out: &Outgoing<'_, S>) {
        if !self.own.contains(&relation) {
            out.metrics.ignored(kind);
        }
    }

    /// A row of an outbox table was updated, perhaps.
    fn note_update(&mut self, relation: RelationId) {
        let layout = self.relations.get(&relation).and_then(Option::as_ref);
        if let Some(table) = layout.and_then(|layout| self.tables.get(layout.table)) {
            self.updates.note(table);
        }
    }

    /// Ends the session if an update halts it and nothing is in flight any more.
    pub(super) fn check_updates(&mut self, in_flight: usize) -> Result<(), SessionEnd> {
        self.updates.check(in_flight)
    }

    /// A row is skipped. Whether that is allowed is checked when a position after it is stored:
    /// another configuration of this slot can have promised the table.
    fn skip(&mut self, relation: RelationId) {
        if self.own.contains(&relation) || self.skipped.contains(&relation) {
            return;
        }
        let is_full = self.skipped.len() >= SKIPPED_MAX;
        self.skipped.insert(if is_full { ANY_TABLE } else { relation });
    }

    /// The tables of which rows were skipped since the last call.
    pub(super) fn take_skipped(&mut self) -> Vec<RelationId> {
        std::mem::take(&mut self.skipped).into_iter().collect()
    }

    fn publish<S: Sink>(
        &mut self,
        row: &Row<'_>,
        source: RawEvent,
        out: &mut Outgoing<'_, S>,
    ) -> Result<(), SessionEnd> {
        if let Sent::NotYet(source) = out.publish(row, source)? {
            self.held = Some(source);
        }
        Ok(())
    }

    /// Publishes the events of a pack, while there is room.
    fn unpack<S: Sink>(&mut self, out: &mut Outgoing<'_, S>) -> Result<(), SessionEnd> {
        let Some(layout) = self.messages.clone() else { return Ok(()) };
        while !self.pack.is_empty() && self.held.is_none() && out.has_room() {
            let pack = std::mem::take(&mut self.pack);
            let (position, commit_time) = self.transactions.event(self.pack_lsn)?;
            let (row, bytes) = Row::of_pack(&layout, &pack, position, commit_time);
            self.pack = pack.slice(bytes..);
            if self.is_done_before(position) {
                continue;
            }
            let source = RawEvent::of(&row, Encoding::Packed, pack.slice(..bytes), &layout);
            self.publish(&row, source, out)?;
        }
        Ok(())
    }

    /// A user-defined type is announced with its own OID and, if it is a domain, the name of its
    /// base type, whose values it has.
    fn note_type(&mut self, oid: u32, schema: &str, name: &str) {
        match built_in_type(schema, name) {
            Some(base) => self.domains.insert(oid, base),
            None => self.domains.remove(&oid),
        };
    }

    /// Columns are mapped by name every time: tables change while the stream runs.
    fn announce(&mut self, mut relation: Relation<'_>) -> Result<(), SessionEnd> {
        for column in &mut relation.columns {
            column.type_oid = *self.domains.get(&column.type_oid).unwrap_or(&column.type_oid);
        }
        let layout =
            self.table(&relation).map(|number| self.read(number, &relation)).transpose()?;
        if layout.is_none() && relation.schema == OWN_SCHEMA {
            self.own.insert(relation.id);
        } else if layout.is_none() && !self.relations.contains_key(&relation.id) {
            self.warn_of_unpublished_outbox(&relation);
        }
        // Binary values were chosen by the table's present types. The log can have others: in rows
        // from before the session, or from after a change during it.
        if self.facts.binary && layout.as_ref().is_some_and(Layout::needs_text) {
            return Err(SessionEnd::restart(
                RestartReason::NeedsText,
                format!(
                    "table {relation} has a column of a user-defined type; asking for text values"
                ),
            ));
        }
        self.relations.insert(relation.id, layout.map(Arc::new));
        Ok(())
    }

    /// The configured table of the relation: by name; else by OID, for rows that were written while
    /// the table had another name, or that came under the name of a partition.
    fn table(&self, relation: &Relation<'_>) -> Option<usize> {
        let named = |table: &OutboxTable| {
            table.name.schema == relation.schema && table.name.name == relation.name
        };
        let same = || self.facts.tables.iter().position(|table| table.is(relation.id));
        self.tables.iter().position(named).or_else(same)
    }

    fn read(&self, number: usize, relation: &Relation<'_>) -> Result<Layout, SessionEnd> {
        let Some(table) = self.tables.get(number) else {
            return Err(DecodeError::UnknownRelation(relation.id).into());
        };
        let layout = match self.facts.tables.get(number) {
            Some(present) if self.is_past() => present.layout(number, relation, &table.columns),
            _ => Layout::new(number, relation, &table.columns),
        }?;
        let Some(present) = self.facts.tables.get(number) else { return Ok(layout) };
        self.check_types(table, present, relation)?;
        Ok(table.typed(layout, present, Some(relation))?)
    }

    /// Debezium's types depend on more than the log has. If a table changes while it is read, all is
    /// looked up again.
    fn check_types(
        &self,
        table: &OutboxTable,
        present: &PresentTable,
        relation: &Relation<'_>,
    ) -> Result<(), SessionEnd> {
        let Some(router) = table.debezium.as_ref().filter(|_| !self.is_past()) else {
            return Ok(());
        };
        let is_read = |column: &&RelationColumn<'_>| router.reads(column.name);
        let mut read = relation.columns.iter().filter(is_read);
        if read.all(|column| present.has_as_it_is(column)) {
            return Ok(());
        }
        let text = format!("the columns of table {relation} have changed; looking at it again");
        Err(SessionEnd::restart(RestartReason::Columns, text))
    }

    /// Such a table could be mistaken for one that is published.
    fn warn_of_unpublished_outbox(&self, relation: &Relation<'_>) {
        let fits = |table: &OutboxTable| Layout::new(0, relation, &table.columns).is_ok();
        if self.tables.iter().any(fits) {
            tracing::warn!(
                table = %relation,
                "rows of a table that has the columns of an outbox are not published, because it \
                 is not in postgres.tables"
            );
        }
    }

    /// Whether the open transaction committed before the tables were examined.
    fn is_past(&self) -> bool {
        self.transactions.commit_lsn().is_some_and(|commit_lsn| commit_lsn < self.facts.wal_end)
    }

    fn layout(&self, relation: RelationId) -> Result<Option<&Arc<Layout>>, DecodeError> {
        match self.relations.get(&relation) {
            Some(layout) => Ok(layout.as_ref()),
            None => Err(DecodeError::UnknownRelation(relation)),
        }
    }
}
