-- What it takes to publish rows that are in the tables already, and to go on after a slot was lost.

ALTER TABLE postrider.progress
    ADD COLUMN done_before xid8,
    ADD COLUMN probe_xid   xid8,
    ADD COLUMN probe_lsn   pg_lsn;

COMMENT ON COLUMN postrider.progress.done_before IS 'Transactions with lower numbers are over, and what they wrote is published, or in postrider.undelivered, or was written before the slot was made.';
COMMENT ON COLUMN postrider.progress.probe_xid IS 'What done_before may be once position has reached probe_lsn.';
COMMENT ON COLUMN postrider.progress.probe_lsn IS 'The end of the log just after probe_xid was read.';

ALTER TABLE postrider.coverage ADD COLUMN intact_before xid8;

COMMENT ON COLUMN postrider.coverage.intact_before IS 'Transactions with lower numbers were over when the table was last seen in the publication.';

CREATE TABLE postrider.backfill (
    slot              text        PRIMARY KEY,
    kind              text        NOT NULL CHECK (kind IN ('snapshot', 'recover')),
    attempt           uuid        NOT NULL DEFAULT gen_random_uuid(),
    system_identifier text,
    seen_before       xid8,
    began_at          timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE postrider.backfill IS 'Slots that are being made, while rows are published that are in the tables already. The relay streams once that is done.';
COMMENT ON COLUMN postrider.backfill.attempt IS 'Another one for each try: whoever was overtaken must not write here.';
COMMENT ON COLUMN postrider.backfill.system_identifier IS 'The server that the numbers of transactions belong to.';
COMMENT ON COLUMN postrider.backfill.seen_before IS 'Transactions with lower numbers were over when the first try began to read.';

CREATE TABLE postrider.backfill_table (
    slot    text     NOT NULL REFERENCES postrider.backfill ON DELETE CASCADE,
    outbox  regclass NOT NULL,
    since   xid8,
    last_id bigint,
    rows    bigint   NOT NULL DEFAULT 0,
    is_done boolean  NOT NULL DEFAULT false,
    PRIMARY KEY (slot, outbox)
);

COMMENT ON TABLE postrider.backfill_table IS 'How far that is, table by table.';
COMMENT ON COLUMN postrider.backfill_table.since IS 'Only rows of this transaction and later ones are published; NULL: all.';
COMMENT ON COLUMN postrider.backfill_table.last_id IS 'Rows up to this id are published, as far as the first try could see them.';
COMMENT ON COLUMN postrider.backfill_table.rows IS 'How many were published, in all tries.';
