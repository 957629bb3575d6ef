-- Retention counts from publication too, and a note about a detached partition names exactly one table.

-- A bridge between clock and transactions: a row does not say when it was written or published.
CREATE TABLE postrider.cleaner_mark (
    slot        text        NOT NULL REFERENCES postrider.progress ON DELETE CASCADE,
    outbox      oid         NOT NULL,
    generation  uuid        NOT NULL,
    marked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_xid    xid8        NOT NULL,
    over_before xid8        NOT NULL,
    log_end     pg_lsn      NOT NULL,
    done_at     timestamptz
);

CREATE INDEX cleaner_mark_slot ON postrider.cleaner_mark (slot, outbox);

COMMENT ON TABLE postrider.cleaner_mark IS 'When transactions began and when their events were published, by and large. The cleaner of each slot adds a mark now and then and deletes old ones; there are at most a few dozen for each table.';
COMMENT ON COLUMN postrider.cleaner_mark.slot IS 'The slot whose relay cleans the table.';
COMMENT ON COLUMN postrider.cleaner_mark.outbox IS 'The outbox table.';
COMMENT ON COLUMN postrider.cleaner_mark.generation IS 'The generation of the slot''s progress: marks of another one say nothing.';
COMMENT ON COLUMN postrider.cleaner_mark.next_xid IS 'Transactions from this number on began after marked_at.';
COMMENT ON COLUMN postrider.cleaner_mark.over_before IS 'Transactions with lower numbers were over at marked_at.';
COMMENT ON COLUMN postrider.cleaner_mark.log_end IS 'The end of the log at marked_at: their commits lie before it.';
COMMENT ON COLUMN postrider.cleaner_mark.done_at IS 'When every slot that covers the table was seen past log_end: by then the events of transactions below over_before were published or parked. NULL: not yet.';

-- The first mark of a slot. Entries from before this migration have none. Numbers of their own, because
-- since is lower where rows were published from the tables.
ALTER TABLE postrider.coverage
    ADD COLUMN noted_xid xid8,
    ADD COLUMN noted_at  timestamptz;
ALTER TABLE postrider.coverage
    ALTER COLUMN noted_xid SET DEFAULT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()),
    ALTER COLUMN noted_at SET DEFAULT pg_catalog.clock_timestamp();

COMMENT ON COLUMN postrider.coverage.noted_xid IS 'Transactions from this number on began after noted_at; NULL: unknown.';
COMMENT ON COLUMN postrider.coverage.noted_at IS 'When the slot began to cover the table; NULL: unknown.';

-- An OID alone is not enough to drop a table by: in a restored database it can be that of any other.
ALTER TABLE postrider.detached
    ADD COLUMN system_identifier text,
    ADD COLUMN database          oid,
    ADD COLUMN partition_name    text;

COMMENT ON COLUMN postrider.detached.leaf IS 'The OID of the partition.';
COMMENT ON COLUMN postrider.detached.name IS 'The name of the partition, for people.';
COMMENT ON COLUMN postrider.detached.system_identifier IS 'The server on which it was noted.';
COMMENT ON COLUMN postrider.detached.database IS 'The OID of the database in which it was noted.';
COMMENT ON COLUMN postrider.detached.partition_name IS 'Schema and name of the partition, if it was seen to be a partition of that outbox when it was noted. NULL: it was not, and nothing is dropped.';

CREATE FUNCTION postrider.witness_partition() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.database := (SELECT d.oid FROM pg_catalog.pg_database d
                      WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database());
    NEW.partition_name := (
        SELECT pg_catalog.format('%I.%I', n.nspname, c.relname)
          FROM pg_catalog.pg_class c
          JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
         WHERE c.oid OPERATOR(pg_catalog.=) NEW.leaf AND c.relispartition
           AND EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(NEW.leaf) AS a
                        WHERE a.relid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(NEW.outbox)));
    IF NEW.system_identifier IS NULL THEN
        BEGIN
            NEW.system_identifier := (SELECT s.system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system() AS s);
        EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
            -- Unknown: the relay names the server itself.
        END;
    END IF;
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION postrider.witness_partition IS 'Notes whether what is to be detached is a partition of the outbox, and where that is so.';

CREATE TRIGGER witness_partition BEFORE INSERT ON postrider.detached
    FOR EACH ROW EXECUTE FUNCTION postrider.witness_partition();

-- Notes that are there: those whose partition is not detached yet can still be witnessed.
UPDATE postrider.detached d
   SET database = (SELECT b.oid FROM pg_catalog.pg_database b WHERE b.datname = pg_catalog.current_database()),
       system_identifier = (SELECT pg_catalog.min(p.system_identifier) FROM postrider.progress p
                            HAVING pg_catalog.count(DISTINCT p.system_identifier) = 1),
       partition_name = pg_catalog.format('%I.%I', n.nspname, c.relname)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = d.leaf AND c.relispartition
   AND EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(c.oid) AS a
                WHERE a.relid = pg_catalog.to_regclass(d.outbox));
