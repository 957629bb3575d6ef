-- The descriptions that psql shows (\d+, \dt+, \df+), in plainer words, and some that were missing. Nothing
-- else changes. An object that is missing, or belongs to a role that this one is not a member of, keeps the
-- comment it has: an administrator may have created the schema or the inbox. So does postrider.command_lock: a
-- comment takes the lock that another session of `postrider migrate` holds on that table meanwhile.

DO $comments$
DECLARE
    item record;
BEGIN
    IF pg_catalog.pg_has_role((SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'postrider'), 'USAGE') THEN
        COMMENT ON SCHEMA postrider IS 'State and functions of postrider, which publishes outbox tables to Kafka. Applications call the functions; they write to no table here except the inbox.';
    END IF;

    -- Tables, and their columns.
    FOR item IN
        SELECT CASE w.column_name WHEN '' THEN pg_catalog.format('TABLE postrider.%I', w.table_name)
                    ELSE pg_catalog.format('COLUMN postrider.%I.%I', w.table_name, w.column_name) END AS object,
               w.description
          FROM (VALUES
            ('schema_version', '', 'The numbered migrations of postrider that this database has.'),
            ('schema_version', 'version', 'The number of the migration. The highest one is the version of the schema.'),
            ('schema_version', 'name', 'The name of the migration.'),
            ('schema_version', 'applied_at', 'When it was applied.'),
            ('schema_version', 'compatible_since', 'The oldest version that still works with this schema: a postrider that knows the schema up to this version, or a later one. NULL: only a postrider that knows exactly this version. Only the row with the highest version counts.'),
            ('schema_version', 'checksum', 'SHA-256 of the migration as it was applied. NULL: not known.'),

            ('undelivered', '', 'The side table: events that could not be published and were parked. List them with `postrider dead list`; publish dead ones again with `postrider replay`.'),
            ('undelivered', 'id', 'Increases in the order in which events were parked.'),
            ('undelivered', 'slot', 'The slot whose relay parked the event, or took it over.'),
            ('undelivered', 'source_table', 'The outbox table; `messages` for an event without a table.'),
            ('undelivered', 'row_id', 'The id of the outbox row.'),
            ('undelivered', 'idempotency_key', 'The idempotency key of the event.'),
            ('undelivered', 'ordering_key', 'The ordering key of the event.'),
            ('undelivered', 'tenant', 'The tenant of the event.'),
            ('undelivered', 'commit_lsn', 'Where the commit record of its transaction starts. Events that keep their order are published in the order of commit_lsn, change_lsn and ordinal. A position below 0/1000000 is not one of any log: the event came from another server, and only its order counts.'),
            ('undelivered', 'change_lsn', 'Where the change itself starts in the log. A value below 0/1000000 is not a position: the event was read from its table by the attempt with this number (see postrider.progress.backfills); or, if it is 0/0, it was parked by a version that stored neither.'),
            ('undelivered', 'ordinal', 'Its number among the events at change_lsn, from 0: rows of one COPY and events of one batch share an LSN. For an event that was read from its table: its number among the rows of that attempt.'),
            ('undelivered', 'topic', 'The Kafka topic of the record.'),
            ('undelivered', 'partition', 'The partition that the event asks for. NULL: the key of the record decides.'),
            ('undelivered', 'key', 'The key of the record, byte for byte.'),
            ('undelivered', 'value', 'The value of the record, byte for byte. NULL: a tombstone, or a value that was not copied (see form).'),
            ('undelivered', 'value_bytes', 'The length of the value in bytes.'),
            ('undelivered', 'headers', 'The headers of the record, in order, as pairs of name and value.'),
            ('undelivered', 'timestamp', 'When the event was committed. For an event that was read from its table: created_at, or when it was read.'),
            ('undelivered', 'form', 'whole: the finished record. reference: the value is too large to be copied and stays in the outbox. fragment: no record could be made of the row, so it can''t be published as it is.'),
            ('undelivered', 'status', 'pending: will be retried. processing: is being retried, under a lease. dead: is not retried and waits for an operator. delivered, discarded: done.'),
            ('undelivered', 'reason', 'Why it was parked: a short code, such as topic-missing.'),
            ('undelivered', 'attempts', 'How often it was claimed to be retried.'),
            ('undelivered', 'next_attempt_at', 'When a pending event is due. infinity: it waits for an earlier event that it keeps its order with.'),
            ('undelivered', 'locked_by', 'The instance that has claimed it.'),
            ('undelivered', 'locked_until', 'When that claim ends.'),
            ('undelivered', 'last_error', 'The latest error. It never contains a payload.'),
            ('undelivered', 'created_at', 'When the event was parked.'),
            ('undelivered', 'updated_at', 'When this row was last changed.'),
            ('undelivered', 'delivered_at', 'When the event was published from here.'),
            ('undelivered', 'system_identifier', 'The server whose log has the position commit_lsn. NULL: the event was parked before this was stored.'),
            ('undelivered', 'whole_topic', 'True: it keeps its order with all events of its topic (undelivered.order = park-topic).'),
            ('undelivered', 'key_id', 'Identifies the events that it keeps its order with. NULL: there are none.'),
            ('undelivered', 'bytes', 'What it counts towards undelivered.breaker_bytes: its contents, plus 1 kB for everything else that a row takes.'),

            ('replayed', '', 'How many events `postrider replay` has published, or failed to publish.'),
            ('replayed', 'topic', 'The Kafka topic.'),
            ('replayed', 'result', 'success or failure.'),
            ('replayed', 'events', 'The number of events.'),

            ('progress', '', 'How far the relay of each slot has come. A position is stored here before it is confirmed to the slot; so if the slot is ahead of this position, somebody has moved or recreated it. Deleting the row then means to continue without the events between the two positions.'),
            ('progress', 'slot', 'The replication slot.'),
            ('progress', 'generation', 'Changes when the slot is recreated, or this row is.'),
            ('progress', 'system_identifier', 'The server that the position belongs to. NULL: the relay has not been started yet.'),
            ('progress', 'timeline', 'The timeline of that server when the relay last started.'),
            ('progress', 'position', 'The stored position: every event that was committed before it is published or in postrider.undelivered.'),
            ('progress', 'updated_at', 'When this row was last changed.'),
            ('progress', 'done_before', 'Transactions with lower numbers are over, and what they wrote is published, or in postrider.undelivered, or was written before the slot was created.'),
            ('progress', 'probe_xid', 'The value that done_before gets once position has reached probe_lsn.'),
            ('progress', 'probe_lsn', 'The end of the log just after probe_xid was read.'),
            ('progress', 'takeovers', 'How often this slot has taken over parked events of another one. When the number changes, the relay reads again which keys are held.'),
            ('progress', 'takeovers_known', 'The value of takeovers when the relay last read which keys are held. While it is lower than takeovers, no parked event of the slot is retried.'),
            ('progress', 'inside_commit_lsn', 'Where the commit record of the transaction starts that the relay is reading. NULL: it is not inside a transaction.'),
            ('progress', 'inside_change_lsn', 'Events of that transaction whose changes are before this LSN are published, or in postrider.undelivered.'),
            ('progress', 'inside_events', 'This many events of the change at inside_change_lsn are published, or in postrider.undelivered, too.'),
            ('progress', 'inside_depends_on', 'A hash of what decides which rows and messages are events: generation, server, timeline, version, publication, tables, messages. If it is different when the relay starts, the transaction is read from its beginning.'),
            ('progress', 'cluster_id', 'The Kafka cluster that the events of this slot are published to. NULL: not known yet. postrider refuses another cluster unless it is run with --accept-destination.'),
            ('progress', 'environment', 'The value that relay.environment had when it was first set. NULL: it was never set. postrider refuses another value unless it is run with --accept-destination.'),
            ('progress', 'backfills', 'How many attempts have been made to publish rows from the tables. It is never reset: see postrider.undelivered.change_lsn.'),

            ('coverage', '', 'The outbox tables that are promised for each slot: every row of such a table is published or parked before the stored position moves past it. `postrider migrate` and `postrider run` add entries, `postrider migrate --withdraw TABLE` removes them. The cleaner deletes a row of a table only once every slot that covers the table is past it.'),
            ('coverage', 'slot', 'The replication slot.'),
            ('coverage', 'outbox', 'The outbox table.'),
            ('coverage', 'membership', 'The OID of what puts the table into the publication: its own entry, the entry of a table that it is a partition of, the entry of its schema, or the publication itself if it is FOR ALL TABLES. If the OID is different now, the table was out of the publication for a while.'),
            ('coverage', 'since', 'Rows of this transaction and of later ones are in the slot. It is not known whether earlier ones are.'),
            ('coverage', 'intact_before', 'Transactions with lower numbers were over when the table was last found in the publication.'),
            ('coverage', 'schema_name', 'The schema of the table when it was last found intact.'),
            ('coverage', 'table_name', 'The name of the table when it was last found intact. If another table has this name now, the table was replaced.'),
            ('coverage', 'publication_xmin', 'xmin of the publication in pg_publication. It changes when the options of the publication change.'),
            ('coverage', 'publication_owner', 'The owner of the publication when it was last found intact. A new owner changes xmin too, and counts as a change of options.'),
            ('coverage', 'table_state', 'A value that changes when a table that the publication does not list by name becomes UNLOGGED or moves to another schema. NULL: not checked yet.'),
            ('coverage', 'noted_xid', 'Transactions from this number on began after noted_at. NULL: not known.'),
            ('coverage', 'noted_at', 'When the slot began to cover the table. NULL: not known.'),
            ('coverage', 'leaves', 'The partitions that contain the rows of the table, and the TOAST table of each. If a TOAST table is different now, the partition was rewritten, perhaps because it was UNLOGGED for a while. NULL: the table has no partitions, or they have not been checked yet.'),

            ('backfill', '', 'Jobs that publish rows which are in the tables already, for a new slot or after a lost one. The relay reads the slot once the job is done.'),
            ('backfill', 'slot', 'The replication slot.'),
            ('backfill', 'kind', 'snapshot: rows from before a new slot. recover: rows that may be missing.'),
            ('backfill', 'attempt', 'Different for each attempt: an attempt that another one has replaced must not write here.'),
            ('backfill', 'system_identifier', 'The server that the transaction numbers belong to.'),
            ('backfill', 'seen_before', 'Transactions with lower numbers were over when the first attempt began to read.'),
            ('backfill', 'began_at', 'When the job was created.'),
            ('backfill', 'keeps_slot', 'True: the slot is complete and may contain events without a table that nobody has read, so later attempts keep it and read only rows of the tables. While it is false, postrider.emit does not count on this slot.'),
            ('backfill', 'made_for', 'The state of the publication just before an attempt created the slot. NULL: the slot is older than the job.'),
            ('backfill', 'holder', 'The process that is working on the job, or was the last to do so.'),
            ('backfill', 'held_until', 'When the lease of that process ends; no other process begins before. It is renewed every second.'),

            ('backfill_table', '', 'How far each job of postrider.backfill is, table by table.'),
            ('backfill_table', 'slot', 'The replication slot.'),
            ('backfill_table', 'outbox', 'The outbox table.'),
            ('backfill_table', 'since', 'Only rows of this transaction and of later ones are published. NULL: all rows are.'),
            ('backfill_table', 'last_id', 'No longer used: see reached.'),
            ('backfill_table', 'rows', 'How many rows were published, in all attempts together.'),
            ('backfill_table', 'is_done', 'True: the table is finished.'),
            ('backfill_table', 'sorted_by', 'What the rows are ordered by: id, commit time, created_at or transaction.'),
            ('backfill_table', 'leaves', 'The OIDs of the tables that contain the rows. If they are different now, all rows are published again.'),
            ('backfill_table', 'reached', 'Rows up to this value of what they are ordered by are published, as far as the first attempt could see them. Times are in microseconds since 1970.'),

            ('existing_rows', '', 'Rows that are older than the slot and are not published. Decide about them with `postrider migrate --existing-rows publish` or `--existing-rows skip`.'),
            ('existing_rows', 'slot', 'The replication slot.'),
            ('existing_rows', 'outbox', 'The outbox table.'),
            ('existing_rows', 'rows', 'How many rows there were when the slot was created; an estimate for large tables. NULL: not known.'),
            ('existing_rows', 'is_skipped', 'True: an operator has decided to leave them out.'),
            ('existing_rows', 'noted_at', 'When this was noted.'),

            ('message_slot', '', 'Slots whose relays publish events without a table. While there are none, postrider.emit fails. While a slot is listed here, a relay that does not read such events can''t store its position. `postrider migrate --withdraw messages` removes the slot.'),
            ('message_slot', 'slot', 'The replication slot.'),

            ('slot_lock', '', 'One row per slot. A session that changes which parked event of a key comes first locks the row of its slot for a moment.'),
            ('slot_lock', 'slot', 'The replication slot.'),
            ('slot_lock', 'parker', 'Different for each session of the relay: a session that another one has replaced must not park events any more.'),

            ('cleaner_floor', '', 'From when on the rows of a table or partition are certain to be in every slot that covers it.'),
            ('cleaner_floor', 'slot', 'The slot whose relay cleans the table.'),
            ('cleaner_floor', 'leaf', 'The OID of the table or partition.'),
            ('cleaner_floor', 'marks', 'The slots that cover it, each with its generation, its entry in the publication and its first transaction.'),
            ('cleaner_floor', 'link', 'How the partition is attached to its table, and the state of the publication.'),
            ('cleaner_floor', 'since', 'Rows of earlier transactions are not certain to be in every slot.'),
            ('cleaner_floor', 'floor', 'The largest created_at of those rows: nothing at or below it is deleted. -infinity: no such rows exist. NULL: some of those transactions are still open.'),

            ('cleaner_mark', '', 'Roughly when transactions began, and when their events were published. The cleaner of each slot adds a mark now and then and deletes old ones; a table has a few dozen of them at most.'),
            ('cleaner_mark', 'id', 'Increases with each mark.'),
            ('cleaner_mark', 'slot', 'The slot whose relay cleans the table.'),
            ('cleaner_mark', 'outbox', 'The OID of the outbox table.'),
            ('cleaner_mark', 'generation', 'The generation of the slot''s progress. Marks of another generation do not count.'),
            ('cleaner_mark', 'marked_at', 'When the mark was made.'),
            ('cleaner_mark', 'next_xid', 'Transactions from this number on began after marked_at.'),
            ('cleaner_mark', 'over_before', 'Transactions with lower numbers were over at marked_at.'),
            ('cleaner_mark', 'log_end', 'The end of the log at marked_at: the commits of those transactions are before it.'),
            ('cleaner_mark', 'done_at', 'When every slot that covers the table was first seen past log_end: by then the events of transactions below over_before were published or parked. NULL: not yet.'),

            ('detached', '', 'Partitions that the cleaner is detaching, or has detached, in order to drop them.'),
            ('detached', 'leaf', 'The OID of the partition.'),
            ('detached', 'outbox', 'The outbox table that it is or was a partition of.'),
            ('detached', 'name', 'The name of the partition, for people.'),
            ('detached', 'floor', 'As in postrider.cleaner_floor.'),
            ('detached', 'noted_at', 'When this was noted.'),
            ('detached', 'system_identifier', 'The server on which it was noted.'),
            ('detached', 'database', 'The OID of the database in which it was noted.'),
            ('detached', 'partition_name', 'Schema and name of the partition, if the table was a partition of that outbox when this was noted. NULL: it was not, and it is never dropped.'),

            ('inbox', '', 'The events that each consumer has processed. A consumer calls postrider.inbox_claim in the transaction of its effect.'),
            ('inbox', 'consumer', 'The name of the consumer. Idempotency keys are unique within a topic, so a consumer of several topics needs a name for each.'),
            ('inbox', 'idempotency_key', 'The header idempotency-key of the record.'),
            ('inbox', 'claimed_at', 'When the transaction that processed the event began.')
          ) AS w (table_name, column_name, description)
          JOIN pg_catalog.pg_class c ON c.relname = w.table_name AND c.relkind = 'r'
          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'postrider'
         WHERE pg_catalog.pg_has_role(c.relowner, 'USAGE')
           AND (w.column_name = ''
                OR EXISTS (SELECT FROM pg_catalog.pg_attribute a
                            WHERE a.attrelid = c.oid AND a.attname = w.column_name AND NOT a.attisdropped))
    LOOP
        EXECUTE pg_catalog.format('COMMENT ON %s IS %L', item.object, item.description);
    END LOOP;

    FOR item IN
        SELECT pg_catalog.format('FUNCTION %s', p.oid::pg_catalog.regprocedure) AS object,
               w.description
          FROM (VALUES
            ('enqueue', 'Writes an event to the outbox and returns its id. If the outbox already has an event with this topic and idempotency key, writes nothing and returns the id of that event.'),
            ('enqueue_bytes', 'Like postrider.enqueue, for a payload of bytes.'),
            ('enqueue_new', 'Like postrider.enqueue. Also returns whether the event was written (is_new is true) or the outbox already had one with this topic and idempotency key.'),
            ('enqueue_new_bytes', 'Like postrider.enqueue_new, for a payload of bytes.'),
            ('enqueue_batch', 'Like postrider.enqueue, for many events: one array per argument. They are written and published in the order of the arrays, and their ids are returned in that order.'),
            ('enqueue_batch_bytes', 'Like postrider.enqueue_batch, for payloads of bytes.'),
            ('require_tenant_keys', 'From now on the idempotency key of an event with a tenant must begin with the tenant and "/", and the key of an event without a tenant must not contain "/". So keys of different tenants can''t collide, and nobody else can take a tenant''s keys. Returns true if all existing rows are known to obey this rule. If it returns false, call it again in another transaction to check them. On a table that has the rule of an earlier version, the same calls add the rest of it.'),
            ('emit', 'Publishes an event without a table once this transaction has committed, and returns its id. The payload is kept byte for byte; NULL publishes a tombstone.'),
            ('emit_bytes', 'Publishes an event without a table once this transaction has committed, and returns its id. The payload is the value of the record, byte for byte; NULL publishes a tombstone.'),
            ('emit_batch', 'Like postrider.emit, for many events: one array per argument. They are published in the order of the arrays, and their ids are returned in that order.'),
            ('emit_batch_bytes', 'Like postrider.emit_batch, for payloads of bytes.'),
            ('inbox_claim', 'Returns true to the first transaction that calls it for this consumer and key and commits: perform the effect in the same transaction. Returns false if that was done before.'),
            ('inbox_clean', 'Deletes claims that are older than the retention, at most `batch` of them, and returns how many it deleted. Call it until it returns 0.'),

            ('enqueue_one', 'Internal: writes one event and returns its id.'),
            ('enqueue_one_new', 'Internal: writes one event, for all functions that do so.'),
            ('enqueue_many', 'Internal: writes many events. A caller that has checked the events itself can skip the check with `checked`.'),
            ('enqueue_all', 'Internal: writes many events. Only postrider.enqueue_many calls it.'),
            ('enqueue_parts', 'Internal: the parts of an INSERT of these columns into an outbox, whatever the types of its columns are.'),
            ('find_enqueued', 'Internal: returns the ids of events that the outbox already has.'),
            ('new_key', 'Internal: generates an idempotency key for an event that has none.'),
            ('payload_text', 'Internal: converts a payload of bytes for a column of type text or JSON.'),
            ('event_problem', 'Internal: explains why an event can''t be published, and how to fix it. NULL: no problem was found. The text never contains a payload.'),
            ('text_problem', 'Internal: explains which text of an event is too large to be published, and how to fix it. NULL: no problem was found.'),
            ('header_problem', 'Internal: explains which header name is not allowed, and how to fix it. NULL: no problem was found.'),
            ('refuse_keys_of_tenants', 'Internal: where postrider.require_tenant_keys is in force, refuses events without a tenant whose key could be a tenant''s.'),
            ('raise_problem', 'Internal: raises an error with a hint.'),
            ('raise_not_written', 'Internal: raises the error for a row that was not inserted although no row has its topic and idempotency key.'),
            ('raise_no_reader', 'Internal: raises the error of postrider.emit for the case that no relay would read the event.'),
            ('message_value', 'Internal: encodes a value of an event without a table.'),
            ('message_text', 'Internal: encodes a text of an event without a table.'),
            ('key_id', 'Internal: identifies events that keep their order: those of a topic and ordering key, of a topic and partition, or of a whole topic.'),
            ('text_id', 'Internal: identifies a text of any length.'),
            ('catch_up_ids', 'Internal: moves the sequence of postrider.undelivered.id past the highest id, so that no id is given out twice.'),
            ('witness_partition', 'Internal: records whether a table that is to be detached is a partition of the outbox, and in which database and on which server.')
          ) AS w (function_name, description)
          JOIN pg_catalog.pg_proc p ON p.proname = w.function_name
          JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'postrider'
         WHERE pg_catalog.pg_has_role(p.proowner, 'USAGE')
    LOOP
        EXECUTE pg_catalog.format('COMMENT ON %s IS %L', item.object, item.description);
    END LOOP;
END
$comments$;
