-- Many events without a table by one call, packed into few messages: a message by itself costs the server,
-- and the relay, more than the event in it.

CREATE FUNCTION postrider.emit_batch_bytes(
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

COMMENT ON FUNCTION postrider.emit_batch_bytes IS 'postrider.emit_batch for payloads of bytes.';

CREATE FUNCTION postrider.emit_batch(
    topics text[], payloads json[], idempotency_keys text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    tenants text[] DEFAULT NULL, headers json[] DEFAULT NULL, traceparents text[] DEFAULT NULL, types text[] DEFAULT NULL,
    content_types text[] DEFAULT NULL, partitions int[] DEFAULT NULL)
    RETURNS text[]
    -- Not SQL, which would plan it again with each call.
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN postrider.emit_batch_bytes(topics,
        ARRAY(SELECT convert_to(payload::text, 'UTF8') FROM (SELECT unnest(payloads) AS payload) AS e),
        idempotency_keys, ordering_keys, tenants, headers, traceparents, types, content_types, partitions);
END
$$;

COMMENT ON FUNCTION postrider.emit_batch IS 'postrider.emit for many events: an array for each argument. They are published in the order of the arrays, and so are the ids that it returns.';

-- As for postrider.emit.
REVOKE ALL ON FUNCTION postrider.emit_batch_bytes, postrider.emit_batch FROM PUBLIC;
