-- How far each slot's relay has come, and since when the slot has every row of a table.

CREATE TABLE postrider.progress (
    slot              text        PRIMARY KEY,
    generation        uuid        NOT NULL DEFAULT gen_random_uuid(),
    system_identifier text,
    timeline          int,
    position          pg_lsn      NOT NULL,
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp()
    -- Updated many times a second: room for new versions of the row on its own page.
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000);

COMMENT ON TABLE postrider.progress IS 'How far the relay of each slot has come. It is written before the slot is told, so a slot that is further than this was moved or made anew by somebody else. Delete a row only to give up what lies between.';
COMMENT ON COLUMN postrider.progress.generation IS 'Changes when the slot was made anew.';
COMMENT ON COLUMN postrider.progress.system_identifier IS 'The server that the position belongs to; unknown before the first start of the relay.';
COMMENT ON COLUMN postrider.progress.timeline IS 'The timeline of that server when the relay last started.';
COMMENT ON COLUMN postrider.progress.position IS 'Every event committed before it is published, or in postrider.undelivered.';

CREATE TABLE postrider.coverage (
    slot       text     NOT NULL REFERENCES postrider.progress ON DELETE CASCADE,
    outbox     regclass NOT NULL,
    membership oid      NOT NULL,
    since      xid8     NOT NULL,
    PRIMARY KEY (slot, outbox)
);

COMMENT ON TABLE postrider.coverage IS 'Which outbox tables each slot covers. A row is deleted by the cleaner only if every slot that covers its table is past it.';
COMMENT ON COLUMN postrider.coverage.membership IS 'The OID of the table''s entry in the publication: another one means that it was out of it.';
COMMENT ON COLUMN postrider.coverage.since IS 'Rows of this transaction and later ones are in the slot. Nobody knows whether earlier ones are.';
