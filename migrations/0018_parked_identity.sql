-- Which parked event is which, and what is known of it, also after a move, an interruption or a take-over.

-- Rows that are published from their table have no place in the log. The try that read them, and their
-- number in it, stand for one.
ALTER TABLE postrider.progress
    ADD COLUMN backfills       bigint NOT NULL DEFAULT 0,
    ADD COLUMN takeovers_known bigint NOT NULL DEFAULT 0;
UPDATE postrider.progress SET takeovers_known = takeovers;

COMMENT ON COLUMN postrider.progress.backfills IS 'How often publishing rows from the tables was begun. It is never reset: see postrider.undelivered.change_lsn.';
COMMENT ON COLUMN postrider.progress.takeovers_known IS 'What takeovers was when the relay last read which keys are held. While it is lower than takeovers, no parked event is retried.';
COMMENT ON COLUMN postrider.undelivered.change_lsn IS 'Where its own change stands. Below 0/1000000 that is no position: it was read from its table, by the try with this number (see postrider.progress.backfills); or, with 0/0, parked by a version that stored neither.';
COMMENT ON COLUMN postrider.undelivered.ordinal IS 'Its number among the events at change_lsn, from 0: rows of one COPY and events of one batch share an LSN. Of an event that was read from its table: among the rows of that try.';

-- Logical replication copies rows and not where sequences stand, so numbers could be given out again. The
-- relay calls this when it opens the side table. It runs as its owner, because only an owner may move the
-- sequence; it moves it only forward, and no further than the rows that are there.
CREATE FUNCTION postrider.catch_up_ids() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    ids     regclass := pg_get_serial_sequence('postrider.undelivered', 'id');
    highest bigint   := (SELECT max(u.id) FROM postrider.undelivered u);
BEGIN
    IF highest > coalesce(pg_sequence_last_value(ids), 0) THEN
        PERFORM setval(ids, highest);
    END IF;
END
$$;

COMMENT ON FUNCTION postrider.catch_up_ids IS 'Sees that the next parked event gets a number that none has.';

-- Whether the event of a row was published from here, and when: its retention counts from then.
CREATE INDEX undelivered_delivered ON postrider.undelivered USING hash (row_id) WHERE status = 'delivered';
