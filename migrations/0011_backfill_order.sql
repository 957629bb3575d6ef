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
