-- Who publishes the rows of the tables, and for how long nobody else may begin: a lease in a row that only
-- we may write. Anybody may take an advisory lock, and an open transaction would keep the slot from being
-- made.

ALTER TABLE postrider.backfill
    ADD COLUMN holder     text,
    ADD COLUMN held_until timestamptz;

COMMENT ON COLUMN postrider.backfill.holder IS 'The process that is at it, or was last.';
COMMENT ON COLUMN postrider.backfill.held_until IS 'Until then nobody else begins. It is renewed every few seconds.';
