-- An event without a table is only in the log: postrider.emit fails also while the slot that was to read it
-- is gone, or has lost what it had to read. A dump has the promise without the slot.

CREATE OR REPLACE FUNCTION postrider.raise_no_reader() RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    gone CONSTANT pg_catalog.text := (
        SELECT pg_catalog.string_agg(pg_catalog.quote_ident(m.slot), ', ' ORDER BY m.slot)
          FROM postrider.message_slot m
         WHERE NOT EXISTS (SELECT FROM postrider.backfill b
                            WHERE b.slot OPERATOR(pg_catalog.=) m.slot AND NOT b.keeps_slot));
BEGIN
    IF gone IS NOT NULL THEN
        RAISE EXCEPTION 'events without a table can''t be written now: slot % is gone or lost, and no relay with postgres.messages = true has another', gone
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'run `postrider recover`, which makes a new slot; if events without a table are not to be published any more, run `postrider migrate --withdraw messages`';
    END IF;
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

-- As what it calls: only then it becomes part of the query that asks for many events.
ALTER FUNCTION postrider.text_problem(text, text, text) STABLE;

-- Two conditions change: they are replaced in whatever else the functions do. Also texts that the relay
-- would refuse as too large are refused here.
DO $patch$
DECLARE
    known  CONSTANT text[] := ARRAY[
        'IF NOT EXISTS (SELECT FROM postrider.message_slot m WHERE NOT EXISTS (
            SELECT FROM postrider.backfill b WHERE b.slot = m.slot AND NOT b.keeps_slot)) THEN',
        'problem := postrider.event_problem(topic, octet_length(payload), key, tenant, headers, traceparent, "partition", false);',
        'SELECT n, postrider.event_problem(e.topic, octet_length(e.payload), e.key, e.tenant, e.header,
                                              e.traceparent, e.part, false) AS problem',
        'unnest(traceparents) AS traceparent, unnest(partitions) AS part) AS e) AS checked'];
    wanted CONSTANT text[] := ARRAY[
        'IF NOT EXISTS (
        SELECT FROM postrider.message_slot m
          JOIN pg_catalog.pg_replication_slots r ON r.slot_name OPERATOR(pg_catalog.=) m.slot
         WHERE r.database OPERATOR(pg_catalog.=) pg_catalog.current_database()
           AND r.wal_status IS DISTINCT FROM ''lost''
           AND NOT EXISTS (SELECT FROM postrider.backfill b
                            WHERE b.slot OPERATOR(pg_catalog.=) m.slot AND NOT b.keeps_slot)) THEN',
        'problem := coalesce(
        postrider.event_problem(topic, pg_catalog.octet_length(payload), key, tenant, headers, traceparent, "partition", false),
        postrider.text_problem(ordering_key, type, content_type));',
        'SELECT n, coalesce(postrider.event_problem(e.topic, pg_catalog.octet_length(e.payload), e.key, e.tenant, e.header,
                                                       e.traceparent, e.part, false),
                               postrider.text_problem(e.ordering_key, e.type, e.content_type)) AS problem',
        'pg_catalog.unnest(traceparents) AS traceparent, pg_catalog.unnest(partitions) AS part,
                           pg_catalog.unnest(ordering_keys) AS ordering_key, pg_catalog.unnest(types) AS type,
                           pg_catalog.unnest(content_types) AS content_type) AS e) AS checked'];
    of_one CONSTANT int[] := '{1,2}';
    of_many CONSTANT int[] := '{1,3,4}';
    emits  record;
    number int;
BEGIN
    FOR emits IN
        SELECT p.proname, pg_catalog.pg_get_functiondef(p.oid) AS definition
          FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'postrider'::regnamespace
           AND p.proname IN ('emit_bytes', 'emit_batch_bytes')
    LOOP
        FOREACH number IN ARRAY CASE emits.proname WHEN 'emit_bytes' THEN of_one ELSE of_many END LOOP
            IF pg_catalog.strpos(emits.definition, known[number]) = 0 THEN
                RAISE EXCEPTION 'function postrider.% is not the one that postrider made', emits.proname;
            END IF;
            emits.definition := pg_catalog.replace(emits.definition, known[number], wanted[number]);
        END LOOP;
        EXECUTE emits.definition;
    END LOOP;
END
$patch$;
