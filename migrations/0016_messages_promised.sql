-- Events without a table are only in the log: what reads them must not be thrown away unread.

ALTER TABLE postrider.backfill ADD COLUMN keeps_slot boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN postrider.backfill.keeps_slot IS 'The slot is whole, and has events without a table that nobody has read: it stays, and only rows of the tables are published from the tables.';
