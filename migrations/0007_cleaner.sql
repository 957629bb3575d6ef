-- What the cleaner of the outbox tables needs.

-- Whether the event of a row is parked, whatever its table is called by now. Ids can be long: an
-- index entry has room for 2,700 bytes.
CREATE INDEX undelivered_row ON postrider.undelivered (md5(row_id))
    WHERE status IN ('pending', 'processing', 'dead');

-- What was in a table, or a partition, before its rows came to all slots: nothing up to this moment is
-- ever deleted. Transactions are told apart by 32 bits of their numbers, which come again; this is not.
CREATE TABLE postrider.cleaner_floor (
    slot  text NOT NULL REFERENCES postrider.progress ON DELETE CASCADE,
    leaf  oid  NOT NULL,
    marks text NOT NULL,
    link  text NOT NULL,
    since xid8 NOT NULL,
    floor timestamptz,
    PRIMARY KEY (slot, leaf)
);

COMMENT ON TABLE postrider.cleaner_floor IS 'From when on the rows of a table, or of a partition, are certainly in every slot that covers it.';
COMMENT ON COLUMN postrider.cleaner_floor.leaf IS 'The table or partition.';
COMMENT ON COLUMN postrider.cleaner_floor.marks IS 'The slots that cover it, with their generations and beginnings.';
COMMENT ON COLUMN postrider.cleaner_floor.link IS 'How the partition hangs on its table, and the state of the publication.';
COMMENT ON COLUMN postrider.cleaner_floor.since IS 'Rows of earlier transactions are not certain.';
COMMENT ON COLUMN postrider.cleaner_floor.floor IS 'The largest created_at of such rows; NULL while some of those transactions are open.';

-- Partitions on their way out. Detaching takes several transactions, and must be finished by whoever
-- comes next.
CREATE TABLE postrider.detached (
    leaf     oid         PRIMARY KEY,
    outbox   text        NOT NULL,
    name     text        NOT NULL,
    floor    timestamptz NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE postrider.detached IS 'Partitions that the cleaner detaches, or has detached, to drop them.';
COMMENT ON COLUMN postrider.detached.outbox IS 'Of which table.';
COMMENT ON COLUMN postrider.detached.floor IS 'See postrider.cleaner_floor.';
