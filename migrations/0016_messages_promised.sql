-- Events without a table are only in the log: what reads them must not be thrown away unread.

ALTER TABLE postrider.backfill ADD COLUMN keeps_slot boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN postrider.backfill.keeps_slot IS 'The slot is whole, and has events without a table that nobody has read: it stays, and only rows of the tables are published from the tables.';

CREATE TABLE postrider.message_slot (
    slot text PRIMARY KEY REFERENCES postrider.progress ON DELETE CASCADE
);

COMMENT ON TABLE postrider.message_slot IS 'Slots whose relays publish events without a table. While there is none, postrider.emit fails; while a slot is here, its position is not stored by a relay that does not read them. `postrider migrate --withdraw messages` takes it out.';

CREATE FUNCTION postrider.raise_no_reader() RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'no relay of this database publishes events without a table: postgres.messages is not true'
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'set postgres.messages = true in the configuration of a relay, then run `postrider migrate` with it';
END
$$;

COMMENT ON FUNCTION postrider.raise_no_reader IS 'What postrider.emit says if nobody reads what it writes.';
REVOKE ALL ON FUNCTION postrider.raise_no_reader FROM PUBLIC;

CREATE OR REPLACE FUNCTION postrider.emit_bytes(
    topic           text,
    payload         bytea,
    idempotency_key text DEFAULT NULL,
    ordering_key    text DEFAULT NULL,
    tenant          text DEFAULT NULL,
    headers         json DEFAULT NULL,
    traceparent     text DEFAULT NULL,
    type            text DEFAULT NULL,
    content_type    text DEFAULT NULL,
    "partition"     int  DEFAULT NULL
) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    -- Nobody else's functions or operators, whatever the caller's path.
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    id      CONSTANT text := gen_random_uuid()::text;
    key              text := coalesce(idempotency_key, concat(tenant || '/', id));
    problem          text[];
    message          bytea;
BEGIN
    -- What nobody reads is lost, and nobody would ever know.
    IF NOT EXISTS (SELECT FROM postrider.message_slot) THEN
        PERFORM postrider.raise_no_reader();
    END IF;
    -- What is wrong with it alone; then it is not even put together.
    problem := postrider.event_problem(topic, octet_length(payload), key, tenant, headers, traceparent, "partition", false);
    IF problem IS NULL THEN
        -- Version 1 (the first byte) and its 11 values.
        message := decode('01000b', 'hex')
            || postrider.message_text(id)
            || postrider.message_text(topic)
            || postrider.message_value(payload)
            || postrider.message_text(key)
            || postrider.message_text(ordering_key)
            || postrider.message_text(type)
            || postrider.message_text(content_type)
            || postrider.message_text(tenant)
            || postrider.message_text("partition"::text)
            || postrider.message_text(headers::text)
            || postrider.message_text(traceparent);
        IF octet_length(message) > 16777216 THEN
            problem := ARRAY[format('the event has %s bytes', octet_length(message)),
                'an event may have 16 MiB in all: put large things elsewhere and refer to them'];
        END IF;
    END IF;
    IF problem IS NOT NULL THEN
        PERFORM postrider.raise_problem(problem);
    END IF;
    PERFORM pg_logical_emit_message(true, 'postrider', message);
    RETURN id;
END
$$;

CREATE OR REPLACE FUNCTION postrider.emit_batch_bytes(
    topics text[], payloads bytea[], idempotency_keys text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    tenants text[] DEFAULT NULL, headers json[] DEFAULT NULL, traceparents text[] DEFAULT NULL, types text[] DEFAULT NULL,
    content_types text[] DEFAULT NULL, partitions int[] DEFAULT NULL)
    RETURNS text[]
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    -- Nobody else's functions or operators, whatever the caller's path.
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    event_count    CONSTANT int := coalesce(cardinality(topics), 0);
    pack_bytes_max CONSTANT int := 65536;
    -- Version 2, and events follow.
    version        CONSTANT bytea := decode('02', 'hex');
    bad            record;
    ids            text[];
    events         bytea[];
    pack           bytea;
