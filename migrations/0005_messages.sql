-- Events without a table: a transactional message in the log, which a relay with postgres.messages
-- = true publishes like a row of an outbox.

-- One value as the log has a row's: 'n' for NULL; else 't', the length and the bytes.
CREATE FUNCTION postrider.message_value(value bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce('t'::bytea || int4send(octet_length(value)) || value, 'n'::bytea);

COMMENT ON FUNCTION postrider.message_value IS 'A value as postrider.emit writes it.';

-- The database's text becomes UTF-8: a message comes out of the log as it was written.
CREATE FUNCTION postrider.message_text(value text) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN postrider.message_value(convert_to(value, 'UTF8'));

COMMENT ON FUNCTION postrider.message_text IS 'A text as postrider.emit writes it.';

CREATE FUNCTION postrider.emit_bytes(
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

COMMENT ON FUNCTION postrider.emit_bytes IS 'Publishes an event without a table once this transaction has committed; returns its id. The payload is the value of the record, byte for byte; NULL publishes a tombstone.';

CREATE FUNCTION postrider.emit(
    topic           text,
    payload         json,
    idempotency_key text DEFAULT NULL,
    ordering_key    text DEFAULT NULL,
    tenant          text DEFAULT NULL,
    headers         json DEFAULT NULL,
    traceparent     text DEFAULT NULL,
    type            text DEFAULT NULL,
    content_type    text DEFAULT NULL,
    "partition"     int  DEFAULT NULL
) RETURNS text
    LANGUAGE sql VOLATILE SECURITY DEFINER
    -- Read when it was created: no path can give its names another meaning.
    RETURN postrider.emit_bytes(topic, convert_to(payload::text, 'UTF8'), idempotency_key,
        ordering_key, tenant, headers, traceparent, type, content_type, "partition");

COMMENT ON FUNCTION postrider.emit IS 'Publishes an event without a table once this transaction has committed; returns its id. The payload is kept byte for byte; NULL publishes a tombstone.';

-- Who may emit is granted explicitly.
REVOKE ALL ON FUNCTION postrider.message_value, postrider.message_text, postrider.emit_bytes,
    postrider.emit FROM PUBLIC;
