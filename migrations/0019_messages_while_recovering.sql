-- An event without a table is in no slot while a new one is being made, and in one that is thrown away if
-- the attempt that made it is: postrider.emit fails until the slot is there to stay.

ALTER TABLE postrider.backfill ADD COLUMN made_for text;

COMMENT ON COLUMN postrider.backfill.keeps_slot IS 'The slot is whole, and may have events without a table that nobody has read: later tries keep it, and only rows of the tables are published from the tables. While it is false, postrider.emit does not count on this slot.';
COMMENT ON COLUMN postrider.backfill.made_for IS 'The publication, as it was just before a try made the slot; NULL: the slot is older than the job.';

CREATE OR REPLACE FUNCTION postrider.raise_no_reader() RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM postrider.message_slot) THEN
        RAISE EXCEPTION 'events without a table can''t be written now: the slot that has to read them is being made'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'try again; if this goes on, `postrider recover` or a snapshot was broken off, or waits for open transactions: run `postrider recover`, or start the relay';
    END IF;
    RAISE EXCEPTION 'no relay of this database publishes events without a table: postgres.messages is not true'
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'set postgres.messages = true in the configuration of a relay, then run `postrider migrate` with it, and start the relay if `postrider migrate` did not make its slot';
END
$$;

-- Only their first condition changes: it is replaced in whatever else the functions do.
DO $patch$
DECLARE
    known CONSTANT text := 'IF NOT EXISTS (SELECT FROM postrider.message_slot) THEN';
    wanted CONSTANT text := 'IF NOT EXISTS (SELECT FROM postrider.message_slot m WHERE NOT EXISTS (
            SELECT FROM postrider.backfill b WHERE b.slot = m.slot AND NOT b.keeps_slot)) THEN';
    emits record;
BEGIN
    FOR emits IN
        SELECT p.proname, pg_get_functiondef(p.oid) AS definition
          FROM pg_proc p WHERE p.pronamespace = 'postrider'::regnamespace
           AND p.proname IN ('emit_bytes', 'emit_batch_bytes')
    LOOP
        IF strpos(emits.definition, known) = 0 THEN
            RAISE EXCEPTION 'function postrider.% is not the one that postrider made', emits.proname;
        END IF;
        EXECUTE replace(emits.definition, known, wanted);
    END LOOP;
END
$patch$;
