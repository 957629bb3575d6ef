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
    wrong            text;
    hint             text;
    message          bytea;
BEGIN
    IF topic IS NULL OR topic COLLATE "C" !~ '^[A-Za-z0-9._-]{1,249}$' OR topic IN ('.', '..') THEN
        wrong := 'topic is no name that Kafka allows';
        hint := 'Use 1 to 249 of the characters a-z A-Z 0-9 . _ - and neither "." nor "..".';
    ELSIF key = '' OR octet_length(key) > 512 THEN
        wrong := format('idempotency_key has %s bytes', octet_length(key));
        hint := 'Use 1 to 512 bytes; without a key one is made, of the tenant and a uuid.';
    ELSIF json_typeof(headers) <> 'object' THEN
        wrong := format('headers is of type %s', json_typeof(headers));
        hint := 'Use a JSON object, whose members become headers of the record.';
    ELSIF traceparent COLLATE "C" !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        wrong := 'traceparent is not of the form of W3C Trace Context';
        hint := 'It looks like 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.';
    ELSIF "partition" < 0 THEN
        wrong := format('partition is %s', "partition");
        hint := 'Use 0 or more, or NULL to let the key decide.';
    ELSIF octet_length(payload) > 16777216 THEN
        -- Not even put together.
        wrong := format('payload has %s bytes', octet_length(payload));
        hint := 'An event may have 16 MiB in all: keep large content elsewhere and publish where it is.';
    ELSE
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
            wrong := format('the event has %s bytes', octet_length(message));
            hint := 'An event may have 16 MiB in all: keep large content elsewhere and publish where it is.';
        END IF;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'postrider.emit: %', wrong USING ERRCODE = '22023', HINT = hint;
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