BEGIN
    -- What nobody reads is lost, and nobody would ever know.
    IF NOT EXISTS (SELECT FROM postrider.message_slot) THEN
        PERFORM postrider.raise_no_reader();
    END IF;
    IF event_count <> ANY (ARRAY[coalesce(cardinality(payloads), 0), cardinality(idempotency_keys), cardinality(ordering_keys),
            cardinality(tenants), cardinality(headers), cardinality(traceparents), cardinality(types),
            cardinality(content_types), cardinality(partitions)]) THEN
        PERFORM postrider.raise_problem(ARRAY['the arrays differ in length',
            'give each array one element per event, NULL where there is nothing; or leave the array out']);
    END IF;
    IF event_count = 0 THEN
        RETURN '{}';
    END IF;
    SELECT n, problem INTO bad
      FROM (SELECT n, postrider.event_problem(e.topic, octet_length(e.payload), e.key, e.tenant, e.header,
                                              e.traceparent, e.part, false) AS problem
              FROM (SELECT generate_series(1, event_count) AS n, unnest(topics) AS topic, unnest(payloads) AS payload,
                           unnest(idempotency_keys) AS key, unnest(tenants) AS tenant, unnest(headers) AS header,
                           unnest(traceparents) AS traceparent, unnest(partitions) AS part) AS e) AS checked
     WHERE problem IS NOT NULL LIMIT 1;
    IF bad.n IS NOT NULL THEN
        PERFORM postrider.raise_problem(bad.problem, format('event %s of %s: ', bad.n, event_count));
    END IF;
    ids := ARRAY(SELECT gen_random_uuid() FROM generate_series(1, event_count));
    -- Each as postrider.emit writes it, but for the version. Arrays that are unnested side by side keep their order.
    events := ARRAY(
        SELECT decode('000b', 'hex')
            || postrider.message_text(e.id)
            || postrider.message_text(e.topic)
            || postrider.message_value(e.payload)
            || postrider.message_text(coalesce(e.key, concat(e.tenant || '/', e.id)))
            || postrider.message_text(e.ordering_key)
            || postrider.message_text(e.type)
            || postrider.message_text(e.content_type)
            || postrider.message_text(e.tenant)
            || postrider.message_text(e.part::text)
            || postrider.message_text(e.header::text)
            || postrider.message_text(e.traceparent)
          FROM (SELECT unnest(ids) AS id, unnest(topics) AS topic, unnest(payloads) AS payload,
                       unnest(idempotency_keys) AS key, unnest(ordering_keys) AS ordering_key, unnest(types) AS type,
                       unnest(content_types) AS content_type, unnest(tenants) AS tenant, unnest(partitions) AS part,
                       unnest(headers) AS header, unnest(traceparents) AS traceparent) AS e);
    -- Few of them go into one message, without more ado.
    pack := (SELECT version || string_agg(event, '') FROM unnest(events) AS event);
    IF octet_length(pack) <= pack_bytes_max THEN
        PERFORM pg_logical_emit_message(true, 'postrider', pack);
        RETURN ids;
    END IF;
    SELECT n, octet_length(event) + 1 AS bytes INTO bad
      FROM unnest(events) WITH ORDINALITY AS e (event, n) WHERE octet_length(event) + 1 > 16777216 LIMIT 1;
    IF bad.n IS NOT NULL THEN
        PERFORM postrider.raise_problem(ARRAY[format('the event has %s bytes', bad.bytes),
            'an event may have 16 MiB in all: put large things elsewhere and refer to them'],
            format('event %s of %s: ', bad.n, event_count));
    END IF;
    -- All of them in a row, cut into parts: those inside of a part go together, one that is cut goes alone.
    FOR pack IN
        SELECT version || string_agg(event, '' ORDER BY n)
          FROM (SELECT event, n, octet_length(event) AS bytes,
                       sum(octet_length(event)) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING) AS last
                  FROM unnest(events) WITH ORDINALITY AS e (event, n)) AS e
         GROUP BY (last - bytes) / pack_bytes_max, (last - 1) / pack_bytes_max
         ORDER BY (last - bytes) / pack_bytes_max, (last - 1) / pack_bytes_max
    LOOP
        PERFORM pg_logical_emit_message(true, 'postrider', pack);
    END LOOP;
    RETURN ids;
END
$$;
