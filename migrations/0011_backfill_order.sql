-- In which order rows of a table are published, and how far that is.

ALTER TABLE postrider.backfill_table
    ADD COLUMN sorted_by text,
    ADD COLUMN leaves    text,
    ADD COLUMN reached   bigint;

COMMENT ON COLUMN postrider.backfill_table.last_id IS 'Not used any more: see reached.';
COMMENT ON COLUMN postrider.backfill_table.sorted_by IS 'What the rows are ordered by: the id, the commit time, created_at or the transaction.';
COMMENT ON COLUMN postrider.backfill_table.leaves IS 'The OIDs of the tables that have the rows. If there are others now, all rows are published again.';
COMMENT ON COLUMN postrider.backfill_table.reached IS 'Rows up to this value of what they are ordered by are published, as far as the first try could see them; times are in microseconds since 1970.';

-- Whether the event of a row was discarded: it is not published again from the table.
CREATE INDEX undelivered_discarded ON postrider.undelivered (md5(row_id)) WHERE status = 'discarded';

-- Rows that were in a table before its slot was made.
CREATE TABLE postrider.existing_rows (
    slot       text        NOT NULL REFERENCES postrider.progress ON DELETE CASCADE,
    outbox     regclass    NOT NULL,
    rows       bigint,
    is_skipped boolean     NOT NULL DEFAULT false,
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (slot, outbox)
);

COMMENT ON TABLE postrider.existing_rows IS 'Rows that are older than the slot, and are not published. `postrider migrate --existing-rows publish|skip` decides what becomes of them.';
COMMENT ON COLUMN postrider.existing_rows.rows IS 'How many there were when the slot was made, estimated for large tables; NULL: unknown.';
COMMENT ON COLUMN postrider.existing_rows.is_skipped IS 'Somebody has decided to leave them out.';
